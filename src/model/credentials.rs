//! What a job stands for when somebody asks whose it is: access, limits and shares go by this.

use crate::model::job::{Job, Owner, Spec};
use serde::{Deserialize, Serialize};

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

impl Credentials {
    /// Those of a job.
    pub fn of(job: &Job) -> Credentials {
        Credentials::new(&job.owner, &job.spec)
    }

    /// Those of a job of this owner.
    pub fn new(owner: &Owner, spec: &Spec) -> Credentials {
        Credentials {
            user: owner.user.clone(),
            gid: owner.gid,
            project: spec.project.clone(),
            account: spec.account.clone(),
            qos: spec.qos.clone(),
            queue: spec.queue.clone(),
        }
    }
}
