//! The speed of the whole system: real commands, daemons and jobs. Each figure is reported with the
//! machine's own bound, measured in the same run.
//!
//! `cargo bench --bench system`. Absolute figures vary between machines and over time: compare the
//! ratios. `LANAI_BENCH_JOBS=100` makes a short run (default 1,000 jobs). `LANAI_BENCH_REPEATS=1`
//! measures each figure once (default three times, reporting the median).
//! `LANAI_BENCH_ONLY=submit,queue` selects parts.

#![allow(
    clippy::disallowed_methods,
    reason = "a measurement starts programs and reads the clock"
)]

mod figures;
mod machine;
mod parts;
mod report;
mod stage;

use anyhow::Result;
use report::Report;

/// The size of the measurement.
#[derive(Clone, Debug)]
pub struct Scale {
    /// The number of jobs of a run. The listings have ten times as many.
    pub jobs: usize,
    /// The number of measurements of each figure.
    pub repeats: usize,
    /// The selected parts; empty for all.
    only: Vec<String>,
}

impl Scale {
    fn of_environment() -> Scale {
        let text = |name| std::env::var(name).ok();
        let number = |name, usual| {
            text(name)
                .and_then(|text: String| text.parse().ok())
                .unwrap_or(usual)
        };
        let only = text("LANAI_BENCH_ONLY").unwrap_or_default();
        Scale {
            jobs: number("LANAI_BENCH_JOBS", 1000),
            repeats: number("LANAI_BENCH_REPEATS", 3),
            only: only
                .split(',')
                .filter(|part| !part.is_empty())
                .map(String::from)
                .collect(),
        }
    }

    fn is_selected(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == part)
    }
}

fn main() -> Result<()> {
    // Cargo passes this flag for benchmarks, not for tests.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let scale = Scale::of_environment();
    let mut report = Report::begin()?;
    let limits = machine::measure(&scale)?;
    report.limits(&limits);
    let parts: [(&str, parts::Part); 6] = [
        ("submit", parts::submit::measure),
        ("latency", parts::latency::measure),
        ("through", parts::through::measure),
        ("login", parts::through::measure_login),
        ("array", parts::array::measure),
        ("queue", parts::queue::measure),
    ];
    for (name, measure) in parts {
        if scale.is_selected(name) {
            measure(&scale, &limits, &mut report)?;
        }
    }
    report.end()
}
