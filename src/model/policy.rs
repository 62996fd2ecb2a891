//! Everything the administrator may tune about scheduling, by name.

use super::time::Span;
use serde::{Deserialize, Serialize};

/// The policy of a cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Who goes first.
    pub order: Order,
    /// Whether lower jobs may start around a blocked one.
    pub backfill: Backfill,
    /// What a job without walltime is planned with (PBS: five years).
    pub default_walltime: Span,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            order: Order::Fcfs,
            backfill: Backfill::FirstFit,
            default_walltime: Span::seconds(5 * 365 * 24 * 3600),
        }
    }
}

/// Who goes first; ties end in the job's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// First come, first served.
    Fcfs,
}

/// Whether and how lower jobs may start around a blocked one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backfill {
    /// Nothing passes a blocked job.
    None,
    /// The first blocked job is promised its earliest start (EASY); others may start in order if
    /// they do not delay it.
    FirstFit,
}
