//! Suspension of a running job (`qsig -s suspend`, preemption).
//!
//! From the request on, the job is displayed as suspended, and its nodes receive the order until
//! all its processes are stopped. Only then does the job release resources. One event resumes the
//! job and returns all resources to it; its nodes receive that order until they report that the
//! processes run again.

use super::attempt::TaskNumber;
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Duration of a suspension and the resources released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SuspendMode {
    /// Suspended until a user resumes the job.
    UntilTold {
        /// Names of the released resources.
        releases: Vec<String>,
    },
    /// Suspended for a preempting job, until enough resources are free again.
    For {
        /// Preempting job.
        job: JobId,
        /// Names of the released resources.
        releases: Vec<String>,
    },
    /// Suspended for maintenance of its nodes: the job keeps all resources, and no job starts
    /// there.
    Maintenance,
}

impl SuspendMode {
    /// Returns the names of the released resources.
    pub fn releases(&self) -> &[String] {
        match self {
            SuspendMode::UntilTold { releases } | SuspendMode::For { releases, .. } => releases,
            SuspendMode::Maintenance => &[],
        }
    }

    /// Returns the preempting job.
    pub fn for_job(&self) -> Option<JobId> {
        match self {
            SuspendMode::For { job, .. } => Some(*job),
            SuspendMode::UntilTold { .. } | SuspendMode::Maintenance => None,
        }
    }
}

/// Suspension of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// Requester: `user@host`, or the scheduler.
    pub by: String,
    /// Time of the request.
    pub since: Time,
    /// Duration of the suspension and the resources released.
    pub manner: SuspendMode,
    /// Time at which all processes were stopped; None before.
    pub still: Option<Time>,
    /// Stopped processes: 0 for the script, others for tasks.
    pub stopped: BTreeSet<TaskNumber>,
    /// The job resumes as soon as enough resources are free.
    pub waits: bool,
}

/// Earlier suspensions of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pauses {
    /// Number of suspensions.
    pub count: u32,
    /// Total duration, without the present suspension.
    pub total: Span,
    /// End of the last suspension; None without one.
    pub resumed: Option<Time>,
    /// Processes that have not yet reported that they continue: 0 for the script, others for
    /// tasks.
    #[serde(default)]
    pub waking: BTreeSet<TaskNumber>,
}
