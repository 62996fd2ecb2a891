//! Fair-share status of pools and operations: entitlement, present usage, starvation (Y1, Y2).

use crate::model::job_id::JobId;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};

/// Holder of a fair share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShareHolder {
    /// Pool (account), with all pools and operations below it.
    Pool(String),
    /// Operation: a job, or an array with all its subjobs.
    Operation(JobId),
    /// Identical waiting jobs: id of the first job, and number of jobs. The report applies to each
    /// job.
    Alike(JobId, u64),
}

named! {
    /// Status of a pool or operation relative to its fair share.
    FairShareStatus {
        /// Usage is at least the fair share multiplied by the tolerance (Y1).
        Normal = "normal",
        /// Usage is less than the fair share multiplied by the tolerance.
        Below = "below_fair_share",
        /// Usage has been below the fair share for long enough to preempt other jobs.
        Starving = "starving",
        /// Usage has been below the fair share for so long that jobs of holders within their fair
        /// share may be preempted, too.
        Aggressive = "aggressively_starving",
    }
}

/// Fair share and usage of a pool or operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FairShareReport {
    /// Pool, operation or identical waiting jobs.
    pub who: ShareHolder,
    /// Ancestor pools, the nearest first; the first of an operation is the operation's own pool.
    pub pools: Vec<String>,
    /// Fair share of the dominant resource, from 0 to 1.
    pub fair: f64,
    /// Dominant share of the usage, from 0 to 1. Jobs that the next cycle starts count, and jobs
    /// for which it preempts others. Jobs that it preempts do not count.
    pub used: f64,
    /// Dominant resource: the resource of which the holder uses the largest fraction of the
    /// cluster. For an operation without usage, the requested fraction counts. None for a pool
    /// without usage.
    pub resource: Option<String>,
    /// Status relative to the fair share.
    pub status: FairShareStatus,
    /// Time since which usage is less than the fair share multiplied by the tolerance; None with
    /// [`FairShareStatus::Normal`].
    pub since: Option<Time>,
}
