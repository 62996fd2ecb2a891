//! The context of a client request: the server's state, the stored jobs and the caller.

use crate::model::job::Digest;
use crate::model::job::Job;
use crate::model::job::Owner;
use crate::model::job::state::Holds;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::server::caller::Caller;
use crate::server::outside::JobHistory;
use crate::server::setup::Setup;
use crate::server::state::ServerState;
use crate::update::Update;
use std::sync::Arc;

/// The context of the request that is being handled.
pub(crate) struct RequestContext<'a> {
    pub(crate) server: &'a mut ServerState,
    pub(crate) history: &'a dyn JobHistory,
    pub(crate) caller: &'a Caller,
}

impl RequestContext<'_> {
    /// Stores a script or an environment under its digest. Equal contents are stored once.
    pub(crate) fn store(&mut self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        self.server.add_update(Update::Blob(digest, bytes.into()));
        digest
    }

    /// An unfinished job. Finished and unknown jobs are refused.
    pub(crate) fn unfinished_job(&self, id: JobId) -> Result<Arc<Job>, Refusal> {
        match self.server.known(id) {
            Some(job) if job.life.state != JobState::Finished => Ok(job),
            Some(job) => Err(self.refusal_of_finished(&job)),
            None => Err(self
                .stored_job(id)?
                .map_or_else(Refusal::unknown_job, |job| self.refusal_of_finished(&job))),
        }
    }

    /// The refusal of a request for a finished job. Without a history such a job is unknown.
    fn refusal_of_finished(&self, job: &Job) -> Refusal {
        match &job.life.moved_to {
            _ if !self.has_history() => Refusal::unknown_job(),
            Some(to) => Refusal::moved(to),
            None => Refusal::finished(),
        }
    }

    /// Whether the server keeps finished jobs.
    pub(crate) fn has_history(&self) -> bool {
        self.server.setup.config.server.history > Span(0)
    }

    /// A job from the spool, finished or not; None if the job is unknown or being removed.
    pub(crate) fn stored_job(&self, id: JobId) -> Result<Option<Job>, Refusal> {
        if self.server.is_forgotten(id.parent().unwrap_or(id)) {
            Ok(None)
        } else {
            self.history.job(id)
        }
    }

    /// An unfinished job or array that the caller may change. Subjobs are refused.
    pub(crate) fn owned_whole_job(&self, id: JobId) -> Result<Arc<Job>, Refusal> {
        if id.index().is_some() {
            Err(Refusal::invalid_request())
        } else {
            self.owned_job(id)
        }
    }

    /// An unfinished job that the caller may change.
    pub(crate) fn owned_job(&self, id: JobId) -> Result<Arc<Job>, Refusal> {
        let job = self.unfinished_job(id)?;
        self.caller.must_own(&job)?;
        Ok(job)
    }
}

/// Whether a user is a member of a group. False if the lookup fails.
pub(crate) fn is_member(setup: &Setup, owner: &Owner, group: &str) -> bool {
    let number = setup.installation.accounts.membership(owner, group);
    number.is_ok_and(|number| number.is_some())
}

/// Refuses callers who may not set or release these holds. Owners may change user holds only;
/// operators may change all.
pub(crate) fn may_hold(caller: &Caller, holds: Holds) -> Result<(), Refusal> {
    if Holds::USER.contains(holds) {
        Ok(())
    } else {
        caller.must_be_privileged()
    }
}
