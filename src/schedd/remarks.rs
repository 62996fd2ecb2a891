//! The comment that `qstat` shows beside a job, after each event: PBS's words, with dates as the
//! server's time zone shows them.

use crate::model::event::Event;
use crate::model::job::{How, Job, Outcome, Share, Want};
use crate::model::state::{Holds, State};
use crate::model::time::{Time, Wall};
use chrono::{DateTime, Local};

/// The comment after `event`: Some(None) clears it, None leaves it.
pub fn comment(job: &Job, event: &Event, server: &str, wall: impl Fn(Time) -> Wall) -> Option<Option<String>> {
    let on = |time: Time, format: &str| shown(wall(time), format);
    match event {
        Event::Held { by, .. } => {
            let user = by.split('@').next().unwrap_or(by);
            Some(Some(format!("Job held by {user} on {}", on(job.life.mtime, "%a %b %e %H:%M:%S %Y"))))
        }
        Event::Released { .. } if job.life.holds.is_none() => Some(None),
        Event::Started { .. } => Some(Some(sent(job, "Job was sent for execution", on))),
        Event::Launched { .. } => Some(Some(sent(job, "Job run", on))),
        Event::Ended { .. } | Event::Vanished { .. } | Event::DeleteWanted { .. } => ended(job, event, server, on),
        _ => None,
    }
}

fn shown(wall: Wall, format: &str) -> String {
    let time = DateTime::from_timestamp(wall.0, 0).unwrap_or_default();
    time.with_timezone(&Local).format(format).to_string()
}

fn sent(job: &Job, what: &str, on: impl Fn(Time, &str) -> String) -> String {
    let Some(run) = &job.life.run else { return what.to_string() };
    format!("{what} at {} on {}", on(run.started, "%a %b %d at %H:%M"), exec_vnode(&run.shares))
}

/// `(n1:ncpus=4:mem=8388608kb)+(n2:ncpus=4)`.
pub fn exec_vnode(shares: &[Share]) -> String {
    let one = |share: &Share| {
        let taken: String = share.taken.iter().map(|(name, value)| format!(":{name}={value}")).collect();
        format!("({}{taken})", share.node)
    };
    shares.iter().map(one).collect::<Vec<_>>().join("+")
}

fn ended(job: &Job, event: &Event, server: &str, on: impl Fn(Time, &str) -> String) -> Option<Option<String>> {
    if job.life.state != State::Finished {
        return requeued(job, event);
    }
    let Some(run) = &job.life.run else {
        return match &job.life.want {
            Want::Gone(by) => Some(Some(format!("Job deleted by {by} before it ran"))),
            _ => None,
        };
    };
    let how = match (event, &job.life.want, job.life.exit) {
        (_, Want::Gone(by), _) if by.contains('@') => format!("terminated by {by}"),
        (_, Want::Gone(by), _) => format!("terminated by {by}@{server}"),
        (Event::Ended { outcome, .. }, _, exit) => match &outcome.how {
            How::Overran { .. } => "exceeded resource walltime".to_string(),
            How::CannotStart { why, .. } => format!("failed: cannot start: {why}"),
            How::ShepherdLost => "failed: its shepherd was killed".to_string(),
            _ if exit.is_some_and(|exit| exit.status == 0) => "finished".to_string(),
            _ => "failed".to_string(),
        },
        (Event::Vanished { why, .. }, ..) => format!("failed: {why}"),
        _ => "failed".to_string(),
    };
    let what = format!("Job run at {}", on(run.started, "%a %b %d at %H:%M"));
    Some(Some(format!("{what} on {} and {how}", exec_vnode(&run.shares))))
}

/// A job back in its queue says why, until the scheduler has something newer to say.
fn requeued(job: &Job, event: &Event) -> Option<Option<String>> {
    match event {
        _ if job.life.open_run().is_some() => None,
        Event::Ended { outcome: Outcome { how: How::NodeFault(why), .. }, .. } => Some(Some(match job.life.holds {
            holds if holds.contains(Holds::SYSTEM) => format!("job held, too many failed attempts to run: {why}"),
            _ => format!("Not Running: Job start failed, tried again shortly: {why}"),
        })),
        _ => Some(None),
    }
}
