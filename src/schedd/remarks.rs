//! The comment beside a job that its state alone does not tell: who held it, why it could not be
//! started, that its node is silent. All other comments are made when they are shown.

use crate::model::event::Event;
use crate::model::job::{How, Job};
use crate::model::state::{Holds, State};
use crate::model::time::{Time, Wall};
use chrono::{DateTime, Local};

/// The comment after `event`: Some(None) clears it, None leaves it.
pub fn comment(job: &Job, event: &Event, wall: impl Fn(Time) -> Wall) -> Option<Option<String>> {
    let now = || shown(wall(job.life.mtime));
    match event {
        Event::Held { by, .. } => {
            let user = by.split('@').next().unwrap_or(by);
            Some(Some(format!("Job held by {user} on {}", now())))
        }
        Event::Released { .. } if job.life.holds.is_none() => Some(None),
        Event::Started { .. } | Event::Launched { .. } | Event::ContactRegained => Some(None),
        Event::FailedRerun { .. } => Some(None),
        Event::ContactLost { node } => Some(Some(format!("Lost contact with node {node} on {}", now()))),
        Event::Ended { outcome, .. } => Some(after_end(job, &outcome.how)),
        Event::DependencyBroken { why, .. } => Some(Some(why.clone())),
        Event::Vanished { why, .. } => Some(lost(job, why)),
        _ => None,
    }
}

/// As PBS dates a hold: `Fri Nov 11 17:57:05 2016`, in the server's time zone.
fn shown(wall: Wall) -> String {
    let time = DateTime::from_timestamp(wall.0, 0).unwrap_or_default();
    time.with_timezone(&Local).format("%a %b %e %H:%M:%S %Y").to_string()
}

fn after_end(job: &Job, how: &How) -> Option<String> {
    match how {
        How::CannotStart { why, .. } => Some(format!("Job could not be started: {why}")),
        How::ShepherdLost => lost(job, "its shepherd was killed"),
        How::NodeFault(why) if job.life.holds.contains(Holds::SYSTEM) => {
            Some(format!("job held, too many failed attempts to run: {why}"))
        }
        How::NodeFault(why) if job.life.state == State::Queued => {
            Some(format!("Not Running: Job start failed, tried again shortly: {why}"))
        }
        _ => None,
    }
}

/// A job that may be run again is back in its queue; any other is told why it ended.
fn lost(job: &Job, why: &str) -> Option<String> {
    (job.life.state == State::Finished).then(|| format!("Job was lost: {why}, and it may not be run again"))
}
