//! Settings of an account as a pool: a node of the fair-share tree (Y20). The leaves of the tree
//! are operations: jobs, or arrays with all their subjobs.

use crate::model::resource::ResourceList;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};

/// Settings of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolTerms {
    /// Strong guarantee: the pool gets these amounts first; the remaining resources are then
    /// divided by weight (Y26). Resources that are not listed have no guarantee.
    pub guarantee: ResourceList,
    /// Upper bound of the fair share as a fraction of the cluster, above 0 and at most 1 (Y26);
    /// None for no bound.
    pub max_share: Option<f64>,
    /// Order of the pool's operations (Y23).
    pub mode: PoolMode,
    /// Sort keys of the operations in [`PoolMode::Fifo`].
    pub fifo_sort: Vec<FifoKey>,
    /// Starvation settings. A pool inherits each unset value from the pool above it (Y29).
    pub starvation: Overrides,
    /// An operation that uses less than these amounts of all listed resources is not preempted
    /// (Y16). If the list is empty, the list of the nearest pool above with a list applies.
    pub non_preemptible_threshold: ResourceList,
}

impl PoolTerms {
    /// Returns the sort keys of the operations, by default [`FifoKey::StartTime`].
    pub fn line(&self) -> &[FifoKey] {
        if self.fifo_sort.is_empty() {
            &[FifoKey::StartTime]
        } else {
            &self.fifo_sort
        }
    }
}

/// Settings of a pool that replace the settings of the pools above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overrides {
    /// Value for [`super::starvation::StarvationConditions::tolerance`].
    pub tolerance: Option<f64>,
    /// Value for [`super::starvation::StarvationConditions::timeout`].
    pub timeout: Option<Span>,
    /// Value for [`super::starvation::StarvationConditions::aggressive_timeout`].
    pub aggressive_timeout: Option<Span>,
    /// Value for [`super::starvation::StarvationConditions::enable_aggressive`].
    pub enable_aggressive: Option<bool>,
    /// Value for [`super::starvation::StarvationConditions::allow_aggressive`].
    pub allow_aggressive: Option<bool>,
    /// Value for [`super::starvation::PreemptionThresholds::aggressive`].
    pub aggressive_threshold: Option<f64>,
    /// Value for [`super::starvation::PreemptionThresholds::preemption`].
    pub preemption_threshold: Option<f64>,
}

named! {
    /// Order of a pool's operations (Y23).
    PoolMode {
        /// Operations with the lowest usage relative to their fair share first.
        FairShare = "fair_share",
        /// Strict order: the first operation gets all it requests before the next gets anything.
        Fifo = "fifo",
    }
}

named! {
    /// Sort key of operations (Y23).
    FifoKey {
        /// Highest `-p` first.
        Weight = "weight",
        /// Earliest start first; for waiting operations, the begin of the wait counts.
        StartTime = "start_time",
        /// Fewest waiting jobs first.
        PendingJobCount = "pending_job_count",
    }
}
