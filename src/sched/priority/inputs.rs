//! The inputs of the priority of jobs: state, policy, time and fair shares.

use crate::model::policy::Policy;
use crate::model::time::{Span, Time};
use crate::sched::view::class::Wait;
use crate::sched::view::fair_share_factors::FairShareFactors;
use crate::sched::view::shape::ClassKey;
use crate::sched::view::snapshot::ClusterState;
use std::sync::Arc;

/// The inputs of the priority of jobs at one time.
pub struct PriorityInputs<'s> {
    pub(super) state: &'s ClusterState,
    pub(super) policy: &'s Policy,
    pub(super) now: Time,
    pub(super) shares: Arc<FairShareFactors>,
    /// The number of nodes.
    pub(super) nodes: usize,
}

impl PriorityInputs<'_> {
    /// The walltime of a job of the class, or the default walltime.
    pub(super) fn walltime(&self, class: &ClassKey) -> Span {
        class.walltime.unwrap_or(self.policy.default_walltime)
    }

    /// The `Priority` attribute of the queue of the class; 0 for an unknown queue.
    pub(super) fn queue_priority(&self, class: &ClassKey) -> i64 {
        self.state
            .queues
            .get(&class.who.queue)
            .map_or(0, |queue| i64::from(queue.priority))
    }

    /// The waiting time that counts for the priority: the eligible time.
    pub(super) fn waited(&self, wait: &Wait) -> Span {
        wait.eligibility.at(self.now).max(Span(0))
    }

    /// The total amount of a resource that a job of a class requests, in bytes, in seconds or as a
    /// plain number. None if the resource is not consumable.
    pub(super) fn amount(&self, class: &ClassKey, resource: &str) -> Option<f64> {
        let catalog = &self.state.cluster.catalog;
        let index = catalog.index(resource)?;
        Some(catalog.number(index, class.shape.total[index]))
    }
}
