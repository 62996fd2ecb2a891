//! Why the scheduler looks (Q1, X2): what has happened since it looked last. Several things that
//! came together are one cycle, which names them all.

use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::model::job::{Job, NodeShare, Run};
use crate::model::job_id::JobId;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// So many are told apart; of the others it is told how many there were.
const MOST: usize = 16;

/// One reason to look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// A job, or a task of one, has ended on this host, or has given it back.
    SlotFree(String),
    /// There is more of this resource of the whole system than before (Q14).
    ResourceFree(String),
    /// There is less of it, or nothing more.
    Resource(String),
    /// Something has happened to a job.
    Job(JobChange, JobId),
    /// A node is there, is gone, or is another than before.
    Node(String),
    /// A reservation was made, begins, ends, or is another than before.
    Reservation(String),
    /// A moment has come.
    Timer(AwaitedMoment),
    /// A program of the site has said what it was asked.
    Answer,
    /// Another policy, queue or resource than before.
    Config,
    /// The scheduler has begun.
    Begin,
    /// An operator has asked for it.
    Asked,
    /// Nothing is known to have happened: it looks once in a while, should that have been lost
    /// (Q30).
    Poll,
}

/// What has happened to a job that makes it, or others, worth a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobChange {
    /// It was submitted.
    Submit,
    /// A hold of it was released.
    Release,
    /// It is to run again.
    Retry,
    /// Its begin time has come, or what it waited for has happened.
    Unblock,
    /// Somebody has changed it, its place or its holds, or a hook has put it off.
    Alter,
    /// An operator wants it looked at now.
    Shove,
    /// It has begun, says its node: from now on it is known when it ends.
    Launch,
    /// It waits no more: deleted, or never to run.
    Delete,
}

/// For which moment was waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AwaitedMoment {
    /// That at which the last cycle wanted to look again: a promise is due, a window opens,
    /// somebody is no longer put off, it is others' turn.
    Plan,
    /// Another part of the calendar: prime time, dedicated time.
    Calendar,
    /// That at which what the disk refused is tried again.
    Disk,
}

impl JobChange {
    fn word(self) -> &'static str {
        match self {
            JobChange::Submit => "submit",
            JobChange::Release => "release",
            JobChange::Retry => "retry",
            JobChange::Unblock => "unblock",
            JobChange::Alter => "alter",
            JobChange::Shove => "shove",
            JobChange::Launch => "launch",
            JobChange::Delete => "delete",
        }
    }
}

impl AwaitedMoment {
    fn word(self) -> &'static str {
        match self {
            AwaitedMoment::Plan => "plan",
            AwaitedMoment::Calendar => "calendar",
            AwaitedMoment::Disk => "disk",
        }
    }
}

impl Trigger {
    /// Its kind, in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Trigger::SlotFree(_) => "slot_free",
            Trigger::ResourceFree(_) => "resource_free",
            Trigger::Resource(_) => "resource",
            Trigger::Job(turn, _) => turn.word(),
            Trigger::Node(_) => "node",
            Trigger::Reservation(_) => "reservation",
            Trigger::Timer(_) => "timer",
            Trigger::Answer => "answer",
            Trigger::Config => "config",
            Trigger::Begin => "begin",
            Trigger::Asked => "asked",
            Trigger::Poll => "poll",
        }
    }

    /// What it is about, and of which kind that is: `host`, `n1`.
    pub fn about(&self) -> Option<(&'static str, String)> {
        Some(match self {
            Trigger::SlotFree(host) => ("host", host.clone()),
            Trigger::ResourceFree(resource) | Trigger::Resource(resource) => {
                ("resource", resource.clone())
            }
            Trigger::Job(_, job) => ("job", job.to_string()),
            Trigger::Node(node) => ("node", node.clone()),
            Trigger::Reservation(id) => ("reservation", id.clone()),
            Trigger::Timer(moment) => ("for", moment.word().to_string()),
            Trigger::Answer | Trigger::Config | Trigger::Begin | Trigger::Asked | Trigger::Poll => {
                return None;
            }
        })
    }
}

/// `slot_free:n1`, `shove:3`, `poll`.
impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.about() {
            Some((_, what)) => write!(f, "{}:{what}", self.word()),
            None => f.write_str(self.word()),
        }
    }
}

/// All that has happened since the scheduler looked last, each thing once, first things first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Triggers {
    /// The first of them.
    pub first: Vec<Trigger>,
    /// How many more there were.
    pub more: u64,
}

impl Triggers {
    /// One more.
    pub fn note(&mut self, trigger: Trigger) {
        if self.first.contains(&trigger) {
        } else if self.first.len() < MOST {
            self.first.push(trigger)
        } else {
            self.more += 1
        }
    }

    /// Whether nothing is known to have happened.
    pub fn are_none(&self) -> bool {
        self.first.is_empty()
    }

    /// Whether it is time to look, whatever has happened.
    pub fn have_poll(&self) -> bool {
        self.first.contains(&Trigger::Poll)
    }

