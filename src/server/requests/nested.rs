//! Moves waiting jobs to a nested queue: a personal Lanai server that runs inside another job of
//! the same owner.
//!
//! The parent server offers a job. The nested queue creates a held copy and claims the job. The
//! claim ends the job in the parent, in one transaction. Only then does the nested queue release
//! its copy. Therefore job and copy never both start.

use crate::model::job::Digest;
use crate::model::job::Job;
use crate::model::job::JobProgram;
use crate::model::job::Life;
use crate::model::job::Spec;
use crate::model::job::event::Event;
use crate::model::job::state::Holds;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::queue::Queue;
use crate::model::refusal::Refusal;
use crate::server::granted::Granted;
use crate::server::request_context::RequestContext;
use crate::update::Update;
use crate::wire::message::Adoption;
use crate::wire::message::NestedClaim;
use crate::wire::message::Offered;
use std::sync::Arc;

/// Maximum length of a full job id, in bytes.
const MAX_ID_LENGTH: usize = 300;

impl RequestContext<'_> {
    /// Whether a nested queue may claim this job now. Jobs with dependents and jobs in a `runone`
    /// set may not be claimed.
    fn may_be_claimed(&self, job: &Job, queue: &Queue) -> bool {
        let dependencies = &self.server.dependencies;
        queue.passes_on(job)
            && !dependencies.has_dependents(job.id)
            && dependencies.membership(job.id).is_none()
    }

    /// Ends a claimed job in the parent server. The job continues in the nested queue, as `to`. The
    /// token identifies a repeated claim.
    pub(crate) fn claim(&mut self, claim: &NestedClaim) -> Result<Granted, Refusal> {
        let NestedClaim { job: id, to, .. } = claim;
        if !is_full_id(to) {
            return Err(Refusal::invalid_request());
        }
        if self.earlier_submission(claim.token)?.is_some() || self.has_moved(*id, to)? {
            return Ok(Granted::Done);
        }
        let job = self.unfinished_job(*id)?;
        if !self.caller.owner.is_same_account(&job.owner) {
            return Err(Refusal::unauthorized());
        }
        let queue = self
            .server
            .setup
            .queue(&job.spec.queue)
            .ok_or_else(Refusal::unknown_queue)?;
        let is_as_offered = self.revision(&job)? == claim.revision;
        if !is_as_offered || !self.may_be_claimed(&job, queue) {
            return Err(Refusal::bad_state());
        }
        self.server.add_update(Update::Token(
            self.caller.owner.uid,
            claim.token,
            *id,
            self.server.now,
        ));
        self.server.apply_event(
            *id,
            Event::Taken {
                by: self.caller.shown(),
                to: to.clone(),
            },
        );
        Ok(Granted::Done)
    }

    fn revision(&self, job: &Job) -> Result<Digest, Refusal> {
        job.spec.revision().map_err(Refusal::spool)
    }

    /// Whether a job of the caller has already moved to `to`. Detects claims that are repeated
    /// after their token has expired.
    fn has_moved(&self, id: JobId, to: &str) -> Result<bool, Refusal> {
        let job = match self.server.known(id) {
            Some(job) => Some(Arc::unwrap_or_clone(job)),
            None => self.stored_job(id)?,
        };
        let has_moved = |job: Job| job.life.moved_to.as_deref() == Some(to);
        Ok(job.is_some_and(|job| self.caller.owner.is_same_account(&job.owner) && has_moved(job)))
    }

    /// Adds a held copy of a job of the parent server, which has checked the job. The job's owner
    /// is the only user of this nested queue.
    pub(crate) fn adopt(&mut self, adoption: &Adoption) -> Result<Granted, Refusal> {
        self.must_be_nested()?;
        if let Some(granted) = self.earlier_submission(adoption.token)? {
            return Ok(granted);
        }
        let Offered {
            spec,
            script,
            environ,
            ..
        } = &adoption.offered;
        let is_whole = Digest::of(environ) == spec.environ
            && matches!(&spec.program, JobProgram::Script(known) if *known == Digest::of(script))
                | matches!(spec.program, JobProgram::Command(_));
        if !is_whole {
            return Err(Refusal::invalid_request());
        }
        let owner = self.job_owner()?;
        let queue = self.server.setup.config.server.default_queue.clone();
        let wanted = Spec {
            queue,
            qos: None,
            ..Spec::clone(spec)
        };
        let entered = self.enter(&owner, &wanted, JobState::Held)?;
        let id = JobId::job(self.server.next_number());
        let life = Life::new(Holds::SYSTEM, 0, self.server.now);
        let mut job = Job {
            id,
            owner,
            spec: Arc::new(entered.spec),
            life,
            elements: None,
        };
        self.server.refuse_impossible(&job)?;
        if let JobProgram::Script(_) = spec.program {
            self.store(script);
        }
        self.store(environ);
        job.id = self.server.take_number(false);
        let id = job.id;
        self.server.add_update(Update::Token(
            job.owner.uid,
            adoption.token,
            id,
            self.server.now,
        ));
        self.server.insert(job);
        Ok(Granted::Job(id, entered.notes))
    }

    /// Ends a held copy of an unclaimed job. The job continues in the parent server, as `to`.
    /// No mail or notice is sent.
    pub(crate) fn give_back(&mut self, copy: JobId, to: &str) -> Result<Granted, Refusal> {
        self.must_be_nested()?;
        if !is_full_id(to) {
            return Err(Refusal::invalid_request());
        }
        let job = self.owned_whole_job(copy)?;
        if job.life.state != JobState::Held || !job.life.holds.contains(Holds::SYSTEM) {
            return Err(Refusal::bad_state());
        }
        self.server.apply_event(
            copy,
            Event::Taken {
                by: self.caller.shown(),
                to: to.to_string(),
            },
        );
        Ok(Granted::Done)
    }

    fn must_be_nested(&self) -> Result<(), Refusal> {
        let setup = &self.server.setup;
        let is_nested = !setup.shared && setup.installation.nested;
        if is_nested {
            Ok(())
        } else {
            Err(Refusal::unauthorized())
        }
    }
}

/// Whether a text is a full job id such as `7.job1.head`.
fn is_full_id(text: &str) -> bool {
    let is_plain = !text.contains(|letter: char| letter.is_control() || letter.is_whitespace());
    let has_job = |(job, server): (&str, &str)| job.parse::<JobId>().is_ok() && !server.is_empty();
    text.len() <= MAX_ID_LENGTH && is_plain && text.split_once('.').is_some_and(has_job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_id_is_accepted() {
        assert!(is_full_id("7.job1.head"));
        let long = format!("7.{}", "x".repeat(MAX_ID_LENGTH));
        for text in [
            "",
            "7",
            "7.",
            ".head",
            "x.head",
            "7.he\u{1b}[2Jad",
            "7.head\n",
            "7.my head",
            &long,
        ] {
            assert!(!is_full_id(text), "{text}");
        }
    }
}
