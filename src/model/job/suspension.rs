//! Suspension of a running job (`qsig -s suspend`, preemption).
//!
//! As soon as suspension is requested, commands display the job as suspended. schedd repeats the
//! order to stop until the nodes report that all processes are stopped. Only then does the job
//! release resources. Event `Resumed` returns all resources to the job. schedd then repeats the
//! order to continue until the nodes report that the processes run again.

use super::attempt::TaskNumber;
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Kind of suspension: how it ends, and which resources the job releases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SuspendMode {
    /// The job is suspended until a user resumes it.
    UntilTold {
        /// Names of the released resources.
        releases: Vec<String>,
    },
    /// The job is suspended for a preemptor, until enough resources are free again.
    For {
        /// Preemptor: the job that gets the released resources.
        job: JobId,
        /// Names of the released resources.
        releases: Vec<String>,
    },
    /// The job is suspended for maintenance of its nodes. It keeps all resources, and no other job
    /// starts on these nodes.
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

    /// Returns the preemptor for which the job is suspended; None for other suspensions.
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
    /// Kind of suspension: how it ends, and which resources the job releases.
    pub manner: SuspendMode,
    /// Time at which all processes were stopped; None until they are stopped.
    pub still: Option<Time>,
    /// Tasks that the nodes have reported as stopped; task 0 is the script.
    pub stopped: BTreeSet<TaskNumber>,
    /// True if the job waits for free resources to resume.
    pub waits: bool,
}

/// Earlier suspensions of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pauses {
    /// Number of suspensions.
    pub count: u32,
    /// Total duration of the suspensions, without the present suspension.
    pub total: Span,
    /// End of the last suspension; None if no suspension has ended.
    pub resumed: Option<Time>,
    /// Tasks that the nodes have not yet reported as running again; task 0 is the script.
    #[serde(default)]
    pub waking: BTreeSet<TaskNumber>,
}
