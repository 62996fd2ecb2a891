//! How fast the whole of Lanai is: real commands, real daemons, real jobs, each figure beside what
//! the machine itself can do, measured in the same run.
//!
//! `cargo bench --bench system`. Absolute figures drift from machine to machine and from minute to
//! minute: the ratios are what to compare. `LANAI_BENCH_JOBS=100` makes a quick run of it (1,000
//! jobs otherwise), `LANAI_BENCH_REPEATS=1` measures each figure once (three times otherwise, the
//! median counts), `LANAI_BENCH_ONLY=submit,queue` only these parts.

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

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Jobs of a run; ten times as many are queued for the listings.
    pub jobs: usize,
    /// How often each figure is measured.
    pub repeats: usize,
    /// The parts wanted; empty: all.
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

    fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == part)
    }
}

fn main() -> Result<()> {
    // Cargo runs benches without this flag only when it means to test.
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
        if scale.wants(name) {
            measure(&scale, &limits, &mut report)?;
        }
    }
    report.end()
}
