//! What an account says of itself as a pool: a place in the tree of those among whom the cluster is
//! poured out, with the operations of its jobs below it (Y20). An operation is a job, or an array
//! with all its elements.

use crate::model::resource::ResourceList;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};

/// The terms of a pool; those of one that says nothing are the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolTerms {
    /// What is its own before anything is shared out by weight (Y26); nothing of resources that are
    /// not named.
    pub guarantee: ResourceList,
    /// The largest part of the cluster that it is owed, above 0 and at most 1 (Y26); None for all
    /// of it.
    pub max_share: Option<f64>,
    /// Who of its operations comes first (Y23).
    pub mode: PoolMode,
    /// By what operations stand in line, for [`PoolMode::Fifo`].
    pub fifo_sort: Vec<FifoKey>,
    /// What it says of starvation, for itself and all below it that say nothing (Y29).
    pub starvation: Overrides,
    /// An operation with less of each of these is not preempted, here and in pools below that do
    /// not set it; empty where the pool does not (Y16).
    pub non_preemptible_threshold: ResourceList,
}

impl PoolTerms {
    /// By what operations stand in line: as the site says, else who came first.
    pub fn line(&self) -> &[FifoKey] {
        if self.fifo_sort.is_empty() {
            &[FifoKey::StartTime]
        } else {
            &self.fifo_sort
        }
    }
}

/// The settings of a pool that replace those of the pools above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overrides {
    /// As [`super::starvation::Patience::tolerance`].
    pub tolerance: Option<f64>,
    /// As [`super::starvation::Patience::timeout`].
    pub timeout: Option<Span>,
    /// As [`super::starvation::Patience::aggressive_timeout`].
    pub aggressive_timeout: Option<Span>,
    /// As [`super::starvation::Patience::enable_aggressive`].
    pub enable_aggressive: Option<bool>,
    /// As [`super::starvation::Patience::allow_aggressive`].
    pub allow_aggressive: Option<bool>,
    /// As [`super::starvation::Cutoffs::aggressive`].
    pub aggressive_threshold: Option<f64>,
    /// As [`super::starvation::Cutoffs::preemption`].
    pub preemption_threshold: Option<f64>,
}

named! {
    /// Who of a pool's operations comes first (Y23).
    PoolMode {
        /// Who has least of what it is owed.
        FairShare = "fair_share",
        /// Who stands first in line has all it wants before the next has anything.
        Fifo = "fifo",
    }
}

named! {
    /// What a line goes by (Y23).
    FifoKey {
        /// The highest `-p` first.
        Weight = "weight",
        /// Who came first.
        StartTime = "start_time",
        /// The fewest jobs that wait first.
        PendingJobCount = "pending_job_count",
    }
}
