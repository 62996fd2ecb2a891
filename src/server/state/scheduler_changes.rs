//! The scheduler's view of what the server knows, and how it is kept in line with that.

use crate::model::job::Job;
use crate::model::job::eligible_time::Accrues;
use crate::model::job::promise::PromisedStart;
use crate::model::job_id::JobId;
use crate::model::trigger::Trigger;
use crate::model::trigger::Triggers;
use crate::sched::view::change::Change;
use crate::sched::view::plan::Plan;
use crate::sched::view::snapshot;
use crate::sched::view::snapshot::ClassId;
use crate::server::state::ServerState;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl ServerState {
    /// The scheduler's view.
    pub fn cluster(&self) -> &snapshot::ClusterState {
        &self.cluster
    }

    /// A node that is nowhere any more.
    pub(crate) fn unsee(&mut self, name: &str) {
        self.cluster.make(Change::NoNode(Cow::Borrowed(name)));
    }

    /// The site's program was asked about a class of jobs.
    pub fn note_asked(&mut self, class: ClassId) {
        self.cluster.make(Change::Asked(class));
    }

    /// What it has said, the best node first; None if that is nothing.
    pub fn note_answer(&mut self, class: ClassId, nodes: Option<Vec<String>>) {
        self.cluster.make(Change::Answered(class, nodes));
        self.want_cycle(Trigger::Answer);
    }

    /// The jobs that hooks have let start; None where no hooks are asked.
    pub fn set_permits(&mut self, permits: Option<BTreeSet<JobId>>) {
        if self.cluster.permits() != permits.as_ref() {
            self.cluster.make(Change::Permits(permits));
        }
    }

    /// The scheduler is to know of a plan's promises in its next cycle.
    pub fn take_over(&mut self, plan: &Plan, triggers: &Triggers) {
        self.cluster.take_over(plan, triggers);
    }

    /// Puts the queue in order for a cycle.
    pub fn prioritise(&mut self) {
        self.cluster.prioritise(&self.setup.policy, self.now);
    }

    /// The scheduler is to stand by what an earlier schedd promised.
    pub fn recall(&mut self, promises: &BTreeMap<JobId, PromisedStart>) {
        self.view_stale();
        for (&job, promise) in promises {
            let Some(walltime) = self.known(job).map(|job| job.spec.walltime()) else {
                continue;
            };
            let span = walltime.unwrap_or(self.setup.policy.default_walltime);
            self.cluster.make(Change::Promised {
                job,
                promise: Cow::Borrowed(promise),
                span,
            });
        }
    }

    /// Whether something changed that a cycle could act on; asked once.
    pub fn take_cycle_due(&mut self) -> bool {
        self.view_stale();
        std::mem::take(&mut self.cycle_due)
    }

    /// Brings the view of arrays that have changed in line with them.
    pub(crate) fn view_stale(&mut self) {
        for array in std::mem::take(&mut self.stale) {
            self.view(array);
        }
    }

    /// The scheduler's view with the jobs besides that wait for their begin time alone: what a
    /// forecast begins with.
    pub fn cluster_ahead(&self) -> snapshot::ClusterState {
        let mut cluster = self.cluster.clone();
        cluster.expect_no_answers();
        cluster.set_permits(None);
        for (begin, id) in &self.waiting {
            let Some(mut job) = self.jobs.get(id).map(|job| Job::clone(job)) else {
                continue;
            };
            let begin = self.clock.table().time(*begin);
            job.life.not_before = Some(begin);
            job.life.eligibility.turn(Accrues::Eligible, begin);
            cluster.enqueue(&job);
        }
        cluster
    }

    /// Brings the view of one job in line with it.
    pub(crate) fn view(&mut self, id: JobId) {
        let job = self.jobs.get(&id).map(Arc::as_ref);
        if let Some(change) = Change::of_limit(id, job, &self.cluster) {
            self.cluster.make(change);
        }
        let change = Change::of(id, job, &self.setup.policy);
        let change = match job.filter(|job| job.life.open_run().is_some()) {
            Some(job) => change.inside(self.reservation_of(job), self.close_of(job)),
            None => change,
        };
        self.cluster.make(change);
    }
}
