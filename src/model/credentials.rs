//! Credentials of a job: the basis of access control, limits and shares.

use serde::{Deserialize, Serialize};

/// Name of the default quality of service.
pub const NORMAL_QOS: &str = "normal";

/// Credentials of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Credentials {
    /// User name of the owner.
    pub user: String,
    /// Id of the owner's primary group.
    pub gid: u32,
    /// Project, `-P`.
    pub project: String,
    /// Account, `-A`.
    pub account: Option<String>,
    /// Quality of service.
    pub qos: Option<String>,
    /// Queue.
    pub queue: String,
}
