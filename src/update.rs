//! What the server stores on disk, as data: the spool writes it, and a simulation ignores it.

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

/// A charge's job and attempt, and its number within the attempt: 0 for the charge at its end.
pub type ChargePart = (JobId, Attempt, u32);

/// The groups of waiting jobs that share a scheduling verdict with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerdictClasses {
    /// The jobs alike in everything.
    pub class: u64,
    /// Those that ask for the same.
    pub shape: u64,
}

/// One change of what is stored on disk. All updates of a tick are one transaction.
#[derive(Clone, Debug)]
pub enum Update {
    /// A new job, or one whose `spec` has changed; with what the scheduler sorts it into.
    Job(Arc<Job>, Option<VerdictClasses>),
    /// By which token a user submitted a job, and when.
    Token(u32, [u8; 16], JobId, Time),
    /// A job whose `life` has changed, or an element that has just begun; with what the scheduler
    /// sorts it into, if that is known.
    Life(Arc<Job>, Option<VerdictClasses>),
    /// How elements of an array stand.
    Elements(JobId, Rewrite),
    /// A job out of the history, an array with its elements; its script and environment go with
    /// [`Update::Sweep`], the rest with [`Update::Clear`].
    Forget(JobId),
    /// The scripts and environments that no job needs any more: this looks at every job.
    Sweep,
    /// A portion of what is still there of jobs out of the history.
    Clear,
    /// A script or an environment.
    Blob(Digest, Arc<[u8]>),
    /// What happened to a job, and when.
    Event(Time, JobId, Event),
    /// A bond between jobs, new or changed.
    Tie(Tie, effects::TieState),
    /// Why the jobs of a class do not start.
    Verdict(u64, Option<(Reason, Time)>),
    /// The start promised to a job, or that none is any more.
    Promise(JobId, Option<PromisedStart>),
    /// What an attempt that is over is charged; once it is written, that stands.
    Charge(ChargePart, Box<Charge>),
    /// All charges for what was over before are kept no longer.
    ForgetCharges(Time),
    /// An attempt that is over, and when that was; once it is written, that stands.
    Entry(Time, Box<AccountingEntry>),
    /// A portion of the entries of what was over before is kept no longer.
    ForgetEntries(Time),
    /// A look of the scheduler; the last [`CycleRecord::KEPT`] are kept.
    Cycle(CycleRecord),
    /// What was last told of a resource of the whole system; None for nothing that counts.
    ReportedCount(String, Option<ReportedCount>),
    /// A node.
    Node(Box<Node>),
    /// A node by name, of which nothing is known any more.
    NodeGone(String),
    /// All queues there are.
    Queues(Vec<Queue>),
    /// All that `qmgr` has said.
    QmgrOverrides(Arc<QmgrOverrides>),
    /// A reservation, new or changed.
    Reservation(Arc<Reservation>),
    /// A reservation that is no more.
    ReservationGone(String),
    /// What happened to a reservation, and when.
    ReservationEvent(Time, String, Happened),
    /// From this moment on the wall clock stands so many milliseconds ahead.
    ClockStep(Time, i64),
    /// A single fact by name, as JSON.
    Meta(&'static str, String),
    /// All tokens of submissions before.
    ForgetTokens(Time),
    /// All finished jobs out of the history that ended before, with the blobs nobody else needs.
    Purge(Time),
}
