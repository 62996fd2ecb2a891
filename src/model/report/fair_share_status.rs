//! What a pool or an operation is owed of the cluster, what it has of it now, and what having less
//! has made of it (Y1, Y2).

use crate::model::job_id::JobId;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};

/// Who is owed something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShareHolder {
    /// A pool, with all below it.
    Pool(String),
    /// An operation: a job, or an array with all its elements.
    Operation(JobId),
    /// Each of so many jobs that wait and are alike in all, of which this is the first.
    Alike(JobId, u64),
}

named! {
    /// How somebody stands.
    FairShareStatus {
        /// It has what it is owed, but for the tolerance.
        Normal = "normal",
        /// It has less.
        Below = "below_fair_share",
        /// It has had less for so long that others make way for it.
        Starving = "starving",
        /// For so long that others lose what is theirs.
        Aggressive = "aggressively_starving",
    }
}

/// What somebody is owed, and has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FairShareReport {
    /// Who.
    pub who: ShareHolder,
    /// Its pool, and those above it, the nearest first; of a pool those above it.
    pub pools: Vec<String>,
    /// The fair share, as a part of the cluster.
    pub fair: f64,
    /// What it has, with what is kept for it and without what it is about to lose: as a part of the
    /// cluster.
    pub used: f64,
    /// The resource of which it has the largest part, or, having nothing, would have.
    pub resource: Option<String>,
    /// How it stands.
    pub status: FairShareStatus,
    /// Since when it has less than it is owed; None for who does not.
    pub since: Option<Time>,
}
