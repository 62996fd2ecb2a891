//! Forecast queries. Only a running schedd can answer them: the spool stores decisions, not
//! forecasts.

use super::message::NewJob;
use crate::model::account::charge::Used;
use crate::model::job_id::JobId;
use crate::model::limit::usage::LimitUse;
use crate::model::policy::fair_share::{Method, UsageSubject};
use crate::model::reason::Reason;
use crate::model::report::fair_share_status::FairShareReport;
use crate::model::report::outlook::{Explanation, Foreseen, FreeWindow, Horizon};
use crate::model::report::queue_place::{Neighbours, QueueTurn};
use crate::model::report::share_status::ShareStatus;
use crate::model::system_resource::PoolUse;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};

/// A forecast query of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForecastQuery {
    /// `qstat --start`: when these jobs start; all waiting jobs if none are named. Answered by
    /// [`ForecastAnswer::Horizon`], then [`ForecastAnswer::Foreseen`].
    Starts(Vec<JobId>),
    /// `qstat --holes`: the free windows for jobs with this request. Answered by
    /// [`ForecastAnswer::Windows`].
    Windows(Box<NewJob>),
    /// `qstat --why`: why a job waits. Answered by [`ForecastAnswer::Explained`].
    Why(JobId),
    /// `qsub --dry-run`: when a job would start if it were submitted now. It is validated as at
    /// submission; nothing is stored. Answered by [`ForecastAnswer::Tried`].
    Trial(Box<NewJob>),
    /// `qstat --usage`: usage by account and user, raw and decayed. Answered by
    /// [`ForecastAnswer::Usage`].
    Usage,
    /// `qstat --priority` with job ids: the queue positions of these jobs, and why. Answered by
    /// [`ForecastAnswer::Placed`].
    Places(Vec<JobId>),
    /// `qstat --priority`: the queue in the order of a cycle, or its first N jobs. Answered by
    /// [`ForecastAnswer::Queue`].
    Queue(Option<u64>),
    /// `qstat -f`: the computed priorities of these jobs; of all waiting jobs if none are named.
    /// Answered by [`ForecastAnswer::Scores`].
    Scores(Vec<JobId>),
    /// `qstat --shares`: the fair-share tree, entitlement and usage by account and user. Answered
    /// by [`ForecastAnswer::Shares`], then [`ForecastAnswer::FairShareReports`].
    Shares,
    /// `qstat --limits`: the limits in force and their usage. Answered by
    /// [`ForecastAnswer::Limits`].
    Limits,
    /// `qstat --resources`: the system-wide resources and their users. Answered by
    /// [`ForecastAnswer::Resources`].
    Resources,
}

/// A part of the answer to a forecast query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ForecastAnswer {
    /// The time that the forecast covers.
    Horizon(Horizon),
    /// Forecast starts in order, then the jobs without one; several parts.
    Foreseen(Vec<Foreseen>),
    /// The windows, widest first; or why no such job could ever start.
    Windows(Result<Vec<FreeWindow>, Reason>),
    /// The explanation; None for a job that does not wait for the scheduler.
    Explained(Option<Box<Explanation>>),
    /// The forecast for a job, as if it were eligible.
    Tried {
        /// Why the job would wait, or when it would start, under the number it would get now.
        explanation: Box<Explanation>,
        /// Whether the job would be held instead, by the user's request or by a dependency.
        held: bool,
    },
    /// Usage by account and user; several parts.
    Usage {
        /// Time of the answer.
        at: Time,
        /// By account, then by user.
        used: Vec<Used>,
    },
    /// Queue positions of waiting jobs, first to last; several parts.
    Placed {
        /// Length of the queue.
        all: u64,
        /// Time of the answer.
        at: Time,
        /// The priority formula, if the order uses one.
        formula: Option<String>,
        /// The requested jobs that wait.
        places: Vec<Neighbours>,
    },
    /// The queue, first to last; several parts.
    Queue {
        /// Length of the queue.
        all: u64,
        /// Time of the answer.
        at: Time,
        /// The priority formula, if the order uses one.
        formula: Option<String>,
        /// The jobs of this part.
        turns: Vec<QueueTurn>,
    },
    /// The computed priorities of waiting jobs; several parts, none if the order computes no
    /// priorities.
    Scores(Vec<(JobId, f64)>),
    /// The fair-share tree, each account before its children; several parts.
    Shares {
        /// Time of the answer.
        at: Time,
        /// How fair-share factors derive from shares and usage.
        method: Method,
        /// The usage that counts for a job: of its user, account or pool.
        subject: UsageSubject,
        /// Accounts and users.
        shares: Vec<ShareStatus>,
    },
    /// Current fair share and usage of pools and operations, each pool before its members; several
    /// parts, none if starvation is not tracked.
    FairShareReports(Vec<FairShareReport>),
    /// The limits in force, in the order of the configuration; several parts.
    Limits {
        /// Time of the answer.
        at: Time,
        /// Each limit, with its usage per user, group or account.
        uses: Vec<LimitUse>,
    },
    /// The system-wide resources, in the order of the configuration; several parts.
    Resources {
        /// Time of the answer.
        at: Time,
        /// Each resource with its usage.
        resources: Vec<PoolUse>,
    },
}
