//! Forecasts for waiting jobs: start times, nodes, or reasons. Forecasts are computed on request
//! and never stored.

use super::fair_share_status::FairShareReport;
use crate::model::job_id::JobId;
use crate::model::reason::Reason;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};

/// Forecast for a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobForecast {
    /// Job id. Each subjob that starts in the forecast has its own entry. The entry of the array
    /// stands for all its other subjobs.
    pub job: JobId,
    /// Forecast for the job.
    pub prospect: Prospect,
    /// Range of the start; None if the forecast contains no start, or if no run times of past jobs
    /// contribute to it.
    #[serde(default)]
    pub range: Option<StartRange>,
}

/// Estimated range of a start. It is an estimate, because the run times of past jobs predict the
/// run times of running and waiting jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRange {
    /// Half of the wait if the jobs ahead run as short as the shortest tenth of the past jobs like
    /// them.
    pub earliest: Time,
    /// One and a half times the wait if the jobs ahead run as long as the longest tenth of the past
    /// jobs like them.
    pub latest: Time,
}

/// Run time of a job, predicted from past jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTimeEstimate {
    /// Past jobs from which the run time is predicted.
    pub basis: EstimateBasis,
    /// Run time that half of these jobs did not exceed.
    pub median: Span,
    /// Run time that nine tenths of these jobs did not exceed.
    pub long: Span,
    /// Run time of the longest of these jobs.
    pub longest: Span,
}

/// Past jobs from which the run time of a job is predicted, with their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EstimateBasis {
    /// Jobs of the same user with the same name.
    Name(u64),
    /// Jobs of the same user with the same script or command.
    Program(u64),
    /// Jobs of the same user with the same number of processors.
    Size(u64),
    /// Jobs of all users: the shares of their walltimes that they used.
    Walltimes(u64),
}

/// Forecast for a job, if no user intervenes and every job runs as long as past jobs like it,
/// or, without such jobs, until the end of its walltime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prospect {
    /// The job starts.
    Starts {
        /// Start time.
        at: Time,
        /// End of the walltime.
        end: Time,
        /// Nodes, each once.
        nodes: Vec<String>,
    },
    /// The job does not start until a user or administrator changes something.
    Waits(Reason),
    /// The job does not start within the [`Horizon`].
    Beyond,
    /// The start depends on the end of this job, which has neither a walltime nor past jobs like
    /// it.
    Unknown(JobId),
}

/// Range of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Horizon {
    /// Start of the range.
    pub from: Time,
    /// End of the range.
    pub until: Time,
    /// Number of simulated cycles.
    pub cycles: u64,
    /// True if the simulation ended by itself, because all jobs or the job in question had started,
    /// or because nothing changes later. False if its budget, such as the number of cycles, was
    /// used up.
    pub is_whole: bool,
}

/// Resources that a job can use from the present time on without delaying planned starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeWindow {
    /// Number of copies of the request that fit; without a request, number of processors.
    pub copies: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Time for which the resources are free; None for no limit.
    pub lasts: Option<Span>,
}

/// Running job that ends by the forecast start of a waiting job and shares nodes with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupant {
    /// Id of the running job.
    pub job: JobId,
    /// End of the walltime of the running job.
    pub end: Time,
    /// Nodes that both jobs use.
    pub nodes: Vec<String>,
}

/// Running job that was behind a waiting job in the queue, and started after the waiting job
/// became eligible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overtaker {
    /// Job id.
    pub job: JobId,
    /// Start time.
    pub started: Time,
    /// End of the job's walltime.
    pub end: Time,
}

/// Nodes that cannot take a chunk of a job, all for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// Stable code of the reason: one of [`crate::model::reason::CODES`], or `amount.` and the
    /// resource.
    pub code: String,
    /// Resource that the nodes lack, if the reason names a resource.
    pub resource: Option<String>,
    /// Requested amount of the resource, as displayed.
    pub requested: Option<String>,
    /// Smallest and largest amount on these nodes, as displayed; None if the reason is not about
    /// an amount.
    pub found: Option<(String, String)>,
    /// Text of the reason, for the first node.
    pub said: Option<String>,
    /// True if the chunk would not fit on the empty nodes either.
    pub never: bool,
    /// Number of nodes.
    pub nodes: u64,
    /// Names of the first nodes, at most [`Survey::MOST`].
    pub named: Vec<String>,
}

