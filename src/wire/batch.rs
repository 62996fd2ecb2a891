//! Requests of commands with a list of jobs: one message contains the action and all jobs.

use super::message::{ClientRequest, Placing};
use crate::model::attribute::AttributeSetting;
use crate::model::job::array::Indices;
use crate::model::job::state::Holds;
use crate::model::job_id::JobId;
use crate::model::text::Text;
use serde::{Deserialize, Serialize};

/// Maximum number of jobs in a [`Batch`]. It limits the time that schedd spends on one request.
pub const LARGEST: usize = 4000;

/// One action on several jobs. schedd applies the action to the jobs in the order of `jobs` and in
/// one transaction. Effects on other jobs follow after all actions. The action succeeds or is
/// refused for each job separately.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Batch {
    /// The action on each job.
    pub act: Act,
    /// The jobs; at most [`LARGEST`].
    pub jobs: Vec<BatchTarget>,
}

/// A job of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchTarget {
    /// The job.
    pub job: JobId,
    /// For an array: the action applies only to these subjobs; None for all.
    pub only: Option<Indices>,
    /// What happens if no job has this number: if true, the action applies to the array with this
    /// number; if false, the action is refused. Some clients keep only the digits of an id.
    pub or_array: bool,
}

impl BatchTarget {
    /// Returns the array to which the action applies if the job does not exist; None if the action
    /// is refused in this case.
    pub fn array(&self) -> Option<JobId> {
        self.or_array.then(|| JobId::array(self.job.number))
    }
}

/// The action of a command on each job of a list. Each variant stands for the variant of
/// [`ClientRequest`] with the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "ClientRequest documents the fields")]
pub enum Act {
    Alter(Vec<AttributeSetting>),
    Hold(Holds),
    Release(Holds),
    Delete {
        force: bool,
        purge: bool,
    },
    Rerun {
        force: bool,
    },
    RerunFailed,
    Retry,
    Signal(String),
    Move(String),
    Message {
        output: bool,
        errors: bool,
        text: Text,
    },
    Run {
        on: Placing,
        detached: bool,
    },
    Shove,
    RetryWith(Vec<AttributeSetting>),
}

impl Act {
    /// Returns the request for one job; `only` restricts it to these subjobs of an array. As in
    /// PBS, some actions do not allow a range of subjobs. For such an action, the request names
    /// only the first subjob; schedd then usually refuses it.
    pub fn on(&self, job: JobId, only: Option<Indices>) -> ClientRequest {
        let whole = only.map_or(job, |only| JobId::element(job.number, only.at(0)));
        match self.clone() {
            Act::Alter(settings) => ClientRequest::Alter(whole, settings),
            Act::Hold(holds) => ClientRequest::Hold(whole, holds),
            Act::Release(holds) => ClientRequest::Release(whole, holds),
            Act::Delete { force, purge } => ClientRequest::Delete {
                job,
                only,
                force,
                purge,
            },
            Act::Rerun { force } => ClientRequest::Rerun { job, only, force },
            Act::RerunFailed => ClientRequest::RerunFailed(whole),
            Act::Retry => ClientRequest::Retry { job, only },
            Act::Signal(signal) => ClientRequest::Signal { job, only, signal },
            Act::Move(destination) => ClientRequest::Move(whole, destination),
            Act::Message {
                output,
                errors,
                text,
            } => ClientRequest::Message {
                job: whole,
                output,
                errors,
                text,
            },
            Act::Run { on, detached } => ClientRequest::Run {
                job: whole,
                on,
                detached,
            },
            Act::Shove => ClientRequest::Shove(whole),
            Act::RetryWith(settings) => ClientRequest::RetryWith {
                job,
                only,
                settings,
            },
        }
    }
}

impl Batch {
    /// Returns the request for the first job; None for an empty batch.
    pub fn first(&self) -> Option<ClientRequest> {
        self.jobs
            .first()
            .map(|target| self.act.on(target.job, target.only))
    }
}
