//! Changes of the stored state, as data. schedd writes the changes to the spool. A simulation has
//! no spool, and uses only a few of the changes.

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
use crate::model::job::undo::UserAction;
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

/// Key of a charge: the job, the attempt, and the number of the charge within the attempt. The
/// charge at the end of the attempt has number 0.
pub type ChargePart = (JobId, Attempt, u32);

/// Ids of the two groups of waiting jobs to which a job belongs. Verdicts (reasons why jobs wait)
/// are stored by group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerdictClasses {
    /// Id of the group of jobs that are equal in everything the scheduler uses.
    pub class: u64,
    /// Id of the group of jobs with equal requests.
    pub shape: u64,
}

/// One change of the stored state. All updates of one tick (one turn of schedd's loop) are one
/// transaction.
#[derive(Clone, Debug)]
pub enum Update {
    /// A new job or a job with a changed `spec`, with its verdict classes if known.
    Job(Arc<Job>, Option<VerdictClasses>),
    /// A submission: the submitter's uid, the submission's token (a random value with which qsub
    /// repeats a submission safely), the created job, and the submission time.
    Token(u32, [u8; 16], JobId, Time),
    /// A job with a changed `life`, or a subjob that has just started, with its verdict classes if
    /// known.
    Life(Arc<Job>, Option<VerdictClasses>),
    /// An array, and the changes of its stored subjob states.
    Elements(JobId, Rewrite),
    /// Removes a finished job, or a finished array, from the history. [`Update::Sweep`] removes the
    /// script and environment, [`Update::Clear`] the events and the subjobs. Charges and accounting
    /// entries stay.
    Forget(JobId),
    /// Removes from the database the scripts and environments that no job uses. This update reads
    /// every job.
    Sweep,
    /// Removes a limited number of events and subjobs of jobs removed from the history.
    Clear,
    /// A script or an environment, with its digest.
    Blob(Digest, Arc<[u8]>),
    /// An entry of a job's history: time, job, event.
    Event(Time, JobId, Event),
    /// A new or changed dependency between jobs, with its state.
    Tie(Tie, effects::TieState),
    /// Why the jobs of a group, or a single job, do not start. The number is the id of the group or
    /// the key of the job. The time is the last change of the reason code. None removes the reason.
    Verdict(u64, Option<(Reason, Time)>),
    /// A job and its planned start; None removes the planned start.
    Promise(JobId, Option<PromisedStart>),
    /// The usage charged for an attempt or a part of it. A charge that is already stored under this
    /// key stays unchanged.
    Charge(ChargePart, Box<Charge>),
    /// Removes all charges that ended before this time.
    ForgetCharges(Time),
    /// The end time and accounting entry of a finished attempt, or of a job that ended without a
    /// start. An entry that is already stored for this attempt stays unchanged.
    Entry(Time, Box<AccountingEntry>),
    /// Removes a limited number of accounting entries with an end before this time.
    ForgetEntries(Time),
    /// The record of a scheduling cycle. The spool keeps the last [`CycleRecord::KEPT`] records.
    Cycle(CycleRecord),
    /// The name of a system-wide resource and its last reported count; None removes the count.
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
    /// An entry of a reservation's history: time, reservation, event.
    ReservationEvent(Time, String, Happened),
    /// A time on schedd's clock, and the milliseconds by which the wall clock is ahead of schedd's
    /// clock from that time on.
    ClockStep(Time, i64),
    /// A single value by name, as JSON.
    Meta(&'static str, String),
    /// The last action of the user with this uid, for `lanai undo`, with the position of its first
    /// job that is not stored yet. Position 0 replaces the stored action; None removes it.
    UserAction(u32, Option<Arc<UserAction>>, usize),
    /// Removes the tokens of all submissions before this time.
    ForgetTokens(Time),
    /// Removes from the history all jobs that finished before this time, except those with an open
    /// attempt. Also removes the scripts and environments that only these jobs used, and the events
    /// of deleted reservations before this time.
    Purge(Time),
}
