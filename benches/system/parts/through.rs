//! Throughput of a thousand jobs: submitted four at a time while earlier ones run, or queued first
//! and then released.

use crate::Scale;
use crate::figures::median;
use crate::machine::Limits;
use crate::report::{Better, Figure, Report, spent};
use crate::stage::{Stage, wall};
use anyhow::Result;

const SUBMITTERS: usize = 4;

/// The results of a run.
struct Run {
    /// The starts per second.
    rate: f64,
    /// The processor seconds of all processes per thousand jobs.
    all: f64,
    /// The processor seconds of schedd per thousand jobs.
    schedd: f64,
}

/// Measures throughput without login shells.
pub fn measure(scale: &Scale, limits: &Limits, report: &mut Report) -> Result<()> {
    let runs = repeated(scale, false, run_during_submission)?;
    add(
        report,
        "submitted four at a time",
        &runs,
        limits.pair_rate,
        Some((500.0, 5.0)),
    );
    let runs = repeated(scale, false, run_after_submission)?;
    add(
        report,
        "queued, then released",
        &runs,
        limits.shepherd_rate,
        Some((700.0, 2.0)),
    );
    Ok(())
}

/// Measures throughput with the owner's login shell, as in PBS. Its profile belongs to the machine
/// and may be slow, so there are fewer jobs.
pub fn measure_login(scale: &Scale, limits: &Limits, report: &mut Report) -> Result<()> {
    let fewer = Scale {
        jobs: (scale.jobs / 10).max(10),
        ..scale.clone()
    };
    let runs = repeated(&fewer, true, run_after_submission)?;
    add(
        report,
        "queued, then released, login shell",
        &runs,
        limits.login_rate,
        None,
    );
    Ok(())
}

fn repeated(scale: &Scale, login: bool, one: fn(&Scale, bool) -> Result<Run>) -> Result<Vec<Run>> {
    (0..scale.repeats).map(|_| one(scale, login)).collect()
}

fn add(report: &mut Report, how: &str, runs: &[Run], limit: f64, target: Option<(f64, f64)>) {
    let middle = |of: fn(&Run) -> f64| median(&runs.iter().map(of).collect::<Vec<_>>());
    let figure = |what: &str, unit, value, limit, target, better| Figure {
        what: format!("{what}, {how}"),
        unit,
        value,
        limit,
        target,
        better,
    };
    let (rate, all) = target.unzip();
    report.add(figure(
        "jobs",
        "/s",
        middle(|run| run.rate),
        Some(limit),
        rate,
        Better::More,
    ));
    report.add(figure(
        "processor time of all processes, 1,000 jobs",
        "s",
        middle(|run| run.all),
        None,
        all,
        Better::Less,
    ));
    report.add(figure(
        "processor time of schedd, 1,000 jobs",
        "s",
        middle(|run| run.schedd),
        None,
        None,
        Better::Less,
    ));
}

/// Measures from the first submission to the last start.
fn run_during_submission(scale: &Scale, login: bool) -> Result<Run> {
    let before = spent()?;
    let stage = Stage::begin(login)?;
    let begun = wall();
    stage.submit(scale.jobs, SUBMITTERS)?;
    finish(scale, stage, begun, (before, 0.0))
}

/// Measures from the time at which jobs may start to the last start.
fn run_after_submission(scale: &Scale, login: bool) -> Result<Run> {
    let stage = Stage::begin(login)?;
    stage.stop_starts()?;
    stage.submit(scale.jobs, SUBMITTERS)?;
    let before = (spent()?, stage.schedd_seconds()?);
    let begun = wall();
    stage.allow_starts()?;
    let run = finish(scale, stage, begun, before)?;
    // The total includes what schedd spent on the submissions, as schedd was not reaped before.
    Ok(Run {
        all: run.all - before.1 * per_thousand(scale),
        ..run
    })
}

fn finish(scale: &Scale, stage: Stage, begun: f64, (all, schedd): (f64, f64)) -> Result<Run> {
    let last = stage.stamps(scale.jobs)?.into_iter().fold(begun, f64::max);
    stage.drain()?;
    let schedd = stage.schedd_seconds()? - schedd;
    stage.end()?;
    Ok(Run {
        rate: scale.jobs as f64 * 1000.0 / (last - begun),
        all: (spent()? - all) * per_thousand(scale),
        schedd: schedd * per_thousand(scale),
    })
}

fn per_thousand(scale: &Scale) -> f64 {
    1000.0 / scale.jobs as f64
}
