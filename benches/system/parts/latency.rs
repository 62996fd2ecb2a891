//! The time from `qsub` to the first action of the job, on an idle system.

use crate::Scale;
use crate::figures::quantile;
use crate::machine::Limits;
use crate::report::{Better, Figure, Report};
use crate::stage::{Stage, must, wall};
use anyhow::Result;
use std::thread;
use std::time::Duration;

const ONES: usize = 20;

/// Measures the latency.
pub fn measure(scale: &Scale, limits: &Limits, report: &mut Report) -> Result<()> {
    let stage = Stage::begin(false)?;
    let times = (0..ONES * scale.repeats)
        .map(|number| one(&stage, number))
        .collect::<Result<Vec<_>>>()?;
    for (name, share, target) in [("p50", 0.5, 5.0), ("p95", 0.95, 8.0)] {
        report.add(Figure {
            what: format!("submit to start, idle system, {name}"),
            unit: "ms",
            value: quantile(&times, share),
            limit: Some(limits.start()),
            target: Some(target),
            better: Better::Less,
        });
    }
    stage.end()
}

fn one(stage: &Stage, number: usize) -> Result<f64> {
    // Varies the pause, so that it is not in phase with periodic work.
    thread::sleep(Duration::from_millis(20 + (number as u64 * 37) % 61));
    let before = wall();
    must(&mut stage.qsub(number))?;
    Ok(stage
        .stamps(number + 1)?
        .last()
        .copied()
        .unwrap_or(f64::NAN)
        - before)
}
