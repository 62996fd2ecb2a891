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

/// How long a suspension lasts, and which resources the job releases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SuspendMode {
    /// Until a user resumes the job.
    UntilTold {
        /// The names of the released resources.
        releases: Vec<String>,
    },
    /// For a preempting job, until enough resources are free again.
    For {
        /// The preempting job.
        job: JobId,
        /// The names of the released resources.
        releases: Vec<String>,
    },
    /// For the maintenance of its nodes: it keeps all resources, and no job starts there.
    Maintenance,
}

impl SuspendMode {
    /// The names of the released resources.
    pub fn releases(&self) -> &[String] {
        match self {
            SuspendMode::UntilTold { releases } | SuspendMode::For { releases, .. } => releases,
            SuspendMode::Maintenance => &[],
        }
    }

    /// The preempting job.
    pub fn for_job(&self) -> Option<JobId> {
        match self {
            SuspendMode::For { job, .. } => Some(*job),
            SuspendMode::UntilTold { .. } | SuspendMode::Maintenance => None,
        }
    }
}

/// The suspension of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// Who requested it: `user@host`, or the scheduler.
    pub by: String,
    /// When it was requested.
    pub since: Time,
    /// How long it lasts, and which resources it releases.
    pub manner: SuspendMode,
    /// When all processes were stopped; None until then.
    pub still: Option<Time>,
    /// The stopped processes: 0 for the script, others for tasks.
    pub stopped: BTreeSet<TaskNumber>,
    /// Whether the job resumes as soon as enough resources are free.
    pub waits: bool,
}

/// The earlier suspensions of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pauses {
    /// The number of suspensions.
    pub count: u32,
    /// Their total duration without the present one.
    pub total: Span,
    /// The end of the last one; None if there was none.
    pub resumed: Option<Time>,
    /// The processes that have not reported yet that they continue: 0 for the script, others for
    /// tasks.
    #[serde(default)]
    pub waking: BTreeSet<TaskNumber>,
}
