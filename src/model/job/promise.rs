//! Planned start of a job, and the causes for delaying it.

use crate::model::job_id::JobId;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Planned start of a waiting job: it starts at this time at the latest if jobs end by their
/// walltimes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromisedStart {
    /// Current planned start.
    pub at: Time,
    /// First planned start.
    pub first: Time,
    /// Planned nodes, chunk by chunk, as far as they are known.
    pub nodes: Vec<String>,
    /// Time until which the resources of preempted jobs are held for this job. It is extended while
    /// the preemption continues; None if no job is preempted for it.
    #[serde(default, rename = "earmark")]
    pub held_until: Option<Time>,
}

/// Cause of a later planned start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlipCause {
    /// A planned node accepts no jobs any more.
    NodeLost {
        /// Name of the node.
        node: String,
    },
    /// A job runs longer than its walltime.
    Overdue {
        /// That job.
        job: JobId,
    },
    /// A reservation has the resources.
    Window {
        /// Name of the reservation's window.
        id: String,
    },
    /// A job that is now ahead in the order has the resources.
    Overtaken {
        /// That job.
        by: JobId,
    },
    /// A user or administrator changed jobs, nodes or the policy.
    Changed,
}

impl SlipCause {
    /// Describes the cause; `id` formats a job id.
    pub fn describe(&self, id: impl Fn(JobId) -> String) -> String {
        match self {
            SlipCause::NodeLost { node } => format!("node {node} accepts no jobs"),
            SlipCause::Overdue { job } => format!("job {} exceeds its walltime", id(*job)),
            SlipCause::Window { id } => format!("reservation {id} holds the resources"),
            SlipCause::Overtaken { by } => format!("job {} is now ahead of it", id(*by)),
            SlipCause::Changed => "jobs, nodes or the policy changed".to_string(),
        }
    }
}

impl fmt::Display for SlipCause {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.describe(|job| job.to_string()))
    }
}
