//! Per-host resources that subjobs of one array share (Q21, G2): where, and which subjobs.

use crate::model::job_id::JobId;
use crate::model::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// A resource that an array uses on a host: the number of the array, the host, and the index of the
/// resource.
pub type SharedPlace = (u64, String, usize);

/// Resources that arrays use on hosts.
pub type SharedHosts = BTreeSet<SharedPlace>;

/// The subjobs that share such a resource: the end of each, and the amount that it requests.
pub type Sharers = BTreeMap<JobId, (Time, i64)>;

/// The end of the subjob that ends last, and its id.
pub fn last(sharers: &Sharers) -> Option<(Time, JobId)> {
    sharers.iter().map(|(&job, &(until, _))| (until, job)).max()
}
