//! Submission without starts: single `qsub` commands, in sequence and in parallel.

use crate::Scale;
use crate::figures::{median, quantile, timed};
use crate::machine::Limits;
use crate::report::{Better, Figure, Report};
use crate::stage::{Stage, must};
use anyhow::Result;

const ONES: usize = 50;

/// Measures submission.
pub fn measure(scale: &Scale, limits: &Limits, report: &mut Report) -> Result<()> {
    let stage = Stage::begin(false)?;
    stage.stop_starts()?;
    let figure = |what: &str, unit, value, limit, target, better| Figure {
        what: what.to_string(),
        unit,
        value,
        limit: Some(limit),
        target: Some(target),
        better,
    };
    let times = ones(scale, &stage)?;
    let least = limits.submit();
    report.add(figure(
        "one submit, p50",
        "ms",
        quantile(&times, 0.5),
        least,
        1.0,
        Better::Less,
    ));
    report.add(Figure {
        target: None,
        ..figure(
            "one submit, p95",
            "ms",
            quantile(&times, 0.95),
            least,
            0.0,
            Better::Less,
        )
    });
    let rate = rate(scale, &stage, 1)?;
    report.add(figure(
        "submits, one at a time",
        "/s",
        rate,
        1000.0 / least,
        800.0,
        Better::More,
    ));
    let rate = self::rate(scale, &stage, 4)?;
    report.add(figure(
        "submits, four at a time",
        "/s",
        rate,
        limits.start_command_rate,
        1500.0,
        Better::More,
    ));
    stage.end()
}

fn ones(scale: &Scale, stage: &Stage) -> Result<Vec<f64>> {
    let one = |number| {
        let (time, done) = timed(|| must(&mut stage.qsub(number)));
        done.map(|()| time)
    };
    (0..ONES * scale.repeats).map(one).collect()
}

fn rate(scale: &Scale, stage: &Stage, submitters: usize) -> Result<f64> {
    let one = |_| {
        let (time, done) = timed(|| stage.submit(scale.jobs, submitters));
        done.map(|()| scale.jobs as f64 * 1000.0 / time)
    };
    Ok(median(
        &(0..scale.repeats).map(one).collect::<Result<Vec<_>>>()?,
    ))
}
