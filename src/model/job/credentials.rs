//! The credentials of a job.

use super::{Job, Owner, Spec};
use crate::model::credentials::Credentials;

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
