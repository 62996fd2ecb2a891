//! The running jobs that may be preempted, in the order in which they are tried (X14).

use crate::model::job::preemption::PreemptAction;
use crate::model::job_id::JobId;
use crate::model::policy::Policy;
use crate::model::policy::preemption::Victims;
use crate::model::request::cluster_path::{ClusterPath, distance};
use crate::model::time::Time;
use crate::sched::view::preemption_candidate::PreemptionCandidate;
use crate::sched::view::snapshot::{ClusterState, RunningJob};
use crate::sched::view::sort_key::highest_first;
use std::cmp::Reverse;

/// A running job that may be preempted.
#[derive(Clone, Copy)]
pub struct Exposed<'s> {
    /// Its id.
    pub job: JobId,
    /// The running job with its resources.
    pub running: &'s RunningJob,
    /// Its start time and its priority.
    pub candidate: &'s PreemptionCandidate,
}

impl Exposed<'_> {
    /// The actions that can preempt it, in the order in which they are tried.
    pub fn actions(&self, policy: &Policy, now: Time) -> impl Iterator<Item = PreemptAction> {
        let actions = policy.preemption.actions.of(self.candidate.left(now));
        actions
            .iter()
            .copied()
            .filter(|action| self.candidate.can(*action, &policy.preemption))
    }

    /// Its distance from each of its nodes, and the distance of a job of another cluster.
    pub fn distances(
        &self,
        state: &ClusterState,
        other: &ClusterPath,
    ) -> impl Iterator<Item = (usize, usize)> {
        self.running
            .nodes
            .iter()
            .map(|&ix| match state.cluster.label(ix) {
                Some(label) => (
                    distance(label, &self.candidate.cluster),
                    distance(label, other),
                ),
                None => (0, 0),
            })
    }
}

/// The running jobs that may be preempted, including protected ones. Excludes jobs that are being
/// preempted, have run for too short a time, or use reserved resources.
pub fn exposed<'s>(state: &'s ClusterState, policy: &Policy, now: Time) -> Vec<Exposed<'s>> {
    let all = state.running.iter().filter_map(|(&job, running)| {
        let candidate = running.candidate.as_deref()?;
        // G9: this also exempts a preemptor from the jobs that it has preempted.
        let has_settled = now >= candidate.started + policy.preemption.exempt;
        let is_free = has_settled
            && !candidate.suspended
            && !state.insiders.contains_key(&job)
            && !state.bookings.is_preempted(job);
        is_free.then_some(Exposed {
            job,
            running,
            candidate,
        })
    });
    let mut all: Vec<Exposed> = all.collect();
    put_in_order(&mut all, policy, now);
    // Over-limit subjobs use resources that would be idle, so they go first (Q15).
    let over_limit = state.over_limit_subjobs();
    all.sort_by_key(|one| !over_limit.contains(&one.job));
    all
}

/// When the next job may be preempted that has not run long enough yet.
pub fn next_exposed(state: &ClusterState, policy: &Policy, now: Time) -> Option<Time> {
    state
        .running
        .values()
        .filter_map(|running| {
            Some(running.candidate.as_deref()?.started + policy.preemption.exempt)
        })
        .filter(|moment| *moment > now)
        .min()
}

fn put_in_order(all: &mut [Exposed], policy: &Policy, now: Time) {
    let components = &policy.precedence.components;
    all.sort_by_key(|one| {
        let priority = match policy.preemption.victims {
            Victims::Newest => 0.0,
            Victims::Worst => one.candidate.priority(components, now),
            Victims::Cheapest => {
                let processors = f64::from(one.candidate.processors.max(1));
                (one.candidate.priority(components, now) / processors).floor()
            }
        };
        let newest = (Reverse(one.candidate.started), Reverse(one.job));
        (Reverse(highest_first(priority)), newest)
    });
}
