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
    /// Each of this number of identical waiting jobs; the id is that of the first.
    Alike(JobId, u64),
}

named! {
    /// Status of a holder relative to its fair share.
    FairShareStatus {
        /// Usage is at the fair share, within the tolerance.
        Normal = "normal",
        /// Usage is below the fair share.
        Below = "below_fair_share",
        /// Usage has been below the fair share for long enough to preempt other jobs.
        Starving = "starving",
        /// Usage has been below for so long that jobs within the fair shares of others are
        /// preempted.
        Aggressive = "aggressively_starving",
    }
}

/// Fair share and usage of a holder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FairShareReport {
    /// Pool or operation.
    pub who: ShareHolder,
    /// Ancestor pools, the nearest first; for an operation, its own pool comes first.
    pub pools: Vec<String>,
    /// Fair share, as a fraction of the cluster.
    pub fair: f64,
    /// Usage as a fraction of the cluster, including resources held for the holder, without those
    /// about to be preempted.
    pub used: f64,
    /// Dominant resource: the one with the largest fraction in use, or requested if none is in
    /// use.
    pub resource: Option<String>,
    /// Status relative to the fair share.
    pub status: FairShareStatus,
    /// Start of the time below the fair share; None if not below.
    pub since: Option<Time>,
}
