//! Job counts for limits, and the jobs that wait in routing queues.

use crate::model::credentials::Credentials;
use crate::model::job::Job;
use crate::model::job::Owner;
use crate::model::job::Spec;
use crate::model::job_id::JobId;
use crate::model::queue::counters::EnteringJob;
use crate::model::queue::counters::JobCounters;
use crate::model::queue::counters::uses::Counted;
use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::model::time::Time;
use crate::sched::placement::nearest_fit::Possible;
use crate::server::queue_admission::subject;
use crate::server::state::ServerState;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of jobs routed in one transaction, so that client requests do not wait long.
const MAX_ROUTED: usize = 1000;

/// Jobs in routing queues, each with the time of the next routing attempt.
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
    /// Checks the limits for a job that enters its queue. Returns warnings.
    pub fn check_limits(
        &self,
        entering: EnteringJob,
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
            self.job_counters.uses_groups(),
        );
        self.job_counters
            .admit(entering, spec, &subject, &self.setup.resources)
    }

    /// Usage of the limits on queued jobs.
    pub fn counted(&self) -> Vec<Counted> {
        self.job_counters.uses()
    }

    /// Updates the counters for a job's current state.
    pub(crate) fn count(&mut self, id: JobId) {
        let uses_groups = self.job_counters.uses_groups();
        let accounts = &*self.setup.installation.accounts;
        match self.jobs.get(&id) {
            Some(job) => self.job_counters.count(job, |who| {
                subject(&self.setup.policy, accounts, who, uses_groups)
            }),
            None => self.job_counters.forget(id),
        }
    }

    /// Adds a job that waits to be routed to the list of these jobs, or removes any other job from
    /// it. A routing attempt of a job in the list is then due now.
    pub(crate) fn note_routed(&mut self, id: JobId) {
        let is_routed = self.jobs.get(&id).is_some_and(|job| self.is_routed(job));
        if is_routed || self.routed.next.contains_key(&id) {
            self.routed.try_at(id, is_routed.then_some(self.now));
        }
    }

    /// Whether the job may leave its queue: by routing, or at the end of its lifetime in the queue.
    fn is_routed(&self, job: &Job) -> bool {
        // Only the array is routed, not its subjobs.
        if job.id.index().is_some() {
            return false;
        }
        let queue = self.setup.queue(&job.spec.queue);
        queue.is_some_and(|queue| queue.routes(job.life.state))
    }

    /// Recounts all jobs, clears cached feasibility results, and makes all routing attempts due.
    /// Called after limits, queues or the policy have changed.
    pub fn recount_jobs(&mut self) {
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

    /// The jobs with a routing attempt that is due, at most `MAX_ROUTED`.
    pub fn routed_due(&self) -> Vec<JobId> {
        let due = self
            .routed
            .in_order
            .iter()
            .take_while(|(next, _)| *next <= self.now);
        due.take(MAX_ROUTED).map(|(_, id)| *id).collect()
    }

    /// Sets the next routing attempt of a job to `after` from now.
    pub fn retry_routing_after(&mut self, id: JobId, after: Span) {
        self.routed.try_at(id, Some(self.now + after));
    }

    /// The time of the next routing attempt of any job.
    pub fn next_routed(&self) -> Option<Time> {
        self.routed.in_order.first().map(|(next, _)| *next)
    }
}
