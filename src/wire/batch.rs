//! Commands with a list of jobs: one request for all of them.

use super::message::{Placing, Request};
use crate::model::attribute::Setting;
use crate::model::job::array::Indices;
use crate::model::job::state::Holds;
use crate::model::job_id::JobId;
use crate::model::text::Text;
use serde::{Deserialize, Serialize};

/// The most jobs of one [`Batch`]: as much work as schedd does in one go for one client.
pub const LARGEST: usize = 4000;

/// One act on several jobs. schedd applies it to each job in this order, in one transaction and
/// before anything follows from it; for each job it succeeds or is refused separately.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Batch {
    /// What is done.
    pub act: Act,
    /// The jobs; at most [`LARGEST`].
    pub jobs: Vec<Target>,
}

/// A job of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The job.
    pub job: JobId,
    /// These subjobs of the array only.
    pub only: Option<Indices>,
    /// Whether the array of this number is meant if there is no such job: some clients keep only
    /// the digits of an id.
    pub or_array: bool,
}

impl Target {
    /// The array that is meant if the job is unknown.
    pub fn array(&self) -> Option<JobId> {
        self.or_array.then(|| JobId::array(self.job.number))
    }
}

/// What a command with a list of jobs does to each of them. The variants are those of [`Request`]
/// without the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "Request documents the fields")]
pub enum Act {
    Alter(Vec<Setting>),
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
    pub fn on(&self, job: JobId, only: Option<Indices>) -> Request {
        let whole = only.map_or(job, |only| JobId::element(job.number, only.at(0)));
        match self.clone() {
            Act::Alter(settings) => Request::Alter(whole, settings),
            Act::Hold(holds) => Request::Hold(whole, holds),
            Act::Release(holds) => Request::Release(whole, holds),
            Act::Delete { force, purge } => Request::Delete {
                job,
                only,
                force,
                purge,
            },
            Act::Rerun { force } => Request::Rerun { job, only, force },
            Act::RerunFailed => Request::RerunFailed(whole),
            Act::Retry => Request::Retry { job, only },
            Act::Signal(signal) => Request::Signal { job, only, signal },
            Act::Move(destination) => Request::Move(whole, destination),
            Act::Message {
                output,
                errors,
                text,
            } => Request::Message {
                job: whole,
                output,
                errors,
                text,
            },
            Act::Run { on, detached } => Request::Run {
                job: whole,
                on,
                detached,
            },
            Act::Shove => Request::Shove(whole),
        }
    }
}

impl Batch {
    /// The request for its first job; None if it has none.
    pub fn first(&self) -> Option<Request> {
        self.jobs
            .first()
            .map(|target| self.act.on(target.job, target.only))
    }
}
