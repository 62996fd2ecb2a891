//! Changes of the stored state, as data: the spool writes them, and a simulation ignores them.

use crate::config::overrides::QmgrOverrides;
use crate::model::account::accounting::AccountingEntry;
use crate::model::account::charge::Charge;
use crate::model::job::Attempt;
use crate::model::job::Digest;
use crate::model::job::Job;
use crate::model::job::array::Rewrite;
use crate::model::job::dependency::Tie;
use crate::model::job::dependency::effects;
use crate::model::job::event::Event;
use crate::model::job::promise::PromisedStart;
use crate::model::job_id::JobId;
use crate::model::node::Node;
use crate::model::queue::Queue;
use crate::model::reason::Reason;
use crate::model::reservation::Happened;
use crate::model::reservation::Reservation;
use crate::model::system_resource::ReportedCount;
use crate::model::time::Time;
use crate::model::trigger::CycleRecord;
use std::sync::Arc;

/// A charge's job, attempt and number within the attempt. The charge at the attempt's end has 0.
pub type ChargePart = (JobId, Attempt, u32);

/// The groups of waiting jobs that share a scheduling verdict with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerdictClasses {
    /// Jobs that are equal in everything the scheduler uses.
    pub class: u64,
    /// Jobs with equal requests.
    pub shape: u64,
}

/// One change of the stored state. All updates of a tick are one transaction.
#[derive(Clone, Debug)]
pub enum Update {
    /// A new job or a job with a changed `spec`, with its verdict classes if known.
    Job(Arc<Job>, Option<VerdictClasses>),
    /// The token of a user's submission, the job it created, and the submission time.
    Token(u32, [u8; 16], JobId, Time),
    /// A job with a changed `life`, or a subjob that has just started, with its verdict classes if
    /// known.
    Life(Arc<Job>, Option<VerdictClasses>),
    /// The states of an array's subjobs.
    Elements(JobId, Rewrite),
    /// Removes a finished job from the history, an array with its subjobs. [`Update::Sweep`]
    /// removes its script and environment, [`Update::Clear`] the rest.
    Forget(JobId),
    /// Removes the scripts and environments that no job uses any more. Checks every job.
    Sweep,
    /// Removes a batch of the remaining data of jobs removed from the history.
    Clear,
    /// A script or an environment.
    Blob(Digest, Arc<[u8]>),
    /// A time, and the event of a job at that time.
    Event(Time, JobId, Event),
    /// A new or changed dependency between jobs.
    Tie(Tie, effects::TieState),
    /// The reason why the jobs of a class do not start, and since when; None removes it.
    Verdict(u64, Option<(Reason, Time)>),
    /// The start promised to a job; None withdraws the promise.
    Promise(JobId, Option<PromisedStart>),
    /// The charge for a finished attempt. Later writes do not change it.
    Charge(ChargePart, Box<Charge>),
    /// Removes all charges for attempts that ended before this time.
    ForgetCharges(Time),
    /// The end time and accounting entry of a finished attempt. Later writes do not change it.
    Entry(Time, Box<AccountingEntry>),
    /// Removes a batch of the accounting entries of attempts that ended before this time.
    ForgetEntries(Time),
    /// A scheduling cycle. The last [`CycleRecord::KEPT`] are kept.
    Cycle(CycleRecord),
    /// The last reported count of a system-wide resource; None if no count is in force.
    ReportedCount(String, Option<ReportedCount>),
    /// A new or changed node.
    Node(Box<Node>),
    /// Removes a node by name.
    NodeGone(String),
    /// All queues.
    Queues(Vec<Queue>),
    /// All settings made with `qmgr`.
    QmgrOverrides(Arc<QmgrOverrides>),
    /// A reservation, new or changed.
    Reservation(Arc<Reservation>),
    /// Removes a reservation.
    ReservationGone(String),
    /// An event of a reservation, and its time.
    ReservationEvent(Time, String, Happened),
    /// From this time on the wall clock is this many milliseconds ahead.
    ClockStep(Time, i64),
    /// A named value, as JSON.
    Meta(&'static str, String),
    /// Removes all tokens of submissions before this time.
    ForgetTokens(Time),
    /// Removes all jobs that finished before this time from the history, with their unshared
    /// scripts and environments.
    Purge(Time),
}
