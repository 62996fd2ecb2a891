//! The suspension of a running job (`qsig -s suspend`, preemption).
//!
//! A request comes first: from then on the job is shown suspended, and its nodes receive the order
//! until all processes of the job are stopped. Only then does the job give up resources. One event
//! resumes the job and gives all resources back to it; its nodes receive that order, too, until
//! they report that the processes run again.

use super::attempt::TaskNumber;
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// For how long a job is to stand still, and what becomes of what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SuspendMode {
    /// Until somebody says that it may go on; others may have these resources of it meanwhile.
    UntilTold {
        /// The names of the resources.
        releases: Vec<String>,
    },
    /// For this job, until there is room again; likewise.
    For {
        /// The other job.
        job: JobId,
        /// The names of the resources.
        releases: Vec<String>,
    },
    /// While its nodes are maintained: it keeps everything, and no job starts there.
    Maintenance,
}

impl SuspendMode {
    /// The resources that it gives up.
    pub fn releases(&self) -> &[String] {
        match self {
            SuspendMode::UntilTold { releases } | SuspendMode::For { releases, .. } => releases,
            SuspendMode::Maintenance => &[],
        }
    }

    /// The job that it stands still for.
    pub fn for_job(&self) -> Option<JobId> {
        match self {
            SuspendMode::For { job, .. } => Some(*job),
            SuspendMode::UntilTold { .. } | SuspendMode::Maintenance => None,
        }
    }
}

/// How an attempt stands that was told to stand still.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// By whom: `user@host`, or the scheduler.
    pub by: String,
    /// Since when that is wanted.
    pub since: Time,
    /// For how long, and what becomes of what it holds.
    pub manner: SuspendMode,
    /// When all its processes were known to be stopped; None until then.
    pub still: Option<Time>,
    /// Which of them are: 0 is the script, others are tasks.
    pub stopped: BTreeSet<TaskNumber>,
    /// Whether it is to go on as soon as there is room.
    pub waits: bool,
}

/// How often and for how long an attempt has stood still, and since when it runs again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pauses {
    /// How often its processes were stopped.
    pub count: u32,
    /// For how long in all; that of now is not among it.
    pub total: Span,
    /// Since when it runs again; None for one that was never stopped.
    pub resumed: Option<Time>,
    /// What of it was stopped and has not said yet that it goes on: 0 is the script, others are
    /// tasks.
    #[serde(default)]
    pub waking: BTreeSet<TaskNumber>,
}
