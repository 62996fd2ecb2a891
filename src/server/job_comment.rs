//! The stored job comment. It reports facts that the job's state does not show, such as the user
//! who held the job, a failed start, or a lost contact with a node. All other comments are computed
//! for display.

use crate::model::job::How;
use crate::model::job::Job;
use crate::model::job::deferral::Deferral;
use crate::model::job::event::Event;
use crate::model::job::growth::GrownResource;
use crate::model::job::preemption::job_list_text;
use crate::model::job::state::Holds;
use crate::model::job::state::JobState;
use crate::model::job::undo::UndoKind;
use crate::model::time::Time;
use chrono::NaiveDateTime;

/// The job's comment after `event`: Some(None) clears the comment, None keeps it. `server` is the
/// server's name. `civil` converts a time to the server's time zone.
pub fn comment(
    job: &Job,
    event: &Event,
    server: &str,
    civil: impl Fn(Time) -> NaiveDateTime,
) -> Option<Option<String>> {
    let now = || shown(civil(job.life.mtime));
    match event {
        Event::Held { by, .. } => {
            let user = by.split('@').next().unwrap_or(by);
            Some(Some(format!("Job held by {user} on {}", now())))
        }
        Event::Released { .. } if job.life.holds.is_none() => Some(None),
        Event::Started { .. } | Event::Launched { .. } | Event::ContactRegained => Some(None),
        Event::Idle { since, .. } => Some(Some(format!(
            "{IDLE}{}: the job uses almost no processor time",
            shown(civil(*since))
        ))),
        Event::IdleEnded { .. } => Some(None),
        // The old comment is the reason for the suspension.
        Event::Resumed { .. } => Some(None),
        Event::FailedRerun { .. } | Event::Retried { .. } => Some(None),
        Event::Shoved { .. } if job.life.deferral.is_some() => Some(None),
        Event::Undone { action, .. } => after_undo(job, *action),
        Event::StartRefused { why, .. } => {
            let begin = Deferral::HookRefused.comment();
            Some(Some(format!("{begin}{why}")))
        }
        Event::ContactLost { node } => {
            Some(Some(format!("Lost contact with node {node} on {}", now())))
        }
        Event::StartTimedOut { after, .. } => Some(Some(format!(
            "Job start not confirmed within {} s, being canceled",
            after.as_seconds()
        ))),
        Event::Preempted { .. } => preempted(job, "Job is preempted", server).map(Some),
        Event::RoomMade { by } => {
            let jobs = job_list_text(by, |job| job.full(server));
            Some(Some(format!(
                "Not Running: Waiting for preemption of {jobs}"
            )))
        }
        Event::Ended { .. } if was_preempted(job) => {
            Some(preempted(job, "Not Running: Job was preempted", server))
        }
        Event::Ended { outcome, .. } => Some(after_end(job, event, &outcome.how, &civil)),
        Event::RequestGrown { changes, .. } => {
            let before = job.life.comment.as_deref().unwrap_or(NOT_RUNNING);
            let (retry, most) = (job.life.retries, job.spec.retry);
            let grown = GrownResource::list(changes);
            Some(Some(format!(
                "{before}; retry {retry} of {most} requests {grown}"
            )))
        }
        Event::DependencyBroken { why, .. } => Some(Some(why.clone())),
        Event::Vanished { why, .. } => Some(lost(job, why)),
        _ => None,
    }
}

/// The start of the comment of an idle job.
const IDLE: &str = "Idle since ";
/// The beginning of the comment of a requeued job.
const NOT_RUNNING: &str = "Not Running: Job was requeued";

/// The comment of a preempted job: `what`, the preemptor and the cause.
/// The comment after the undo of an action. Comments that describe the action disappear.
fn after_undo(job: &Job, action: UndoKind) -> Option<Option<String>> {
    let comment = job.life.comment.as_deref()?;
    let is_of_action = match action {
        UndoKind::Hold => comment.starts_with("Job held by ") && job.life.holds.is_none(),
        UndoKind::Cancel => comment.starts_with("Job deleted as result of dependency"),
        UndoKind::Release | UndoKind::Alter => false,
    };
    is_of_action.then_some(None)
}

