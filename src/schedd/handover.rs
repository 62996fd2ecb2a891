//! How waiting jobs move from a queue of nested instances to a nested instance of their owner.
//!
//! The nested instance asks for offers, makes a held copy of a job, and claims the job. The claim ends the job here,
//! in one transaction; only then the copy is released. At no time could both start.

use super::requests::{Desk, Granted};
use crate::model::event::Event;
use crate::model::job::{Job, JobId, Life, Program, Spec};
use crate::model::queue::Queue;
use crate::model::refusal::Refusal;
use crate::model::state::{Holds, State};
use crate::spool::commit::Change;
use crate::spool::scripts::digest;
use crate::wire::message::{Adoption, Offered};
use std::sync::Arc;

/// The most jobs of one offer.
const MOST_JOBS: usize = 8;
/// The most bytes of scripts and environments of one offer, which has one job at least.
const MOST_BYTES: usize = 4 << 20;

impl Desk<'_> {
    /// Jobs of the caller that wait in a queue of nested instances.
    pub(super) fn offer(&self, queue: &str, after: Option<JobId>) -> Result<Granted, Refusal> {
        let queue = self.ledger.setup.queue(queue).ok_or_else(Refusal::unknown_queue)?;
        if !queue.nested {
            return Err(Refusal::not_nested(&queue.name));
        }
        let mut offered = Vec::new();
        let mut bytes = 0;
        let is_next = |job: &&Arc<Job>| after.is_none_or(|after| job.id > after);
        for job in self.ledger.jobs().filter(is_next).filter(|job| self.may_take(job, queue)) {
            let one = self.offered(job)?;
            bytes += one.script.len() + one.environ.len();
            if offered.len() == MOST_JOBS || !offered.is_empty() && bytes > MOST_BYTES {
                break;
            }
            offered.push(one);
        }
        Ok(Granted::Offered(offered))
    }

    /// Whether the caller's nested instance may take this job now. A job stays where it is if a client, a reservation
    /// or other jobs refer to it, and so does an array.
    fn may_take(&self, job: &Job, queue: &Queue) -> bool {
        let (spec, ties) = (&job.spec, &self.ledger.ties);
        let waits = spec.queue == queue.name && queue.nested && queue.started && job.life.state == State::Queued;
        let is_plain = spec.array.is_none() && !spec.interactive && !spec.block;
        let is_alone = spec.reservation.is_none() && spec.label.is_none();
        waits
            && is_plain
            && is_alone
            && self.caller.owner.is_same_account(&job.owner)
            && !ties.has_dependents(job.id)
            && ties.membership(job.id).is_none()
    }

    fn offered(&self, job: &Job) -> Result<Offered, Refusal> {
        let missing = || Refusal::spool("the script or environment of a job is missing");
        let script = match job.spec.program {
            Program::Script(digest) => self.spool.script(digest).map_err(Refusal::spool)?.ok_or_else(missing)?,
            Program::Command(_) => Vec::new(),
        };
        let environ = self.spool.blob(job.spec.environ).map_err(Refusal::spool)?.ok_or_else(missing)?;
        Ok(Offered { job: job.id, spec: job.spec.clone(), script, environ })
    }

    /// Ends the job here: it goes on as `to`. The token tells a repeated claim from another one.
    pub(super) fn claim(&mut self, id: JobId, to: &str, token: [u8; 16]) -> Result<Granted, Refusal> {
        if self.submitted(token)?.is_some() {
            return Ok(Granted::Done);
        }
        let job = self.live(id)?;
        if !self.caller.owner.is_same_account(&job.owner) {
            return Err(Refusal::unauthorized());
        }
        let queue = self.ledger.setup.queue(&job.spec.queue).ok_or_else(Refusal::unknown_queue)?;
        if !self.may_take(&job, queue) {
            return Err(Refusal::bad_state());
        }
        self.ledger.also(Change::Token(self.caller.owner.uid, token, id, self.ledger.now));
        self.ledger.happen(id, Event::Taken { by: self.caller.shown(), to: to.to_string() });
        Ok(Granted::Done)
    }

    /// A held copy of a job of the parent. The parent has checked the job, and its owner is the one user here.
    pub(super) fn adopt(&mut self, adoption: &Adoption) -> Result<Granted, Refusal> {
        let setup = &self.ledger.setup;
        if setup.shared || !setup.home.grant().exists() {
            return Err(Refusal::unauthorized());
        }
        if let Some(granted) = self.submitted(adoption.token)? {
            return Ok(granted);
        }
        let Offered { spec, script, environ, .. } = &adoption.offered;
        let is_whole = digest(environ) == spec.environ
            && matches!(&spec.program, Program::Script(known) if *known == digest(script))
                | matches!(spec.program, Program::Command(_));
        if !is_whole {
            return Err(Refusal::invalid_request());
        }
        let owner = self.admit()?;
        let queue = setup.config.server.default_queue.clone();
        let wanted = Spec { queue, qos: None, ..Spec::clone(spec) };
        let entered = self.enter(&owner, &wanted, State::Held)?;
        let id = JobId::job(self.ledger.next_number());
        let life = Life::new(Holds::SYSTEM, 0, self.ledger.now);
        let mut job = Job { id, owner, spec: Arc::new(entered.spec), life, elements: None };
        self.ledger.refuse_impossible(&job)?;
        if !script.is_empty() {
            self.keep(script);
        }
        self.keep(environ);
        job.id = self.ledger.take_number(false);
        let id = job.id;
        self.ledger.also(Change::Token(job.owner.uid, adoption.token, id, self.ledger.now));
        self.ledger.insert(job);
        Ok(Granted::Job(id, entered.notes))
    }
}
