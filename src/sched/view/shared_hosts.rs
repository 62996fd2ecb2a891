//! Per-host resources that subjobs of an array share (Q21, G2), with the hosts and the subjobs.

use crate::model::job_id::JobId;
use crate::model::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// A use of a resource by an array on a host: the number of the array, the host, and the index of
/// the resource.
pub type SharedPlace = (u64, String, usize);

/// Resources that arrays use on hosts.
pub type SharedHosts = BTreeSet<SharedPlace>;

/// The subjobs that share a per-host resource: the end of each subjob, and the amount that the
/// subjob requests.
pub type Sharers = BTreeMap<JobId, (Time, i64)>;

/// The end and the id of the subjob that ends last; None without subjobs.
pub fn last(sharers: &Sharers) -> Option<(Time, JobId)> {
    sharers.iter().map(|(&job, &(until, _))| (until, job)).max()
}
