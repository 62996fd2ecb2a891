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
    /// `qstat --start`: when these jobs start, or all that wait if none are named. Answered by
    /// [`Told::Horizon`], then [`Told::Foreseen`].
    Starts(Vec<JobId>),
    /// `qstat --holes`: what is free for jobs like this one, and for how long. Answered by
    /// [`Told::Windows`].
    Windows(Box<NewJob>),
    /// `qstat --why`: why a job waits. Answered by [`Told::Explained`].
    Why(JobId),
    /// `qsub --dry-run`: what would become of a job if it were submitted now. It is checked like
    /// any other; nothing is kept. Answered by [`Told::Tried`].
    Trial(Box<NewJob>),
    /// `qstat --usage`: what has been used, by whom, and what of it still counts. Answered by
    /// [`Told::Usage`].
    Usage,
    /// `qstat --priority` with job ids: the places of these in the queue, and why. Answered by
    /// [`Told::Placed`].
    Places(Vec<JobId>),
    /// `qstat --priority`: the queue in the order of a cycle; no more than so many of its first, if
    /// that is said. Answered by [`Told::Queue`].
    Queue(Option<u64>),
    /// `qstat -f`: the computed priorities of these jobs, or of all that wait if none are named.
    /// Answered by [`Told::Scores`].
    Scores(Vec<JobId>),
    /// `qstat --shares`: who owns which share of the machine, and has had how much of it. Answered
    /// by [`Told::Shares`], then [`Told::Owed`].
    Shares,
    /// `qstat --limits`: the limits in force, and what of them is used. Answered by
    /// [`Told::Limits`].
    Limits,
    /// `qstat --resources`: what the whole system has, and who uses it. Answered by
    /// [`Told::Resources`].
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
        /// Whose standing counts for a job.
        subject: UsageSubject,
        /// Accounts and users.
        stakes: Vec<ShareStatus>,
    },
    /// What pools and operations are owed of what is there now, each pool before what is in it;
    /// several parts, none where nobody is looked at for starvation.
    Owed(Vec<FairShareReport>),
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
