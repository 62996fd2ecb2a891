//! What a job stands for when somebody asks whose it is: access, limits and shares go by this.

use serde::{Deserialize, Serialize};

/// The name of the default quality of service.
pub const NORMAL_QOS: &str = "normal";

/// The names a job goes under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Credentials {
    /// Its owner's name.
    pub user: String,
    /// Its owner's primary group, by number.
    pub gid: u32,
    /// `-P`.
    pub project: String,
    /// `-A`.
    pub account: Option<String>,
    /// Its quality of service.
    pub qos: Option<String>,
    /// Its queue.
    pub queue: String,
}
