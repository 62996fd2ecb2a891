//! Repair: preempts jobs on overcommitted nodes, and jobs of pools (accounts) and arrays that
//! exceed a limit, as far as the jobs may be preempted (Y8, G1, X16). These preemptions have no
//! preemptor.

use super::eviction::FreedResources;
use super::starving;
use super::victims::{self, PossibleVictim};
use crate::model::job::preemption::PreemptCause;
use crate::model::job_id::JobId;
use crate::model::limit::Quantity;
use crate::model::policy::preemption::PreemptTrigger;
use crate::sched::cycle::state::CycleState;
use crate::sched::fairshare::starvation;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::plan::Preemption;
use crate::sched::view::snapshot::{ClusterState, RunningJob};
use std::collections::{BTreeMap, BTreeSet};

/// Preempts jobs of pools and arrays above their limits, then jobs on overcommitted nodes. The
/// policy determines the order of the victims; if starvation is a trigger, fair share does.
pub fn run<'s>(freed: &mut FreedResources<'s>, cycle: &mut CycleState<'s>) {
    let state = cycle.state;
    let next = victims::next_possible_victim(state, cycle.policy(), cycle.now);
    if let Some(time) = next {
        cycle.schedule_cycle_at(time);
    }
    shrink_pools(freed, cycle);
    shrink_arrays(freed, cycle);
    let short = state
        .cluster
        .buckets()
        .filter(|(key, _)| key.free.iter().any(|free| *free < 0));
    let nodes: Vec<NodeIx> = short.flat_map(|(_, nodes)| nodes.iter().copied()).collect();
    if nodes.is_empty() {
        return;
    }
    let mut possible_victims = victims::possible_victims(state, cycle.policy(), cycle.now);
    possible_victims.retain(|victim| !victim.candidate.protected);
    if cycle.preemption().has(PreemptTrigger::Starvation) {
        by_fair_share(&mut possible_victims, cycle);
    }
    for ix in nodes {
        repair_node(ix, &possible_victims, freed, cycle);
    }
}

/// Preempts jobs that use an overcommitted resource of a node, until the node is no longer
/// overcommitted.
fn repair_node<'s>(
    ix: NodeIx,
    possible_victims: &[PossibleVictim<'s>],
    freed: &mut FreedResources<'s>,
    cycle: &mut CycleState<'s>,
) {
    for victim in possible_victims
        .iter()
        .filter(|victim| victim.running.nodes.contains(&ix))
    {
        let Some(missing) = freed.missing(ix) else {
            return;
        };
        let hold = cycle.state.cluster.node(ix).tenants.get(&victim.job);
        if !hold.is_some_and(|hold| missing.iter().any(|&index| hold.taken[index] > 0)) {
            continue;
        }
        // Suspension would not help enough, because a suspended job keeps most of its resources.
        let action = victim
            .actions(cycle.policy(), cycle.now)
            .find(|action| !action.keeps_memory());
        if let Some(action) = action
            && !cycle.is_preempted(victim.job)
        {
            freed.remove(victim.job, action);
            cycle.preempt([Preemption {
                job: victim.job,
                by: None,
                cause: PreemptCause::Overcommit,
                action,
            }]);
        }
    }
}

/// Sorts the jobs: first the jobs above the fair shares of their operations (a job or an array with
/// its subjobs), newest first; then the other jobs.
fn by_fair_share(possible_victims: &mut [PossibleVictim], cycle: &CycleState) {
    let jobs: BTreeSet<JobId> = possible_victims.iter().map(|victim| victim.job).collect();
    let order = starving::repair_order(cycle, |job| jobs.contains(&job));
    let places: BTreeMap<JobId, usize> = order
        .into_iter()
        .enumerate()
        .map(|(place, job)| (job, place))
        .collect();
    possible_victims.sort_by_key(|victim| places.get(&victim.job).copied().unwrap_or(usize::MAX));
}

