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
}
