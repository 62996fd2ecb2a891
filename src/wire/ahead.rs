//! Queries for forecasts and for other results of the scheduler. Only a running schedd can answer
//! these queries, because the spool does not contain the results.

use super::message::NewJob;
use crate::model::account::charge::Used;
use crate::model::job_id::JobId;
use crate::model::limit::usage::LimitUse;
use crate::model::policy::fair_share::{Method, UsageSubject};
use crate::model::reason::Reason;
use crate::model::report::fair_share_status::FairShareReport;
use crate::model::report::outlook::{Explanation, FreeWindow, Horizon, JobForecast};
use crate::model::report::queue_place::{Neighbours, QueueTurn};
use crate::model::report::share_status::ShareStatus;
use crate::model::system_resource::PoolUse;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};

/// A query of a client that schedd answers with the help of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForecastQuery {
    /// `qstat --start`: when these jobs start; all waiting jobs if the list is empty. Answered by
    /// [`ForecastAnswer::Horizon`], then [`ForecastAnswer::JobForecast`].
    Starts(Vec<JobId>),
    /// `qstat --holes`: how many copies of this request fit on free resources now, and for how
    /// long. Answered by [`ForecastAnswer::Windows`].
    Windows(Box<NewJob>),
    /// `qstat --why`: why a job waits. A held job is explained as if it had no holds. Answered by
    /// [`ForecastAnswer::Explained`].
    Why(JobId),
    /// `qsub --dry-run`: when a job would start if it were submitted now. The job is validated as
    /// at submission, but not stored. Answered by [`ForecastAnswer::Tried`].
    Trial(Box<NewJob>),
    /// `qstat --usage`: usage by account and user, raw and decayed. Answered by
    /// [`ForecastAnswer::Usage`].
    Usage,
    /// `qstat --priority` with job ids: the positions of these jobs among all waiting jobs. Each
    /// position comes with the next job ahead and the next job behind. Answered by
    /// [`ForecastAnswer::Placed`].
    Places(Vec<JobId>),
    /// `qstat --priority`: all waiting jobs in the order in which a cycle considers them, or the
    /// first N of these jobs. Answered by [`ForecastAnswer::Queue`].
    Queue(Option<u64>),
    /// `qstat -f`: the computed priorities of these jobs; of all waiting jobs if the list is empty.
    /// Answered by [`ForecastAnswer::Scores`].
    Scores(Vec<JobId>),
    /// `qstat --shares`: the fair-share tree, entitlement and usage by account and user. Answered
    /// by [`ForecastAnswer::Shares`], then [`ForecastAnswer::FairShareReports`].
    Shares,
    /// `qstat --limits`: the configured limits and their usage. Answered by
    /// [`ForecastAnswer::Limits`].
    Limits,
    /// `qstat --resources`: the system-wide resources and their usage. Answered by
    /// [`ForecastAnswer::Resources`].
    Resources,
}

/// A part of the answer to a forecast query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ForecastAnswer {
    /// The time that the forecast covers.
    Horizon(Horizon),
    /// Jobs with a forecast start, in the order of the starts, then jobs without a forecast start;
    /// several parts.
    JobForecast(Vec<JobForecast>),
    /// The numbers of copies that fit now, each with the time for which they fit, the largest
    /// number first; empty if none fits. The error says why a job with this request can never
    /// start, or why something other than a lack of resources keeps it from starting now.
    Windows(Result<Vec<FreeWindow>, Reason>),
    /// The explanation; None for a job that does not wait.
    Explained(Option<Box<Explanation>>),
    /// The forecast for a job, as if the job were eligible.
    Tried {
        /// Why the job would wait, or when it would start. The explanation contains the job number
        /// that the job would get now.
        explanation: Box<Explanation>,
        /// True if the job would be held after submission, by the user's request or by a
        /// dependency.
        held: bool,
    },
    /// Usage by account and user; several parts.
    Usage {
        /// Time of the answer.
        at: Time,
        /// Usage, sorted by account, then by user.
        used: Vec<Used>,
    },
    /// Positions of waiting jobs, first to last; several parts.
    Placed {
        /// Number of all waiting jobs.
        all: u64,
        /// Time of the answer.
        at: Time,
        /// The priority formula, if the order uses one.
        formula: Option<String>,
        /// Requested jobs that wait.
        places: Vec<Neighbours>,
    },
    /// The waiting jobs, first to last; several parts.
    Queue {
        /// Number of all waiting jobs.
        all: u64,
        /// Time of the answer.
        at: Time,
        /// The priority formula, if the order uses one.
        formula: Option<String>,
        /// The jobs of this part.
        turns: Vec<QueueTurn>,
    },
    /// The computed priorities of waiting jobs, in several parts. There is no part if the
    /// configured order computes no priorities.
    Scores(Vec<(JobId, f64)>),
    /// The fair-share tree, each account before its children; several parts.
    Shares {
        /// Time of the answer.
        at: Time,
        /// Method that computes fair-share factors from shares and usage.
        method: Method,
        /// Entity of a job: user, account or pool. The usage of this entity determines the
        /// fair-share factor of the job.
        subject: UsageSubject,
        /// Accounts and users.
        shares: Vec<ShareStatus>,
    },
    /// Current fair share and usage of pools and operations, each pool before its members, in
    /// several parts. There is no part if the policy has no preemption for starvation.
    FairShareReports(Vec<FairShareReport>),
    /// The configured limits, in the order of the configuration; several parts.
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
