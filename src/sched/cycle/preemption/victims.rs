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
pub struct PossibleVictim<'s> {
    /// The id of the running job.
    pub job: JobId,
    /// The running job with its resources.
    pub running: &'s RunningJob,
    /// The start time, the priority and the possible actions.
    pub candidate: &'s PreemptionCandidate,
}

impl PossibleVictim<'_> {
    /// The actions that can preempt the job, in the order in which they are tried.
    pub fn actions(&self, policy: &Policy, now: Time) -> impl Iterator<Item = PreemptAction> {
        let actions = policy.preemption.actions.of(self.candidate.left(now));
        actions
            .iter()
            .copied()
            .filter(|action| self.candidate.can(*action, &policy.preemption))
    }

    /// For each node of the job: the distance from the node to the job's cluster and to the cluster
    /// `other`; zeros for a node without a cluster.
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

/// The running jobs that can be victims. Includes jobs that their owners protect from preemption;
/// the caller excludes these. Omits jobs that are suspended, that earlier cycles have decided to
/// preempt, that have run for less than the exemption time, or that run inside a reservation.
pub fn possible_victims<'s>(
    state: &'s ClusterState,
    policy: &Policy,
    now: Time,
) -> Vec<PossibleVictim<'s>> {
    let all = state.running.iter().filter_map(|(&job, running)| {
        let candidate = running.candidate.as_deref()?;
        // G9: a preemptor that has just started is exempt too, so its victims cannot preempt it.
        let has_run_long_enough = now >= candidate.started + policy.preemption.exempt;
        let is_exposed = has_run_long_enough
            && !candidate.suspended
            && !state.jobs_in_reservations.contains_key(&job)
            && !state.bookings.is_preempted(job);
        is_exposed.then_some(PossibleVictim {
            job,
            running,
            candidate,
        })
    });
    let mut all: Vec<PossibleVictim> = all.collect();
    sort(&mut all, policy, now);
    // Over-limit subjobs use resources that would be idle, so they are preempted first (Q15).
    let over_limit = state.over_limit_subjobs();
    all.sort_by_key(|victim| !over_limit.contains(&victim.job));
    all
}

/// The earliest future time at which the exemption of a running job ends.
pub fn next_possible_victim(state: &ClusterState, policy: &Policy, now: Time) -> Option<Time> {
    state
        .running
        .values()
        .filter_map(|running| {
            Some(running.candidate.as_deref()?.started + policy.preemption.exempt)
        })
        .filter(|time| *time > now)
        .min()
}

fn sort(all: &mut [PossibleVictim], policy: &Policy, now: Time) {
    let components = &policy.precedence.components;
    all.sort_by_key(|victim| {
        let priority = match policy.preemption.victims {
            Victims::Newest => 0.0,
            Victims::Worst => victim.candidate.priority(components, now),
            Victims::Cheapest => {
                let processors = f64::from(victim.candidate.processors.max(1));
                (victim.candidate.priority(components, now) / processors).floor()
            }
        };
        let newest = (Reverse(victim.candidate.started), Reverse(victim.job));
        (Reverse(highest_first(priority)), newest)
    });
}