/// Result of matching one chunk of a job with every node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// Chunk, such as `ncpus=4:mem=8gb`.
    pub chunk: String,
    /// Number of nodes that can take the chunk.
    pub fitting: u64,
    /// Names of the first fitting nodes, at most [`Survey::MOST`].
    pub named: Vec<String>,
    /// All other nodes, grouped by reason, in the order of the scheduler's stages.
    pub rejections: Vec<Rejection>,
}

impl Survey {
    /// Maximum number of nodes in `named`.
    pub const MOST: usize = 8;
}

/// Limit that blocks a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockingLimit {
    /// `max_run_subjobs`, the name of a system-wide resource, or a description of the limit, such
    /// as `limit on running jobs of user ann`.
    pub limit: String,
    /// Value of the limit.
    pub value: String,
    /// Amount in use.
    pub used: String,
    /// First jobs that count toward the limit, as far as known.
    #[serde(default)]
    pub by: Vec<JobId>,
    /// Number of further jobs that count toward the limit.
    #[serde(default)]
    pub more: u64,
}

/// Position of a job among the waiting jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRank {
    /// Number of jobs ahead; None if there are too many jobs to count.
    pub before: Option<u64>,
    /// Number of waiting jobs, including the job itself. Each waiting subjob counts.
    pub waiting: u64,
    /// Cluster of the job, if the order depends on clusters: on the nodes of that cluster, the
    /// job precedes the jobs of all other clusters.
    #[serde(default)]
    pub cluster: Option<String>,
}

/// Explanation why a job waits, by stage of the scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Job id.
    pub job: JobId,
    /// First reason; None if the next cycle starts the job.
    pub reason: Option<Reason>,
    /// All reasons, each stage evaluated independently, in the order of the stages.
    pub objections: Vec<Reason>,
    /// Limits that block the job.
    pub barriers: Vec<BlockingLimit>,
    /// Position among the waiting jobs.
    pub rank: Option<QueueRank>,
    /// Results of node matching; None if the next cycle starts the job.
    pub survey: Option<Survey>,
    /// Longest walltime with which the job could start immediately; None if a shorter walltime
    /// does not help.
    pub shorter: Option<Span>,
    /// Forecast for the job.
    pub prospect: Prospect,
    /// Range of the start, as in [`JobForecast::range`].
    #[serde(default)]
    pub range: Option<StartRange>,
    /// Predicted run time of the job; None without past jobs like it.
    #[serde(default)]
    pub run_time: Option<RunTimeEstimate>,
    /// Range of the simulation that made the forecast.
    pub horizon: Horizon,
    /// Number of starts in the forecast before the start of this job; all starts if this job does
    /// not start.
    pub ahead: u64,
    /// Running jobs that use nodes on which this job is forecast to start, and that end by then;
    /// soonest end first, at most [`Explanation::MOST`].
    pub occupants: Vec<Occupant>,
    /// Number of further jobs beyond `occupants`.
    pub more: u64,
    /// Running jobs that have overtaken this job, latest start first; at most
    /// [`Explanation::MOST`].
    pub overtakers: Vec<Overtaker>,
    /// Preemption prospects; None if preemption is off, or if the job does not wait for resources
    /// in use.
    pub way: Option<PreemptionOutlook>,
    /// Fair share and usage of the job's operation, if starvation triggers preemption.
    pub fair_share: Option<FairShareReport>,
}

/// Prospects of preemption for a waiting job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreemptionOutlook {
    /// These jobs are being preempted.
    Made(Vec<JobId>),
    /// No job is preempted, because none may be, or because preemption would not help.
    Barred {
        /// Number of running jobs that may be preempted, added up over the triggers.
        candidates: u64,
        /// Number of running jobs that their owners exempt from preemption, added up over the
        /// triggers.
        protected: u64,
    },
}

impl PreemptionOutlook {
    /// Returns the stable reason code.
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
    /// Maximum number of jobs in `occupants` and in `overtakers`.
    pub const MOST: usize = 20;

    /// Returns true if the job starts only after a user or an administrator has changed something.
    pub fn needs_change(&self) -> bool {
        matches!(self.prospect, Prospect::Waits(_))
    }
}
