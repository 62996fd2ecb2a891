//! The comment of a job: somebody's, else the scheduler's latest reason, else what its state says.
//! Every job has one, because there are clients that rely on it.

use super::place;
use super::when;
use crate::model::job::{Exit, Job, Run, Want};
use crate::model::state::State;
use crate::model::time::ClockTable;
use crate::wire::message::Record;
use std::borrow::Cow;

/// The `Exit_status` of a job ended over its walltime.
const OVER_WALLTIME: i32 = -29;

/// The comment of a job.
pub fn of<'a>(record: &'a Record, clock: &ClockTable) -> Cow<'a, str> {
    let job = &record.job;
    match (&job.life.comment, &record.reason) {
        (Some(comment), _) => Cow::Borrowed(comment),
        (None, Some(reason)) if job.life.state == State::Queued => Cow::Owned(reason.to_string()),
        (None, _) => by_state(job, clock),
    }
}

fn by_state<'a>(job: &Job, clock: &ClockTable) -> Cow<'a, str> {
    match (job.life.state, &job.life.run) {
        (State::Queued, _) => "Not Running: Not yet considered by the scheduler".into(),
        (State::Held, _) => format!("Job held: {}", job.life.holds).into(),
        (State::Waiting, _) => waiting(job).into(),
        (State::Running, Some(run)) if run.session.is_none() => started("was sent for execution", run, clock).into(),
        (State::Running, Some(run)) => started("run", run, clock).into(),
        (State::Running, None) => "Job is being started".into(),
        (State::Finished, Some(run)) => format!("{}{}", started("run", run, clock), ending(job)).into(),
        (State::Finished, None) => format!("Job was never started{}", ending(job)).into(),
    }
}

fn waiting(job: &Job) -> String {
    match job.spec.begin {
        Some(begin) => format!("Not Running: Waiting until {}", when::ctime(begin)),
        None => "Not Running: Waiting for its time".to_string(),
    }
}

fn started(said: &str, run: &Run, clock: &ClockTable) -> String {
    let at = when::comment_time(clock.wall(run.started));
    format!("Job {said} at {at} on {}", place::exec_vnode(&run.shares))
}

/// How it ended, by its exit status.
fn ending(job: &Job) -> String {
    match (job.life.exit, &job.life.want) {
        (Some(Exit { deleted: true, .. }) | None, Want::Gone(by)) => format!(" and terminated by {by}"),
        (Some(Exit { deleted: true, .. }) | None, _) => " and terminated".to_string(),
        (Some(Exit { status: 0, .. }), _) => " and finished".to_string(),
        (Some(Exit { status: OVER_WALLTIME, .. }), _) => " and exceeded resource walltime".to_string(),
        (Some(_), _) => " and failed".to_string(),
    }
}
