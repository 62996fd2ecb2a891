//! Triggers of scheduling cycles (Q1, X2): the events that cause a new cycle. Events that arrive
//! together trigger a single cycle.

use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::model::job::undo::UndoKind;
use crate::model::job::{Job, NodeShare, Run};
use crate::model::job_id::JobId;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Maximum number of triggers listed; further triggers are only counted.
const MOST: usize = 16;

/// Trigger of a scheduling cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Resources on this host became free.
    SlotFree(String),
    /// The free amount of this system-wide resource has increased (Q14).
    ResourceFree(String),
    /// The reported counts of this system-wide resource have changed, but its free amount has not
    /// increased.
    Resource(String),
    /// A job has changed.
    Job(JobChange, JobId),
    /// A node has appeared, disappeared or changed.
    Node(String),
    /// A reservation was created, began, ended or changed.
    Reservation(String),
    /// A time was reached for which the scheduler waited.
    Timer(AwaitedMoment),
    /// The allocation script has answered, or a hook has permitted a start.
    Answer,
    /// The configuration or a setting of qmgr has changed.
    Config,
    /// The scheduler has started.
    Begin,
    /// A scenario requested a cycle.
    Asked,
    /// The interval between periodic cycles has ended (Q30). A periodic cycle also considers
    /// changes that triggered no cycle.
    Poll,
}

/// Change of a job that triggers a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobChange {
    /// The job was submitted.
    Submit,
    /// A hold was released, or a user requested that the job resume.
    Release,
    /// The job was queued again, for another attempt or a rerun.
    Retry,
    /// The job's start time was reached, or a dependency no longer blocks the job.
    Unblock,
    /// Attributes, queue, position, dependencies or holds were changed, or a hook refused the
    /// start.
    Alter,
    /// A user requested that the scheduler consider the deferred job now.
    Shove,
    /// The node reported the start of the job, so the expected end is known.
    Launch,
    /// The job or some of its subjobs no longer wait: they were deleted, were moved to another
    /// installation (nested or parent), or can never run.
    Delete,
}

/// Kind of time for which the scheduler waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AwaitedMoment {
    /// Time set by the last cycle: a planned start is due, a reservation begins, the deferral of a
    /// job ends, or the order of jobs changes.
    Plan,
    /// Start or end of prime time or dedicated time.
    Calendar,
    /// Time to retry a failed disk write.
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
    /// Returns the kind of the trigger in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Trigger::SlotFree(_) => "slot_free",
            Trigger::ResourceFree(_) => "resource_free",
            Trigger::Resource(_) => "resource",
            Trigger::Job(change, _) => change.word(),
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

    /// Returns the kind and the name of the object that changed, such as `host` and `n1`. For a
    /// timer, returns `for` and the kind of time. None for other triggers without an object.
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

/// Formats as `slot_free:n1`, `shove:3`, `poll`.
impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.about() {
            Some((_, what)) => write!(f, "{}:{what}", self.word()),
            None => f.write_str(self.word()),
        }
    }
}

/// Triggers since the last cycle, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Triggers {
    /// First triggers, up to a maximum, without duplicates.
    pub first: Vec<Trigger>,
    /// Number of further triggers. A repetition counts, unless the trigger is in `first`.
    pub more: u64,
}

impl Triggers {
    /// Adds a trigger.
    pub fn note(&mut self, trigger: Trigger) {
        if self.first.contains(&trigger) {
        } else if self.first.len() < MOST {
            self.first.push(trigger)
        } else {
            self.more += 1
        }
    }

    /// Tests whether no trigger was added.
    pub fn are_none(&self) -> bool {
        self.first.is_empty()
    }

    /// Tests whether the periodic trigger is listed.
    pub fn have_poll(&self) -> bool {
        self.first.contains(&Trigger::Poll)
    }

    /// Adds the triggers for an event that was applied to a job. `closed` is the attempt that the
    /// event ended, if any. An action of the scheduler itself, such as a start, only adds triggers
    /// for the resources that it frees.
    pub fn note_event(&mut self, event: &Event, job: &Job, closed: Option<&Run>) {
        if let Some(run) = closed {
            self.note_freed(run.shares.iter());
        }
        let change = match event {
            Event::Submitted => JobChange::Submit,
            Event::Released { .. } => JobChange::Release,
            Event::Due
            | Event::DependencyMet { .. }
            | Event::LabelMet { .. }
            | Event::RivalReturned { .. } => JobChange::Unblock,
            Event::FailedRerun { .. } | Event::Retried { .. } => JobChange::Retry,
            Event::Undone { action, .. } => match action {
                UndoKind::Hold => JobChange::Release,
                UndoKind::Release | UndoKind::Alter => JobChange::Alter,
                UndoKind::Cancel => JobChange::Retry,
            },
            Event::Ended { .. } | Event::Vanished { .. }
                if waits_for_retry(job) && closed.is_some() =>
            {
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
            | Event::Idle { .. }
            | Event::IdleEnded { .. }
            | Event::RerunWanted { .. }
            | Event::CheckpointWanted { .. }
            | Event::CheckpointFailed { .. }
            | Event::Preempted { .. }
            | Event::SuspendWanted { .. }
            | Event::Resumed { .. }
            | Event::RoomMade { .. }
            | Event::RequestGrown { .. }
            | Event::Signalled { .. }
            | Event::RunWanted { .. }
            | Event::Messaged { .. } => return,
        };
        self.note(Trigger::Job(change, job.id));
    }

    /// Adds the triggers for the hosts and system-wide resources of freed shares.
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

/// Tests whether a job waits for another attempt after its attempt has ended.
fn waits_for_retry(job: &Job) -> bool {
    matches!(
        job.life.state,
        JobState::Queued | JobState::Waiting | JobState::Held
    )
}

/// Formats as `slot_free:n1, submit:4 and 3 more`.
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

/// Record of a scheduling cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CycleRecord {
    /// Number of the cycle; the first cycle of the installation has number 1.
    pub number: u64,
    /// Start time.
    pub at: Time,
    /// Events that triggered the cycle.
    pub triggers: Triggers,
    /// Number of jobs considered. If a job is refused for a reason that holds for its class or its
    /// request group, the other jobs of that class or group are not considered.
    pub considered: u64,
    /// Number of jobs started.
    pub started: u64,
    /// Number of jobs preempted.
    pub preempted: u64,
    /// Duration in microseconds.
    pub took: u64,
}

impl CycleRecord {
    /// Number of cycle records that the spool keeps.
    pub const KEPT: u64 = 1000;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_are_listed_once_and_up_to_a_maximum() {
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
    fn triggers_are_equal_after_serialization() {
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
