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
        (Some(comment), _) if job.id.is_array() && job.life.state == State::Finished => {
            Cow::Owned(format!("{comment}{}", ending(job)))
        }
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
        (State::Begun, _) => array_began(job, clock).into(),
        (State::Finished, None) if job.life.began.is_some() => {
            format!("{}{}", array_began(job, clock), ending(job)).into()
        }
        (State::Finished | State::Expired, Some(run)) => {
            format!("{}{}", started("run", run, clock), ending(job)).into()
        }
        (State::Finished | State::Expired, None) if job.id.index().is_some() => {
            format!("Subjob finished{}", ending(job)).into()
        }
        (State::Finished | State::Expired, None) => format!("Job was never started{}", ending(job)).into(),
    }
}

fn array_began(job: &Job, clock: &ClockTable) -> String {
    let at = job.life.began.map(|began| when::comment_time(clock.wall(began)).to_string());
    format!("Job Array Began at {}", at.unwrap_or_default())
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

#[cfg(test)]
mod tests {
    use super::super::example::{self, finished, queued, running, share};
    use super::*;
    use crate::model::reason::Reason;

    fn shown(record: &Record) -> String {
        of(record, &example::server().clock).into_owned()
    }

    #[test]
    fn every_state_has_a_comment() {
        let day = when::comment_time(example::server().clock.wall(example::SUBMITTED)).to_string();
        let job = running(queued(1, "a", ""), vec![share(2, Some("512mb"))]);
        let ran = format!("Job run at {day} on (head:ncpus=2:mem=524288kb)");
        assert_eq!(shown(&job), ran);
        assert_eq!(shown(&finished(job.clone(), 0, false)), format!("{ran} and finished"));
        assert_eq!(shown(&finished(job.clone(), 3, false)), format!("{ran} and failed"));
        assert_eq!(shown(&finished(job.clone(), -29, false)), format!("{ran} and exceeded resource walltime"));
        let mut deleted = finished(job, 271, true);
        deleted.job.life.want = Want::Gone("alice@head".into());
        assert_eq!(shown(&deleted), format!("{ran} and terminated by alice@head"));
        deleted.job.life.run = None;
        assert_eq!(shown(&deleted), "Job was never started and terminated by alice@head");
    }

    #[test]
    fn an_array_says_when_it_began_and_how_it_ended() {
        let began = when::comment_time(example::server().clock.wall(example::SUBMITTED));
        let mut record = example::array(queued(1, "a", ""), "1-3");
        let never = Record { job: record.job.unrecorded(2).unwrap(), ..record.clone() };
        assert!(shown(&never).starts_with("Not Running: "));
        assert_eq!(shown(&finished(never, 271, true)), "Subjob finished and terminated");
        record.job.life.began = Some(example::SUBMITTED);
        record.job.life.state = State::Begun;
        assert_eq!(shown(&record), format!("Job Array Began at {began}"));
        let failed = finished(record.clone(), 1, false);
        assert_eq!(shown(&failed), format!("Job Array Began at {began} and failed"));
        record.job.life.want = Want::Gone("alice@head".into());
        let deleted = finished(record, 271, true);
        assert_eq!(shown(&deleted), format!("Job Array Began at {began} and terminated by alice@head"));
    }

    #[test]
    fn a_reason_counts_while_the_job_is_queued_and_an_own_comment_always() {
        let mut record = queued(1, "a", "");
        assert!(shown(&record).starts_with("Not Running: "));
        record.reason = Some(Reason::QueueStopped);
        assert_eq!(shown(&record), "Not Running: Queue not started.");
        record.job.life.state = State::Held;
        record.job.life.holds = crate::model::state::Holds::USER;
        assert_eq!(shown(&record), "Job held: u");
        record.job.life.comment = Some("mine".into());
        assert_eq!(shown(&record), "mine");
    }
}
