//! The promise of a start, and why one was not kept.

use crate::model::job_id::JobId;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A start that is promised to a job: no later than this, if jobs end by their walltimes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromisedStart {
    /// When, as it stands.
    pub at: Time,
    /// When, as it was first.
    pub first: Time,
    /// Where, chunk by chunk, as far as can be told.
    pub nodes: Vec<String>,
    /// Other jobs are preempted for it: its resources are held until at least this time.
    #[serde(default, rename = "earmark")]
    pub held_until: Option<Time>,
}

/// Why a job is promised a later start than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlipCause {
    /// A node on which it stood takes no jobs any more.
    NodeLost {
        /// Which.
        node: String,
    },
    /// A job runs on past its walltime.
    Overdue {
        /// Which.
        job: JobId,
    },
    /// The place is set aside by a reservation.
    Window {
        /// Which, as its window is called.
        id: String,
    },
    /// A job that is now ahead in the order has the place.
    Overtaken {
        /// Which.
        by: JobId,
    },
    /// Jobs, nodes or the policy were changed by hand.
    Changed,
}

impl SlipCause {
    /// In words; `id` shows a job's id.
    pub fn told(&self, id: impl Fn(JobId) -> String) -> String {
        match self {
            SlipCause::NodeLost { node } => format!("node {node} takes no jobs now"),
            SlipCause::Overdue { job } => format!("job {} runs on past its walltime", id(*job)),
            SlipCause::Window { id } => format!("reservation {id} has the place"),
            SlipCause::Overtaken { by } => format!("job {} is ahead of it now", id(*by)),
            SlipCause::Changed => "jobs, nodes or the policy were changed".to_string(),
        }
    }
}

impl fmt::Display for SlipCause {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.told(|job| job.to_string()))
    }
}
