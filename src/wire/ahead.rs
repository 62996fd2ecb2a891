//! Questions about what is to come, which only a running schedd can answer: the spool holds what has
//! been decided, not what would be.

use super::message::Submission;
use crate::model::charge::Used;
use crate::model::job::JobId;
use crate::model::outlook::{Explanation, Foreseen, Horizon, Window};
use crate::model::reason::Reason;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};

/// What a client wants to know of the time ahead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ahead {
    /// `qstat --start`: when these jobs start, or all that wait if none are named. Answered by
    /// [`Told::Horizon`], then [`Told::Foreseen`].
    Starts(Vec<JobId>),
    /// `qstat --holes`: what is free for jobs like this one, and for how long. Answered by
    /// [`Told::Windows`].
    Windows(Box<Submission>),
    /// `qstat --why`: why a job waits. Answered by [`Told::Explained`].
    Why(JobId),
    /// `qsub --dry-run`: what would become of a job if it were submitted now. It is checked like any
    /// other; nothing is kept. Answered by [`Told::Tried`].
    Trial(Box<Submission>),
    /// `qstat --usage`: what has been used, by whom, and what of it still counts. Answered by
    /// [`Told::Usage`].
    Usage,
}

/// What is answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Told {
    /// How far was looked.
    Horizon(Horizon),
    /// Starts in their order, then the jobs that wait on; several parts.
    Foreseen(Vec<Foreseen>),
    /// The windows, widest first; or why no such job could start at all.
    Windows(Result<Vec<Window>, Reason>),
    /// Why; None for a job that does not wait for the scheduler.
    Explained(Option<Box<Explanation>>),
    /// What would become of the job, were it free to start.
    Tried {
        /// Why it would wait, or when it would start. Its number is the one it would get now.
        explanation: Box<Explanation>,
        /// Whether it would not be free to start, but held: by its own wish, or by what it depends on.
        held: bool,
    },
    /// Members, each with what it has used; several parts.
    Usage {
        /// When that was so.
        at: Time,
        /// By account, then by user.
        used: Vec<Used>,
    },
}
