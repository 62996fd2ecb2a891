//! Preemption: after the cycle has started all jobs that fit, it can preempt running jobs to free
//! resources for waiting jobs.
//!
//! One engine with four parts (X12): the trigger ([`PreemptTrigger`]), the running jobs that may be
//! preempted (`candidates`), their order (`victims`) and the action ([`Actions`]). No job is
//! preempted needlessly: `eviction` finds a set of victims without which the waiting job fits, and
//! drops every victim that is not needed. The victims' resources are held for the waiting job,
//! ahead of all other bookings, until that job starts or a time limit expires (G8,
//! `Booking::held_until`).
//!
//! Example: on 4 CPUs, job 1 uses 2 CPUs, job 2 uses 1 and job 3 uses 1. Job 1 started first and
//! job 3 last. Job 4 has a higher priority than these jobs and requests 2 CPUs. The newest jobs are
//! tried first, therefore jobs 3 and 2 are preempted. Preempting job 1 alone would also suffice,
//! but job 1 has run for the longest time.
//!
//! [`PreemptTrigger`]: crate::model::policy::preemption::PreemptTrigger
//! [`Actions`]: crate::model::policy::preemption::Actions

mod candidates;

mod eviction;

mod levels;

mod repair;

mod starving;

mod above_fair_share;

mod victims;

use super::state::CycleState;
use crate::model::job_id::JobId;
use crate::model::policy::PreemptionPolicy;
use crate::model::policy::preemption::PreemptTrigger;
use crate::model::reason::Reason;
use crate::model::report::outlook::PreemptionOutlook;
use crate::sched::fairshare::starvation::FairShares;
use crate::sched::placement::resolution::Resolved;
use crate::sched::priority::ranking::{self, Candidate};
use crate::sched::view::snapshot::ClusterState;
use candidates::VictimSelection;
use eviction::FreedResources;

/// The maximum number of waiting jobs that a trigger tries in each pass. Trying more would help
/// little, because most later jobs need the same nodes as the tried jobs.
const MAX_TRIED_JOBS: usize = 100;

/// Runs repair, if configured, and then each trigger of the policy in the configured order. If
/// starvation is a trigger, first records which operations and pools are below their fair share.
pub fn run<'s>(resolved: &'s Resolved, cycle: &mut CycleState<'s>) {
    let rule = cycle.preemption();
    let mut watched = rule
        .has(PreemptTrigger::Starvation)
        .then(|| starving::watch(cycle));
    if !could_preempt(rule, cycle.state) {
        return;
    }
    cycle.begin_again();
    let mut freed = FreedResources::open(cycle);
    if rule.repair {
        repair::run(&mut freed, cycle);
    }
    for &trigger in &rule.triggers {
        match trigger {
            PreemptTrigger::Starvation => {
                if let Some(shares) = watched.take() {
                    starving::run(shares, resolved, &mut freed, cycle);
                }
            }
            _ => preempt_for_blocked_jobs(trigger, resolved, &mut freed, cycle),
        }
    }
}

/// Whether repair or a trigger could preempt a job.
fn could_preempt(rule: &PreemptionPolicy, state: &ClusterState) -> bool {
    !state.running.is_empty() && (rule.repair || (!rule.triggers.is_empty() && !state.is_idle()))
}

/// The fair share and the usage of all operations and pools, including this cycle's decisions.
pub fn fair_shares(cycle: &CycleState) -> FairShares {
    starving::shares(cycle)
}

/// Preempts running jobs for blocked jobs, in queue order. If the distance between jobs and nodes
/// counts, the jobs nearest to a node come first, as for free resources (`cluster_distance`).
fn preempt_for_blocked_jobs<'s>(
    trigger: PreemptTrigger,
    resolved: &'s Resolved,
    freed: &mut FreedResources<'s>,
    cycle: &mut CycleState<'s>,
) {
    let Some(mut victim_selection) = VictimSelection::open(trigger, cycle) else {
        return;
    };
    for near in &resolved.passes {
        preempt_in_pass(Some(near), resolved, &mut victim_selection, freed, cycle);
    }
    preempt_in_pass(None, resolved, &mut victim_selection, freed, cycle);
}

/// Preempts running jobs for blocked jobs, only on the nodes that `pass` allows each blocked job.
/// Without `pass`, all nodes are allowed. With `pass`, a job that fits on other nodes without
/// victims preempts nothing.
fn preempt_in_pass<'s>(
    pass: Option<&'s Resolved>,
    whole: &'s Resolved,
    victim_selection: &mut VictimSelection<'s>,
    freed: &mut FreedResources<'s>,
    cycle: &mut CycleState<'s>,
) {
    let (mut ranking, mut left) = (
        ranking::rank(cycle.state, pass.unwrap_or(whole)),
        MAX_TRIED_JOBS,
    );
    while left > 0
        && let Some(job) = ranking.next()
    {
        if cycle.has_started(job.job) || freed.has_victims(job.job) {
            ranking.follow(job);
            continue;
        }
        let class = cycle.state.class(job.class.id);
        let anywhere = class.map_or(job, |class| job.asking(whole.of(class)));
        if !waits_for_resources(anywhere, cycle) || !victim_selection.may_preempt(job, cycle) {
            ranking.pass(job);
            continue;
        }
        left -= 1;
        let fits_without_victims = pass.is_some() && freed.fits_without_victims(anywhere, cycle);
        if !fits_without_victims && freed.evict(job, victim_selection, cycle) {
            ranking.follow(job);
        } else {
            ranking.pass(job);
        }
    }
}

/// The jobs preempted for a waiting job. If there are none: the number of running jobs that could
/// be preempted, and the number of running jobs that could be preempted if their owners did not
/// exempt them. Both numbers are added up over the triggers. If there are none, and the policy has
/// no triggers or the job waits for something other than resources, returns None.
pub fn preemption_outlook<'s>(
    job: Candidate<'s>,
    cycle: &mut CycleState<'s>,
) -> Option<PreemptionOutlook> {
    let victims: Vec<JobId> = cycle.victims_for(job.job);
    if !victims.is_empty() {
        return Some(PreemptionOutlook::Made(victims));
    }
    if cycle.preemption().triggers.is_empty() || !waits_for_resources(job, cycle) {
        return None;
    }
    let (mut candidates, mut protected) = (0, 0);
    for &trigger in &cycle.preemption().triggers {
        let Some(mut victim_selection) = VictimSelection::open(trigger, cycle) else {
            continue;
        };
        if victim_selection.may_preempt(job, cycle) {
            let (allowed, exempt) = victim_selection.count_victims(job);
            (candidates, protected) = (candidates + allowed, protected + exempt);
        }
    }
    Some(PreemptionOutlook::Barred {
        candidates,
        protected,
    })
}

/// Whether a job waits only for resources in use: not for resources of planned starts or
/// reservations, and not because there are no nodes. False for jobs that request a reservation.
fn waits_for_resources(job: Candidate, cycle: &CycleState) -> bool {
    let is_for_resources = |reason: &Reason| {
        reason.is_blocked()
            && !matches!(
                reason,
                Reason::WouldDelayBooking { .. } | Reason::Reserved { .. } | Reason::NoNodes
            )
    };
    job.class.reservation.is_none() && cycle.verdict(job.class).is_some_and(is_for_resources)
}

#[cfg(test)]
mod tests;