    /// What an event of a job comes to, once it has happened; `closed` is the attempt that is over
    /// by it. What the scheduler does itself is no reason for it to look.
    pub fn note_event(&mut self, event: &Event, job: &Job, closed: Option<&Run>) {
        if let Some(run) = closed {
            self.note_freed(run.shares.iter());
        }
        let turn = match event {
            Event::Submitted => JobChange::Submit,
            Event::Released { .. } => JobChange::Release,
            Event::Due
            | Event::DependencyMet { .. }
            | Event::LabelMet { .. }
            | Event::RivalReturned { .. } => JobChange::Unblock,
            Event::FailedRerun { .. } | Event::Retried { .. } => JobChange::Retry,
            Event::Ended { .. } | Event::Vanished { .. } if is_back(job) && closed.is_some() => {
                JobChange::Retry
            }
            Event::Shoved { .. } => JobChange::Shove,
            Event::Held { .. }
            | Event::Altered { .. }
            | Event::Moved { .. }
            | Event::Reordered { .. }
            | Event::Bound { .. }
            | Event::Named { .. }
            | Event::RivalBegan { .. }
            | Event::StartRefused { .. } => JobChange::Alter,
            Event::Launched { .. } => JobChange::Launch,
            Event::DeleteWanted { .. }
                if closed.is_none() && job.life.state == JobState::Finished =>
            {
                JobChange::Delete
            }
            Event::Taken { .. }
            | Event::DependencyBroken { .. }
            | Event::ElementsDeleted { .. } => JobChange::Delete,
            Event::Suspended { .. } => {
                return self.note_freed(job.life.run.iter().flat_map(|run| &run.shares));
            }
            Event::ResumeWanted { .. } => JobChange::Release,
            Event::NodesReleased { division, .. } => {
                return self.note_freed(division.released.iter());
            }
            Event::DeleteWanted { .. }
            | Event::Ended { .. }
            | Event::Vanished { .. }
            | Event::Started { .. }
            | Event::StartTimedOut { .. }
            | Event::Slipped { .. }
            | Event::ContactLost { .. }
            | Event::ContactRegained
            | Event::RerunWanted { .. }
            | Event::CheckpointWanted { .. }
            | Event::CheckpointFailed { .. }
            | Event::Preempted { .. }
            | Event::SuspendWanted { .. }
            | Event::Resumed { .. }
            | Event::RoomMade { .. }
            | Event::Signalled { .. }
            | Event::RunWanted { .. }
            | Event::Messaged { .. } => return,
        };
        self.note(Trigger::Job(turn, job.id));
    }

    /// What was taken is free again.
    pub fn note_freed<'a>(&mut self, shares: impl Iterator<Item = &'a NodeShare>) {
        let (mut hosts, mut resources) = (BTreeSet::new(), BTreeSet::new());
        for share in shares {
            hosts.insert(share.host.as_str());
            resources.extend(share.pooled.iter().map(|(resource, _)| resource.as_str()));
        }
        for host in hosts {
            self.note(Trigger::SlotFree(host.to_string()));
        }
        for resource in resources {
            self.note(Trigger::ResourceFree(resource.to_string()));
        }
    }
}

/// Whether a job whose attempt is over waits for another.
fn is_back(job: &Job) -> bool {
    matches!(
        job.life.state,
        JobState::Queued | JobState::Waiting | JobState::Held
    )
}

/// `slot_free:n1, submit:4 and 3 more`.
impl fmt::Display for Triggers {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (at, trigger) in self.first.iter().enumerate() {
            write!(f, "{}{trigger}", if at == 0 { "" } else { ", " })?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// One look of the scheduler, for the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CycleRecord {
    /// Which it was, counted from the first of this installation.
    pub number: u64,
    /// When.
    pub at: Time,
    /// Why.
    pub triggers: Triggers,
    /// How many jobs were looked at; the others shared a refusal.
    pub considered: u64,
    /// How many were started.
    pub started: u64,
    /// How many were told to make way.
    pub preempted: u64,
    /// How long it took, in microseconds.
    pub took: u64,
}

impl CycleRecord {
    /// So many are kept, the last ones.
    pub const KEPT: u64 = 1000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_together_is_told_once_and_no_more_than_can_be_read() {
        let mut triggers = Triggers::default();
        assert!(triggers.are_none());
        for round in 0..3 {
            triggers.note(Trigger::SlotFree("n1".into()));
            triggers.note(Trigger::Job(JobChange::Submit, JobId::job(4)));
            assert_eq!(
                (triggers.to_string().as_str(), triggers.are_none()),
                ("slot_free:n1, submit:4", false),
                "{round}"
            );
        }
        (5..100).for_each(|job| triggers.note(Trigger::Job(JobChange::Submit, JobId::job(job))));
        assert_eq!((triggers.first.len(), triggers.more), (16, 81));
        assert!(
            triggers.to_string().ends_with("submit:18 and 81 more"),
            "{triggers}"
        );
    }

    #[test]
    fn triggers_are_the_same_after_they_were_written_down() {
        let all = [
            Trigger::SlotFree("n1".into()),
            Trigger::ResourceFree("nuke".into()),
            Trigger::Job(JobChange::Shove, JobId::element(3, 7)),
            Trigger::Timer(AwaitedMoment::Plan),
            Trigger::Poll,
        ];
        let mut triggers = Triggers::default();
        all.into_iter().for_each(|trigger| triggers.note(trigger));
        let text = serde_json::to_string(&triggers).unwrap();
        assert_eq!(serde_json::from_str::<Triggers>(&text).unwrap(), triggers);
        assert_eq!(
            triggers.to_string(),
            "slot_free:n1, resource_free:nuke, shove:3[7], timer:plan, poll"
        );
    }
}
