//! Planned start of a job, and the causes for delaying the planned start.

use crate::model::job_id::JobId;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Planned start of a waiting job. It assumes that each running job uses its whole walltime. It can
/// move to an earlier time, or to a later time ([`SlipCause`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromisedStart {
    /// Current planned start.
    pub at: Time,
    /// First planned start.
    pub first: Time,
    /// Planned nodes, chunk by chunk; empty if unknown.
    pub nodes: Vec<String>,
    /// Time until which the resources of preempted jobs are held for this job. While the preemption
    /// continues, this time is extended. None if no job is preempted for this job.
    #[serde(default, rename = "earmark")]
    pub held_until: Option<Time>,
}

/// Why a planned start moved to a later time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlipCause {
    /// A planned node no longer accepts jobs.
    NodeLost {
        /// Name of the node.
        node: String,
    },
    /// A job runs longer than its walltime.
    Overdue {
        /// The running job.
        job: JobId,
    },
    /// A reservation has the resources.
    Window {
        /// Name of the reservation's window.
        id: String,
    },
    /// Another job, which is now ahead in the order of jobs, has the resources.
    Overtaken {
        /// The other job.
        by: JobId,
    },
    /// A user or administrator changed jobs, nodes or the policy, or the cause is unknown.
    Changed,
}

impl SlipCause {
    /// Describes the cause; `id` formats a job id.
    pub fn describe(&self, id: impl Fn(JobId) -> String) -> String {
        match self {
            SlipCause::NodeLost { node } => format!("node {node} accepts no jobs"),
            SlipCause::Overdue { job } => format!("job {} exceeds its walltime", id(*job)),
            SlipCause::Window { id } => format!("reservation {id} holds the resources"),
            SlipCause::Overtaken { by } => format!("job {} is now ahead of this job", id(*by)),
            SlipCause::Changed => "jobs, nodes or the policy changed".to_string(),
        }
    }
}

impl fmt::Display for SlipCause {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.describe(|job| job.to_string()))
    }
}
