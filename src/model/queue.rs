//! Queues.

use serde::{Deserialize, Serialize};

/// An execution queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// At most 15 characters.
    pub name: String,
    /// Higher first.
    pub priority: i32,
    /// Accepts jobs.
    pub enabled: bool,
    /// Its jobs may start.
    pub started: bool,
    /// How many of its blocked jobs are promised a start; None: they share the promises of the policy.
    #[serde(default)]
    pub backfill_depth: Option<u32>,
    /// What its jobs use is charged to their owners (I5).
    #[serde(default = "yes")]
    pub charge: bool,
}

fn yes() -> bool {
    true
}

impl Queue {
    /// An open queue about which nothing else is said.
    pub fn named(name: &str) -> Queue {
        Queue { name: name.to_string(), priority: 0, enabled: true, started: true, backfill_depth: None, charge: true }
    }
}
