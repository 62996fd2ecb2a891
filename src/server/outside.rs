//! The server's access to stored jobs and to the machine's accounts.

use crate::model::job::Digest;
use crate::model::job::Job;
use crate::model::job::Owner;
use crate::model::job::dependency::label::Mark;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::reservation::recurrence::Zone;
use std::fmt;

/// The jobs in the spool, finished or not. Changes of the current transaction are not in the spool
/// yet.
pub trait JobHistory {
    /// A stored job.
    fn job(&self, id: JobId) -> Result<Option<Job>, Refusal>;
    /// The job that a user submitted with this token, which identifies a repeated submission.
    fn submitted(&self, uid: u32, token: [u8; 16]) -> Result<Option<JobId>, Refusal>;
    /// The last submitted job with this label. The job `except` does not count.
    fn labelled(&self, mark: &Mark, except: Option<JobId>) -> Result<Option<JobId>, Refusal>;
    /// A stored job script.
    fn script(&self, digest: Digest) -> Result<Option<Vec<u8>>, Refusal>;
    /// A stored environment of a job.
    fn environment(&self, digest: Digest) -> Result<Option<Vec<u8>>, Refusal>;
}

/// The users, the groups and the time zone of the machine.
pub trait Accounts: fmt::Debug {
    /// The uid of a user; None if the user does not exist or the lookup fails.
    fn user_number(&self, name: &str) -> Option<u32>;
    /// The gid of a group; None if the group does not exist or the lookup fails.
    fn group_number(&self, name: &str) -> Option<u32>;
    /// The name of a group; the gid as text if the group has no name.
    fn group_name(&self, gid: u32) -> String;
    /// The gid of a group if the user is a member; None otherwise.
    fn membership(&self, owner: &Owner, group: &str) -> Result<Option<u32>, Refusal>;
    /// Whether a process of schedd's user is allowed to change to this group.
    fn may_set_group(&self, gid: u32) -> bool;
    /// The local time zone.
    fn zone(&self) -> &dyn Zone;
    /// The name of the local time zone.
    fn zone_name(&self) -> String;
    /// The time zone of this name, if it is known.
    fn zone_named(&self, name: &str) -> Option<Box<dyn Zone>>;
}
