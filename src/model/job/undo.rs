//! Undo of a user's last action: what the server records about each changed job, and the report
//! to the user.
//!
//! An action is a hold, a release, an alteration or a deletion of jobs by one command. Only the
//! last action of each user is kept.

use super::dependency::{Awaited, DependencyCondition};
use super::state::Holds;
use super::{Attempt, Digest, Owner, Spec};
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Maximum number of recorded jobs of an action.
pub const MOST_JOBS: usize = 10_000;

/// Time after which an action can no longer be reverted.
pub const UNDO_PERIOD: Span = Span::seconds(24 * 60 * 60);

/// Kind of action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UndoKind {
    /// Holds were set.
    Hold,
    /// Holds were released.
    Release,
    /// Attributes were changed.
    Alter,
    /// Jobs were deleted.
    Cancel,
}

/// Last action of a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserAction {
    /// Kind of action.
    pub kind: UndoKind,
    /// The user. A uid can be assigned to another person later.
    pub owner: Owner,
    /// Time of the first request of the action.
    pub at: Time,
    /// Number of changed jobs that are not recorded, because the action changed more than
    /// [`MOST_JOBS`].
    #[serde(default)]
    pub unrecorded: u64,
    /// Connection of the command. Further requests on the same connection belong to the same
    /// action. None after a restart.
    #[serde(skip)]
    pub connection: Option<u64>,
    /// The jobs, in the order of their ids within each request.
    #[serde(skip)]
    pub jobs: Vec<JobBefore>,
}

impl UserAction {
    /// Tests whether the action can no longer be reverted.
    pub fn is_expired(&self, now: Time) -> bool {
        now.since(self.at) > UNDO_PERIOD
    }
}

/// A job before an action, as far as the action has changed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobBefore {
    /// The job.
    pub job: JobId,
    /// Time of the change.
    pub at: Time,
    /// Latest attempt. A later attempt shows that the job has started since.
    pub attempt: Attempt,
    /// The job ran, or a subjob of the array had started.
    #[serde(default, skip_serializing_if = "is_false")]
    pub had_started: bool,
    /// The request did not name this job. It changed because it depended on a deleted job.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_dependent: bool,
    /// Holds that the action set.
    #[serde(default, skip_serializing_if = "is_no_hold")]
    pub held: Holds,
    /// Holds that the action released.
    #[serde(default, skip_serializing_if = "is_no_hold")]
    pub released: Holds,
    /// Positions of the array's waiting subjobs, as ranges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<(u32, u32)>,
    /// Dependencies, if the action can remove them; None without dependencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Box<DependenciesBefore>>,
    /// Altered attributes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alteration: Option<Box<AlterationBefore>>,
}

/// Dependencies of a job before an action.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DependenciesBefore {
    /// Unmet conditions on other jobs that the action did not satisfy.
    pub conditions: Vec<(JobId, DependencyCondition)>,
    /// Conditions that the action satisfied, because it deleted the other job.
    pub met: Vec<(JobId, DependencyCondition)>,
    /// Unmet conditions on labels that the action did not satisfy.
    pub labels: Vec<Awaited>,
    /// Conditions on labels that the action satisfied, with the deleted job.
    pub met_labels: Vec<(JobId, Awaited)>,
    /// Number of jobs that must name this job in a `before...` dependency.
    pub on: u32,
    /// The job's `runone` set.
    pub set: Option<JobId>,
    /// Other members of the set.
    pub rivals: Vec<JobId>,
}

/// Attributes of a job before an alteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlterationBefore {
    /// Options and requests.
    pub spec: Arc<Spec>,
    /// Digest of the altered options. Another digest shows that they were changed again.
    pub after: Digest,
    /// `run_count`, if it was altered.
    pub run_count: Option<u32>,
    /// The comment was altered.
    pub altered_comment: bool,
    /// Comment, if it was altered.
    pub comment: Option<String>,
    /// The alteration added dependencies.
    pub added_dependencies: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_no_hold(holds: &Holds) -> bool {
    holds.is_none()
}

/// Report on the undo of an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UndoReport {
    /// Kind of action.
    pub kind: UndoKind,
    /// Time of the action.
    pub at: Time,
    /// Number of changed jobs that were not recorded.
    pub unrecorded: u64,
    /// For each job: an optional remark if the change is reverted, otherwise the cause.
    pub jobs: Vec<(JobId, Result<Option<String>, String>)>,
}

impl UndoReport {
    /// Returns the jobs for which the action is reverted.
    pub fn reverted(&self) -> impl Iterator<Item = JobId> {
        let reverted = self.jobs.iter().filter(|(_, how)| how.is_ok());
        reverted.map(|(id, _)| *id)
    }
}
