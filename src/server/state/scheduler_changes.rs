//! Keeps the scheduler's view of the server's state up to date.

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

    /// Removes a node from the view.
    pub(crate) fn remove_from_view(&mut self, name: &str) {
        self.cluster.make(Change::NoNode(Cow::Borrowed(name)));
    }

    /// Records that the site's allocation script, which selects nodes, was called for a class of
    /// equal waiting jobs.
    pub fn note_script_called(&mut self, class: ClassId) {
        self.cluster.make(Change::Asked(class));
    }

    /// Records the nodes that the allocation script selected, best node first; None if the script
    /// gave no answer.
    pub fn note_answer(&mut self, class: ClassId, nodes: Option<Vec<String>>) {
        self.cluster.make(Change::Answered(class, nodes));
        self.want_cycle(Trigger::Answer);
    }

    /// Sets the jobs that hooks permit to start; None if jobs need no permission.
    pub fn set_permits(&mut self, permits: Option<BTreeSet<JobId>>) {
        if self.cluster.permits() != permits.as_ref() {
            self.cluster.make(Change::Permits(permits));
        }
    }

    /// Applies the bookings (planned starts) of a plan to the view for the next cycle.
    pub fn take_over(&mut self, plan: &Plan, triggers: &Triggers) {
        self.cluster.take_over(plan, triggers);
    }

    /// Updates priorities and sorts the queue for a cycle.
    pub fn prioritise(&mut self) {
        self.cluster.prioritise(&self.setup.policy, self.now);
    }

    /// Restores stored planned starts in the view, after a start of schedd or a change of the
    /// resource definitions.
    pub fn restore_promises(&mut self, promises: &BTreeMap<JobId, PromisedStart>) {
        self.update_stale_arrays();
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

    /// Whether a cycle has become due since the last call.
    pub fn take_cycle_due(&mut self) -> bool {
        self.update_stale_arrays();
        std::mem::take(&mut self.cycle_due)
    }

    /// Updates the view of changed arrays.
    pub(crate) fn update_stale_arrays(&mut self) {
        for array in std::mem::take(&mut self.stale) {
            self.update_job_view(array);
        }
    }

    /// The initial state of a forecast: the scheduler's view plus the jobs that wait for their
    /// begin time. No job waits for the allocation script or for the permission of a hook.
    pub fn cluster_ahead(&self) -> snapshot::ClusterState {
        let mut cluster = self.cluster.clone();
        cluster.drop_outstanding_answers();
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

    /// Updates the view of one job.
    pub(crate) fn update_job_view(&mut self, id: JobId) {
        let job = self.jobs.get(&id).map(Arc::as_ref);
        if let Some(change) = Change::of_limit(id, job, &self.cluster) {
            self.cluster.make(change);
        }
        let change = Change::of(id, job, &self.setup.policy);
        let change = match job.filter(|job| job.life.open_run().is_some()) {
            Some(job) => change.inside(self.reservation_of(job), self.reservation_end(job)),
            None => change,
        };
        self.cluster.make(change);
    }
}
