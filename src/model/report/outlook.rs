//! What is foreseen of jobs that wait: when, where, or why not. Told to whoever asks, never kept.

use super::fair_share_status::FairShareReport;
use crate::model::job_id::JobId;
use crate::model::reason::Reason;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// What is foreseen of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foreseen {
    /// Which job; of an array, each element that is foreseen to start, and the array for the rest.
    pub job: JobId,
    /// What becomes of it.
    pub prospect: Prospect,
}

/// What becomes of a job if nobody does anything and jobs end at their walltimes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prospect {
    /// It starts.
    Starts {
        /// When.
        at: Time,
        /// When its walltime is over.
        end: Time,
        /// On which nodes, each once.
        nodes: Vec<String>,
    },
    /// Nothing that happens by itself lets it start.
    Waits(Reason),
    /// Not as far as was looked: the [`Horizon`] tells how far that is.
    Beyond,
}

/// How far the cycle was run forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Horizon {
    /// From when.
    pub from: Time,
    /// Up to when.
    pub until: Time,
    /// How many cycles that took.
    pub cycles: u64,
    /// Whether there was nothing more to be seen; else the allowance was used up.
    pub is_whole: bool,
}

/// So much is free for so long from now on, beside all promises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeWindow {
    /// How often what was asked for fits; processors if nothing was.
    pub copies: u64,
    /// On how many nodes.
    pub nodes: u64,
    /// A job started now must be over by then; None if it may stay for ever.
    pub lasts: Option<Span>,
}

/// A job that has what another needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupant {
    /// Which.
    pub job: JobId,
    /// When its walltime is over.
    pub end: Time,
    /// The nodes that both are, or will be, on.
    pub nodes: Vec<String>,
}

/// A job that came later and started earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overtaker {
    /// Which.
    pub job: JobId,
    /// When it started.
    pub started: Time,
    /// When its walltime is over.
    pub end: Time,
}

/// Nodes that cannot take a chunk of a job, all for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// The reason's stable name: one of [`crate::model::reason::CODES`].
    pub code: String,
    /// The resource it is about, if it is about one.
    pub resource: Option<String>,
    /// What is asked of that, as shown.
    pub requested: Option<String>,
    /// The least and the most that one of the nodes has of it, as shown.
    pub found: Option<(String, String)>,
    /// In words, as said of the first node.
    pub said: Option<String>,
    /// Whether it would be so though nobody were there.
    pub never: bool,
    /// How many nodes.
    pub nodes: u64,
    /// The first of them, at most [`Survey::MOST`].
    pub named: Vec<String>,
}

/// What every node says to one chunk of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// The chunk, as `ncpus=4:mem=8gb`.
    pub chunk: String,
    /// On how many nodes there is room for it.
    pub fitting: u64,
    /// The first of these, at most [`Survey::MOST`].
    pub named: Vec<String>,
    /// The others, by reason, in the order of the stages.
    pub rejections: Vec<Rejection>,
}

impl Survey {
    /// How many nodes are named at most for one reason.
    pub const MOST: usize = 8;
}

/// A limit that is in a job's way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Barrier {
    /// As it is called where it is set: `max_run_subjobs`, the name of a resource.
    pub limit: String,
    /// How much it lets through.
    pub value: String,
    /// How much of that is in use.
    pub used: String,
    /// By which jobs, as far as that is known: the first.
    #[serde(default)]
    pub by: Vec<JobId>,
    /// How many more there are.
    #[serde(default)]
    pub more: u64,
}

/// A job's place among those that wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRank {
    /// How many go before it; None if so many that they were not counted.
    pub before: Option<u64>,
    /// How many wait in all, itself included.
    pub waiting: u64,
    /// Its cluster, where the order goes by clusters: on the nodes of that cluster it precedes the
    /// jobs of all others.
    #[serde(default)]
    pub cluster: Option<String>,
}

/// Why a job waits, stage by stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Which job.
    pub job: JobId,
    /// The first refusal; None if the next cycle starts it.
    pub reason: Option<Reason>,
    /// All there are, each stage looked at for itself, the earliest first.
    pub objections: Vec<Reason>,
    /// The limits that are in its way.
    pub barriers: Vec<Barrier>,
    /// Its place among those that wait.
    pub rank: Option<QueueRank>,
    /// What the nodes say; None where no request was held against any.
    pub survey: Option<Survey>,
    /// The longest walltime with which it would start now, where a shorter one helps.
    pub shorter: Option<Span>,
    /// What becomes of it.
    pub prospect: Prospect,
    /// How far was looked for that.
    pub horizon: Horizon,
    /// How many jobs that wait start before it.
    pub ahead: u64,
    /// Whose ends it waits for, soonest first; at most [`Explanation::MOST`].
    pub occupants: Vec<Occupant>,
    /// How many more they are.
    pub more: u64,
    /// Running jobs that came later, latest start first; at most [`Explanation::MOST`].
    pub overtakers: Vec<Overtaker>,
    /// Whether others could make way for it; None where nobody does.
    pub way: Option<PreemptionOutlook>,
    /// What its operation is owed now, and has, where who has less for too long has others make
    /// way.
    pub fair_share: Option<FairShareReport>,
}

/// Whether running jobs make way for one that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreemptionOutlook {
    /// These do.
    Made(Vec<JobId>),
    /// None does, of so many that come after it in what counts.
    Barred {
        /// Those that could be asked.
        candidates: u64,
        /// Those besides whose owners want them left alone.
        protected: u64,
    },
}

impl PreemptionOutlook {
    /// Its stable name, one of the codes of reasons.
    pub fn code(&self) -> &'static str {
        match self {
            PreemptionOutlook::Made(_) => "awaiting_victims",
            PreemptionOutlook::Barred {
                candidates: 0,
                protected: 0,
            } => "no_victims",
            PreemptionOutlook::Barred { candidates: 0, .. } => "protected_victims",
            PreemptionOutlook::Barred { .. } => "futile",
        }
    }
}

impl Explanation {
    /// How many other jobs are named at most.
    pub const MOST: usize = 20;
}
