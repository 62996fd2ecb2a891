//! An array of a thousand jobs, and the cost of a million waiting subjobs.

use crate::Scale;
use crate::figures::median;
use crate::machine::Limits;
use crate::report::{Better, Figure, Report};
use crate::stage::{Stage, must, wall};
use anyhow::Result;
use std::time::Instant;

const MANY: usize = 1_000_000;

/// Measures arrays, without login shells.
pub fn measure(scale: &Scale, limits: &Limits, report: &mut Report) -> Result<()> {
    let rates = (0..scale.repeats)
        .map(|_| released(scale))
        .collect::<Result<Vec<_>>>()?;
    report.add(Figure {
        what: format!("an array of {}, released", scale.jobs),
        unit: "/s",
        value: median(&rates),
        limit: Some(limits.shepherd_rate),
        target: Some(700.0),
        better: Better::More,
    });
    let (submit, memory) = many()?;
    for (what, unit, value, target) in [
        ("qsub of", "ms", submit, 50.0),
        ("schedd's memory for", "MiB", memory, 10.0),
    ] {
        report.add(Figure {
            what: format!("{what} an array of {MANY}"),
            unit,
            value,
            limit: None,
            target: Some(target),
            better: Better::Less,
        });
    }
    Ok(())
}

/// The starts per second, from the time at which the array may start.
fn released(scale: &Scale) -> Result<f64> {
    let stage = Stage::begin(false)?;
    stage.stop_starts()?;
    must(&mut stage.array(scale.jobs))?;
    let begun = wall();
    stage.allow_starts()?;
    let last = stage.stamps(scale.jobs)?.into_iter().fold(begun, f64::max);
    stage.drain()?;
    stage.end()?;
    Ok(scale.jobs as f64 * 1000.0 / (last - begun))
}

/// The milliseconds of the submission, and the growth of schedd in MiB.
fn many() -> Result<(f64, f64)> {
    let stage = Stage::begin(false)?;
    stage.stop_starts()?;
    let before = stage.memory()?;
    let begun = Instant::now();
    must(&mut stage.array(MANY))?;
    let submit = begun.elapsed().as_secs_f64() * 1000.0;
    let memory = stage.memory()? - before;
    must(stage.lanai_command("qdel").arg("1[]"))?;
    stage.end()?;
    Ok((submit, memory))
}