/// Preempts jobs of each pool that exceeds a hard limit on running jobs.
fn shrink_pools<'s>(freed: &mut FreedResources<'s>, cycle: &mut CycleState<'s>) {
    let limits = &cycle.policy().limits.all;
    let counters = cycle
        .limit_counters()
        .map(|counters| counters.accounts())
        .unwrap_or_default();
    let of_pools = counters
        .iter()
        .filter(|counter| starvation::is_of_pools(&limits[counter.place].scope));
    let over: Vec<(&Quantity, i64, BTreeSet<JobId>)> = of_pools
        .filter_map(|counter| Some((counter, counter.used - counter.bounds.hard?)))
        .filter(|(_, excess)| *excess > 0)
        .map(|(counter, excess)| {
            (
                &limits[counter.place].quantity,
                excess,
                counter.jobs().collect(),
            )
        })
        .collect();
    for (quantity, excess, jobs) in over {
        shrink(quantity, excess, &jobs, freed, cycle);
    }
}

/// Preempts subjobs of each array with more running subjobs than its limit allows. With `expand`,
/// the limit that includes over-limit subjobs counts. Suspended subjobs do not count.
fn shrink_arrays<'s>(freed: &mut FreedResources<'s>, cycle: &mut CycleState<'s>) {
    let state = cycle.state;
    for (&array, limit) in &state.subjob_limits {
        let subjobs = state
            .running
            .range(JobId::element(array, 0)..=JobId::element(array, u32::MAX));
        let running: BTreeSet<JobId> = subjobs
            .map(|(&job, _)| job)
            .filter(|job| !state.suspended.contains_key(job))
            .collect();
        let excess = running.len() as i64 - i64::from(limit.most);
        if excess > 0 {
            shrink(&Quantity::Jobs, excess, &running, freed, cycle);
        }
    }
}

/// Preempts some of `jobs` until their use of a limited quantity has decreased by `excess`.
fn shrink<'s>(
    quantity: &Quantity,
    mut excess: i64,
    jobs: &BTreeSet<JobId>,
    freed: &mut FreedResources<'s>,
    cycle: &mut CycleState<'s>,
) {
    let (state, policy) = (cycle.state, cycle.policy());
    let mut possible_victims = victims::possible_victims(state, policy, cycle.now);
    possible_victims.retain(|victim| !victim.candidate.protected && jobs.contains(&victim.job));
    if cycle.preemption().has(PreemptTrigger::Starvation) {
        by_fair_share(&mut possible_victims, cycle);
    }
    // Jobs that are being preempted no longer count, except those that an earlier cycle decided to
    // suspend.
    let earlier = state
        .bookings
        .preempted()
        .filter(|(_, action)| !action.keeps_memory());
    let preempted: BTreeSet<JobId> = earlier
        .chain(cycle.preempted())
        .map(|(job, _)| job)
        .collect();
    let preempted = jobs.iter().filter(|job| preempted.contains(job));
    excess -= preempted
        .filter_map(|job| counts(quantity, state.running.get(job)?, state))
        .sum::<i64>();
    for victim in possible_victims
        .iter()
        .filter(|victim| !cycle.is_preempted(victim.job))
        .cloned()
        .collect::<Vec<_>>()
    {
        if excess <= 0 {
            return;
        }
        let Some(counted) = counts(quantity, victim.running, state).filter(|counted| *counted > 0)
        else {
            continue;
        };
        let action = victim
            .actions(policy, cycle.now)
            .find(|action| !action.keeps_memory());
        if let Some(action) = action {
            excess -= counted;
            freed.remove(victim.job, action);
            cycle.preempt([Preemption {
                job: victim.job,
                by: None,
                cause: PreemptCause::Limit,
                action,
            }]);
        }
    }
}

/// The amount that a running job adds to the use of a limit on this quantity; None if the amount is
/// unknown or decreases with time, or the limit is on processor equivalents.
fn counts(quantity: &Quantity, running: &RunningJob, state: &ClusterState) -> Option<i64> {
    let holder = running.holder.as_ref()?;
    match quantity {
        Quantity::Jobs => Some(1),
        Quantity::Nodes => i64::try_from(holder.chunks).ok(),
        Quantity::Resource(name) => Some(holder.asked[state.cluster.catalog.index(name)?]),
        Quantity::Equivalents | Quantity::ProcessorSeconds | Quantity::Seconds => None,
    }
}
