//! Repair: preempts jobs, without a preemptor, until no node is overcommitted, and no pool or array
//! exceeds its limit (Y8, G1, X16).

use super::eviction::Stage;
use super::starving;
use super::victims::{self, Exposed};
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

/// Preempts the newest jobs of each overcommitted node.
pub fn run<'s>(stage: &mut Stage<'s>, cycle: &mut CycleState<'s>) {
    let state = cycle.state;
    let next = victims::next_exposed(state, cycle.policy(), cycle.now);
    if let Some(moment) = next {
        cycle.look_again_at(moment);
    }
    shrink_pools(stage, cycle);
    shrink_arrays(stage, cycle);
    let short = state
        .cluster
        .buckets()
        .filter(|(key, _)| key.free.iter().any(|free| *free < 0));
    let nodes: Vec<NodeIx> = short.flat_map(|(_, nodes)| nodes.iter().copied()).collect();
    if nodes.is_empty() {
        return;
    }
    let mut exposed = victims::exposed(state, cycle.policy(), cycle.now);
    exposed.retain(|one| !one.candidate.protected);
    if cycle.preemption().has(PreemptTrigger::Starvation) {
        by_right(&mut exposed, cycle);
    }
    for ix in nodes {
        relieve(ix, &exposed, stage, cycle);
    }
}

/// Preempts only jobs that use a resource which is overcommitted.
fn relieve<'s>(
    ix: NodeIx,
    exposed: &[Exposed<'s>],
    stage: &mut Stage<'s>,
    cycle: &mut CycleState<'s>,
) {
    for one in exposed.iter().filter(|one| one.running.nodes.contains(&ix)) {
        let Some(missing) = stage.missing(ix) else {
            return;
        };
        let hold = cycle.state.cluster.node(ix).tenants.get(&one.job);
        if !hold.is_some_and(|hold| missing.iter().any(|&index| hold.taken[index] > 0)) {
            continue;
        }
        // A suspended job keeps most of its resources.
        let action = one
            .actions(cycle.policy(), cycle.now)
            .find(|action| !action.keeps_memory());
        if let Some(action) = action
            && !cycle.is_preempted(one.job)
        {
            stage.leaves(one.job, action);
            cycle.preempt([Preemption {
                job: one.job,
                by: None,
                cause: PreemptCause::Overcommit,
                action,
            }]);
        }
    }
}

/// Sorts the jobs by how far their operations are above fair share, highest first.
fn by_right(exposed: &mut [Exposed], cycle: &CycleState) {
    let jobs: BTreeSet<JobId> = exposed.iter().map(|one| one.job).collect();
    let order = starving::first_to_go(cycle, |job| jobs.contains(&job));
    let places: BTreeMap<JobId, usize> = order
        .into_iter()
        .enumerate()
        .map(|(place, job)| (job, place))
        .collect();
    exposed.sort_by_key(|one| places.get(&one.job).copied().unwrap_or(usize::MAX));
}

/// For each pool above its limit, preempts the jobs of the operations furthest above fair share;
/// without fair share, the newest jobs.
fn shrink_pools<'s>(stage: &mut Stage<'s>, cycle: &mut CycleState<'s>) {
    let limits = &cycle.policy().limits.all;
    let accounts = cycle
        .limit_counters()
        .map(|counters| counters.accounts())
        .unwrap_or_default();
    let of_pools = accounts
        .iter()
        .filter(|account| starvation::is_of_pools(&limits[account.place].scope));
    let over: Vec<(&Quantity, i64, BTreeSet<JobId>)> = of_pools
        .filter_map(|account| Some((account, account.used - account.bounds.hard?)))
        .filter(|(_, excess)| *excess > 0)
        .map(|(account, excess)| {
            (
                &limits[account.place].quantity,
                excess,
                account.jobs().collect(),
            )
        })
        .collect();
    for (quantity, excess, jobs) in over {
        shrink(quantity, excess, &jobs, stage, cycle);
    }
}

/// Preempts the subjobs that an array runs beyond its own limit, in the same order. A suspended
/// subjob does not run.
fn shrink_arrays<'s>(stage: &mut Stage<'s>, cycle: &mut CycleState<'s>) {
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
            shrink(&Quantity::Jobs, excess, &running, stage, cycle);
        }
    }
}

fn shrink<'s>(
    quantity: &Quantity,
    mut excess: i64,
    jobs: &BTreeSet<JobId>,
    stage: &mut Stage<'s>,
    cycle: &mut CycleState<'s>,
) {
    let (state, policy) = (cycle.state, cycle.policy());
    let mut exposed = victims::exposed(state, policy, cycle.now);
    exposed.retain(|one| !one.candidate.protected && jobs.contains(&one.job));
    if cycle.preemption().has(PreemptTrigger::Starvation) {
        by_right(&mut exposed, cycle);
    }
    // A suspended job counts against the limit.
    let told = state
        .bookings
        .preempted()
        .filter(|(_, action)| !action.keeps_memory());
    let preempted: BTreeSet<JobId> = told.chain(cycle.preempted()).map(|(job, _)| job).collect();
    let preempted = jobs.iter().filter(|job| preempted.contains(job));
    excess -= preempted
        .filter_map(|job| counts(quantity, state.running.get(job)?, state))
        .sum::<i64>();
    for one in exposed
        .iter()
        .filter(|one| !cycle.is_preempted(one.job))
        .cloned()
        .collect::<Vec<_>>()
    {
        if excess <= 0 {
            return;
        }
        let Some(counted) = counts(quantity, one.running, state).filter(|counted| *counted > 0)
        else {
            continue;
        };
        let action = one
            .actions(policy, cycle.now)
            .find(|action| !action.keeps_memory());
        if let Some(action) = action {
            excess -= counted;
            stage.leaves(one.job, action);
            cycle.preempt([Preemption {
                job: one.job,
                by: None,
                cause: PreemptCause::Limit,
                action,
            }]);
        }
    }
}

/// What a running job counts against a limit on this quantity; None if that decreases with time.
fn counts(quantity: &Quantity, running: &RunningJob, state: &ClusterState) -> Option<i64> {
    let holder = running.holder.as_ref()?;
    match quantity {
        Quantity::Jobs => Some(1),
        Quantity::Nodes => i64::try_from(holder.chunks).ok(),
        Quantity::Resource(name) => Some(holder.asked[state.cluster.catalog.index(name)?]),
        Quantity::Equivalents | Quantity::ProcessorSeconds | Quantity::Seconds => None,
    }
}