fn preempted(job: &Job, what: &str, server: &str) -> Option<String> {
    let preemption = job.life.preemption.as_ref()?;
    Some(format!(
        "{what}: {}",
        preemption.describe(|job| job.full(server))
    ))
}

/// Why the start of a job is deferred (retried later) after `event`; None if it is not deferred.
pub fn deferral(job: &Job, event: &Event) -> Option<Deferral> {
    let how = match event {
        Event::StartRefused { .. } => return Some(Deferral::HookRefused),
        Event::Ended { outcome, .. } if !was_preempted(job) => &outcome.how,
        _ => return None,
    };
    let is_tried_again = job.life.state == JobState::Queued && job.life.failed_starts > 0;
    let is_held = job.life.holds.contains(Holds::SYSTEM);
    match how {
        How::AwaitsFiles(_) => Some(Deferral::FilesMissing),
        How::NodeFault(_) | How::Cancelled if is_held => None,
        How::NodeFault(_) | How::Cancelled | How::Signaled(_) if is_tried_again => {
            Some(Deferral::StartFailed)
        }
        _ => None,
    }
}

/// Whether the last attempt was ended by preemption and the job is queued again.
fn was_preempted(job: &Job) -> bool {
    let is_victim = job
        .life
        .run
        .as_ref()
        .is_some_and(|run| job.was_preempted(run));
    job.life.state == JobState::Queued && is_victim
}

/// A date as in PBS: `Fri Nov 11 17:57:05 2016`, in the server's time zone.
fn shown(civil: NaiveDateTime) -> String {
    civil.format("%a %b %e %H:%M:%S %Y").to_string()
}

fn after_end(
    job: &Job,
    event: &Event,
    how: &How,
    civil: &impl Fn(Time) -> NaiveDateTime,
) -> Option<String> {
    let is_held = job.life.holds.contains(Holds::SYSTEM);
    let deferral = deferral(job, event);
    match how {
        How::CannotStart { why, .. } => Some(format!("Job could not be started: {why}")),
        How::AwaitsFiles(files) => {
            let begin = Deferral::FilesMissing.comment();
            let at = job.life.not_before;
            let at = at.map_or(String::new(), |at| format!(" on {}", shown(civil(at))));
            Some(format!("{begin}{at}: {files}"))
        }
        How::ShepherdLost => lost(
            job,
            "the shepherd (the process that runs the job) was killed",
        ),
        How::NodeFault(why) if is_held => Some(held(why)),
        How::NodeFault(why) if deferral.is_some() => Some(deferred(job, why, civil)),
        How::Cancelled if is_held => Some(held(UNCONFIRMED)),
        How::Cancelled | How::Signaled(_) if deferral.is_some() => {
            Some(deferred(job, UNCONFIRMED, civil))
        }
        How::Overran { .. } | How::Exceeded { .. } if job.life.state == JobState::Queued => {
            Some(format!("{NOT_RUNNING}: {}", how.excess()?))
        }
        _ => None,
    }
}

/// The reason given for a start that the node never confirmed.
const UNCONFIRMED: &str = "the node did not confirm the start in time";

fn held(why: &str) -> String {
    format!("job held, too many failed attempts to run: {why}")
}

/// The comment of a job after a failed start that is retried later (M10).
fn deferred(job: &Job, why: &str, civil: &impl Fn(Time) -> NaiveDateTime) -> String {
    let begin = Deferral::StartFailed.comment();
    match job.life.not_before {
        Some(moment) => format!("{begin}on {}: {why}", shown(civil(moment))),
        None => format!("{begin}shortly: {why}"),
    }
}

/// The comment of a lost job that is not run again; None if the job is queued again.
fn lost(job: &Job, why: &str) -> Option<String> {
    (job.life.state == JobState::Finished)
        .then(|| format!("Job was lost: {why}; it will not be rerun"))
}
