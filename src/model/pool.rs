//! What the whole system has, and no node in particular: licenses and the like (Q21).

use super::host_list::HostList;
use serde::{Deserialize, Serialize};

/// One such resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// How much there is, as configured: a number, or bytes.
    pub total: i64,
    /// How much of that is not there now.
    pub missing: i64,
    /// How much is in use where we do not see.
    pub elsewhere: i64,
    /// Counted once for each host of a job, however many chunks are there, and not once for the job.
    pub per_host: bool,
    /// The hosts on which it can be used.
    pub scope: HostList,
}
