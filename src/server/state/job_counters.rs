//! How many jobs there are, where limits ask; and which of them wait to be passed on by a routing
//! queue.

use crate::model::credentials::Credentials;
use crate::model::job::Job;
use crate::model::job::Owner;
use crate::model::job::Spec;
use crate::model::job_id::JobId;
use crate::model::queue::counters::Comer;
use crate::model::queue::counters::JobCounters;
use crate::model::queue::counters::uses::Counted;
use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::model::time::Time;
use crate::sched::placement::nearest_fit::Possible;
use crate::server::queue_admission::subject;
use crate::server::state::ServerState;
use std::collections::{BTreeMap, BTreeSet};

/// So many jobs are tried in one tick at most: nobody is to wait for that.
const AT_ONCE: usize = 1000;

/// Jobs in routing queues, each with when it is tried next.
#[derive(Default)]
pub struct Routed {
    next: BTreeMap<JobId, Time>,
    in_order: BTreeSet<(Time, JobId)>,
}

impl Routed {
    fn try_at(&mut self, id: JobId, next: Option<Time>) {
        let before = match next {
            Some(next) => self.next.insert(id, next),
            None => self.next.remove(&id),
        };
        if let Some(before) = before {
            self.in_order.remove(&(before, id));
        }
        self.in_order.extend(next.map(|next| (next, id)));
    }
}

impl ServerState {
    /// Whether limits leave room for a job in the queue it names; what is to be said besides.
    pub fn room_for(
        &self,
        comer: Comer,
        owner: &Owner,
        spec: &Spec,
    ) -> Result<Vec<String>, Refusal> {
        if self.job_counters.is_idle() {
            return Ok(Vec::new());
        }
        let who = Credentials::new(owner, spec);
        let accounts = &*self.setup.installation.accounts;
        let subject = subject(
            &self.setup.policy,
            accounts,
            &who,
            self.job_counters.heeds_groups(),
        );
        self.job_counters
            .admit(comer, spec, &subject, &self.setup.resources)
    }

    /// What of the limits on what is queued is used.
    pub fn counted(&self) -> Vec<Counted> {
        self.job_counters.uses()
    }

    /// Counts a job as it stands now.
    pub(crate) fn count(&mut self, id: JobId) {
        let heeds_groups = self.job_counters.heeds_groups();
        let accounts = &*self.setup.installation.accounts;
        match self.jobs.get(&id) {
            Some(job) => self.job_counters.count(job, |who| {
                subject(&self.setup.policy, accounts, who, heeds_groups)
            }),
            None => self.job_counters.forget(id),
        }
    }

    /// Takes note of whether a job waits to be passed on: what changes about it may be what it
    /// waited for.
    pub(crate) fn note_routed(&mut self, id: JobId) {
        let is_routed = self.jobs.get(&id).is_some_and(|job| self.is_routed(job));
        if is_routed || self.routed.next.contains_key(&id) {
            self.routed.try_at(id, is_routed.then_some(self.now));
        }
    }

    /// Whether something may become of a job by routing: that it is passed on, or has waited for
    /// that too long.
    fn is_routed(&self, job: &Job) -> bool {
        // Subjobs go where their array goes.
        if job.id.index().is_some() {
            return false;
        }
        let queue = self.setup.queue(&job.spec.queue);
        queue.is_some_and(|queue| queue.routes(job.life.state))
    }

    /// Counts all jobs anew, and forgets what was found out of requests: limits, queues or the
    /// policy are others than before.
    pub fn count_anew(&mut self) {
        self.possible = Possible::default();
        self.job_counters = JobCounters::new(
            &self.setup.policy.limits,
            self.setup.policy.default_walltime,
        );
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in ids {
            self.count(id);
            self.note_routed(id);
        }
    }

    /// The jobs in routing queues whose turn it is to be tried.
    pub fn routed_due(&self) -> Vec<JobId> {
        let due = self
            .routed
            .in_order
            .iter()
            .take_while(|(next, _)| *next <= self.now);
        due.take(AT_ONCE).map(|(_, id)| *id).collect()
    }

    /// A job is tried again after this long.
    pub fn try_again(&mut self, id: JobId, after: Span) {
        self.routed.try_at(id, Some(self.now + after));
    }

    /// When a job in a routing queue is tried next.
    pub fn next_routed(&self) -> Option<Time> {
        self.routed.in_order.first().map(|(next, _)| *next)
    }
}
