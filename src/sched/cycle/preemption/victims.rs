//! Those that could be asked to make way, in the order in which they are asked (X14).

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

/// A running job that could be asked to make way.
#[derive(Clone, Copy)]
pub struct Exposed<'s> {
    /// Which.
    pub job: JobId,
    /// What it has.
    pub running: &'s RunningJob,
    /// Since when, and what it is worth.
    pub candidate: &'s PreemptionCandidate,
}

impl Exposed<'_> {
    /// How it can make way, what is tried first first.
    pub fn actions(&self, policy: &Policy, now: Time) -> impl Iterator<Item = PreemptAction> {
        let actions = policy.preemption.actions.of(self.candidate.left(now));
        actions
            .iter()
            .copied()
            .filter(|action| self.candidate.can(*action, &policy.preemption))
    }

    /// How far it is from its nodes, and how far one of another cluster would be, on each of them.
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

/// The running jobs that could be asked at all, if their owners do not want them left alone: not
/// those that leave already, have run for too short a time, or have what a reservation set aside.
pub fn exposed<'s>(state: &'s ClusterState, policy: &Policy, now: Time) -> Vec<Exposed<'s>> {
    let all = state.running.iter().filter_map(|(&job, running)| {
        let candidate = running.candidate.as_deref()?;
        // G9: whoever has made way for it, and so before it started, leaves it alone as long.
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
    // Who has more than its array limits itself to has what nobody else wanted (Q15).
    let over_limit = state.over_limit_subjobs();
    all.sort_by_key(|one| !over_limit.contains(&one.job));
    all
}

/// When the next one could be asked that has not run for long enough.
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
