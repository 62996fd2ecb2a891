//! Credentials of a job, on which access control, limits and fair shares depend.

use serde::{Deserialize, Serialize};

/// Name of the default quality of service.
pub const NORMAL_QOS: &str = "normal";

/// User, group, project, account, quality of service and queue of a job.
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
    /// Queue that the job is in.
    pub queue: String,
}
