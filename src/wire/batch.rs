//! Commands with a list of jobs: one request for all of them.

use super::message::{ClientRequest, Placing};
use crate::model::attribute::AttributeSetting;
use crate::model::job::array::Indices;
use crate::model::job::state::Holds;
use crate::model::job_id::JobId;
use crate::model::text::Text;
use serde::{Deserialize, Serialize};

/// Maximum number of jobs in a [`Batch`]: limits the time for one client's request.
pub const LARGEST: usize = 4000;

/// One action on several jobs. schedd applies it to each job in this order, in one transaction and
/// before any effects on other jobs. The action succeeds or is refused for each job separately.
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
    /// These subjobs of the array only.
    pub only: Option<Indices>,
    /// Whether the array of this number is meant if there is no such job: some clients keep only
    /// the digits of an id.
    pub or_array: bool,
}

impl BatchTarget {
    /// The array that is meant if the job is unknown.
    pub fn array(&self) -> Option<JobId> {
        self.or_array.then(|| JobId::array(self.job.number))
    }
}

/// The action of a command on each job of a list. The variants are those of [`ClientRequest`]
/// without the job.
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
}

impl Act {
    /// The request for one job, or for these subjobs of an array only. Acts on whole jobs have no
    /// range of subjobs, as in PBS: they are requested of the first subjob, which schedd refuses.
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
        }
    }
}

impl Batch {
    /// The request for the first job; None for an empty batch.
    pub fn first(&self) -> Option<ClientRequest> {
        self.jobs
            .first()
            .map(|target| self.act.on(target.job, target.only))
    }
}
