//! Fair-share status of pools and operations: entitlement, present usage, starvation (Y1, Y2).

use crate::model::job_id::JobId;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};

/// Holder of a fair share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShareHolder {
    /// Pool with all its descendants.
    Pool(String),
    /// Operation: a job, or an array with all its subjobs.
    Operation(JobId),
    /// Identical waiting jobs: the id of the first, and their number. The report applies to each.
    Alike(JobId, u64),
}

named! {
    /// Status of a holder relative to its fair share.
    FairShareStatus {
        /// Usage is not below the fair share, within the tolerance.
        Normal = "normal",
        /// Usage is below the fair share.
        Below = "below_fair_share",
        /// Usage has been below the fair share for long enough to preempt other jobs.
        Starving = "starving",
        /// Usage has been below the fair share for so long that jobs within the fair shares of
        /// others are preempted, too.
        Aggressive = "aggressively_starving",
    }
}

/// Fair share and usage of a holder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FairShareReport {
    /// Pool, operation or identical waiting jobs.
    pub who: ShareHolder,
    /// Ancestor pools, the nearest first; for an operation, its own pool comes first.
    pub pools: Vec<String>,
    /// Fair share of the dominant resource, from 0 to 1.
    pub fair: f64,
    /// Dominant share of the usage, from 0 to 1. Jobs that start or preempt in the coming cycle
    /// count; jobs that it preempts do not.
    pub used: f64,
    /// Resource with the largest fraction of the cluster in use; for an operation without usage, the
    /// largest fraction requested. None for a pool without usage.
    pub resource: Option<String>,
    /// Status relative to the fair share.
    pub status: FairShareStatus,
    /// Start of the time below the fair share; None if not below.
    pub since: Option<Time>,
}
