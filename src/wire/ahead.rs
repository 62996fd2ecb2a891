//! Questions about what is to come, which only a running schedd can answer: the spool holds what
//! has been decided, not what would be.

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

/// What a client wants to know of the time ahead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForecastQuery {
    /// `qstat --start`: when these jobs start; all waiting jobs if none are named. Answered by
    /// [`ForecastAnswer::Horizon`], then [`ForecastAnswer::Foreseen`].
    Starts(Vec<JobId>),
    /// `qstat --holes`: the free windows for jobs like this one. Answered by
    /// [`ForecastAnswer::Windows`].
    Windows(Box<NewJob>),
    /// `qstat --why`: why a job waits. Answered by [`ForecastAnswer::Explained`].
    Why(JobId),
    /// `qsub --dry-run`: when a job would start if it were submitted now. It is checked like any
    /// other; nothing is kept. Answered by [`ForecastAnswer::Tried`].
    Trial(Box<NewJob>),
    /// `qstat --usage`: usage by account and user, raw and decayed. Answered by
    /// [`ForecastAnswer::Usage`].
    Usage,
    /// `qstat --priority` with job ids: the places of these jobs in the queue, and why. Answered by
    /// [`ForecastAnswer::Placed`].
    Places(Vec<JobId>),
    /// `qstat --priority`: the queue in the order of a cycle, at most its first jobs if a number is
    /// given. Answered by [`ForecastAnswer::Queue`].
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

/// What is answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ForecastAnswer {
    /// How far was looked.
    Horizon(Horizon),
    /// Starts in their order, then the jobs that wait on; several parts.
    Foreseen(Vec<Foreseen>),
    /// The windows, widest first; or why no such job could start at all.
    Windows(Result<Vec<FreeWindow>, Reason>),
    /// Why; None for a job that does not wait for the scheduler.
    Explained(Option<Box<Explanation>>),
    /// What would become of the job, were it free to start.
    Tried {
        /// Why it would wait, or when it would start. Its number is the one it would get now.
        explanation: Box<Explanation>,
        /// Whether it would not be free to start, but held: by its own wish, or by what it depends
        /// on.
        held: bool,
    },
    /// Members, each with what it has used; several parts.
    Usage {
        /// When that was so.
        at: Time,
        /// By account, then by user.
        used: Vec<Used>,
    },
    /// Jobs that wait with their places, first to last; several parts.
    Placed {
        /// How many places there are.
        all: u64,
        /// When that was so.
        at: Time,
        /// The formula of the order, if that is what it goes by.
        formula: Option<String>,
        /// Those asked for that wait.
        places: Vec<Neighbours>,
    },
    /// Places in the queue, first to last; several parts.
    Queue {
        /// How many there are.
        all: u64,
        /// When that was so.
        at: Time,
        /// The formula of the order, if that is what it goes by.
        formula: Option<String>,
        /// The next of them.
        turns: Vec<QueueTurn>,
    },
    /// The computed priorities of jobs that wait; several parts, none where the order computes no
    /// priorities.
    Scores(Vec<(JobId, f64)>),
    /// The tree of shares, each account before what is below it; several parts.
    Shares {
        /// When that was so.
        at: Time,
        /// How factors come from shares and usage.
        method: Method,
        /// Which usage counts for a job.
        subject: UsageSubject,
        /// Accounts and users.
        shares: Vec<ShareStatus>,
    },
    /// Fair share and usage of pools and operations now, each pool before its members; several
    /// parts, none if starvation is not considered.
    FairShareReports(Vec<FairShareReport>),
    /// The limits in force, in the order of the configuration; several parts.
    Limits {
        /// When that was so.
        at: Time,
        /// Each limit, as it stands for some.
        uses: Vec<LimitUse>,
    },
    /// What the whole system has, in the order of the configuration; several parts.
    Resources {
        /// When that was so.
        at: Time,
        /// Each resource as it stands.
        resources: Vec<PoolUse>,
    },
}
