//! Preemption: once all jobs that fit have started, running jobs may have to release their
//! resources to waiting jobs.
//!
//! One engine with four parts (X12): the trigger ([`PreemptTrigger`]), the running jobs that may be
//! preempted (`candidates`), their order (`victims`) and the action ([`Actions`]). No job is
//! preempted in vain: `eviction` finds the smallest set of victims with which the waiting job fits.
//! What they release is booked for it until it starts, before all other bookings (G8,
//! `Booking::held_until`).
//!
//! Example: jobs 1, 2 and 3 run on 2, 1 and 1 of 4 CPUs. Job 4 precedes all of them and
//! requests 2. The newest jobs are tried first: it fits without 3 and 2. It would also fit without
//! 1 alone, but that job has run for the longest time.
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
use candidates::Rivalry;
use eviction::Stage;

/// The maximum number of waiting jobs tried in a cycle per trigger: most later jobs need the same
/// nodes.
const MOST: usize = 100;

/// Preempts running jobs as the policy demands.
pub fn run<'s>(resolved: &'s Resolved, cycle: &mut CycleState<'s>) {
    let rule = cycle.preemption();
    let mut watched = rule
        .has(PreemptTrigger::Starvation)
        .then(|| starving::watch(cycle));
    if !is_wanted(rule, cycle.state) {
        return;
    }
    cycle.begin_again();
    let mut stage = Stage::open(cycle);
    if rule.repair {
        repair::run(&mut stage, cycle);
    }
    for &trigger in &rule.triggers {
        match trigger {
            PreemptTrigger::Starvation => {
                if let Some(shares) = watched.take() {
                    starving::run(shares, resolved, &mut stage, cycle);
                }
            }
            _ => make_room(trigger, resolved, &mut stage, cycle),
        }
    }
}

/// Whether there is anything to check.
fn is_wanted(rule: &PreemptionPolicy, state: &ClusterState) -> bool {
    !state.running.is_empty() && (rule.repair || (!rule.triggers.is_empty() && !state.is_idle()))
}

/// The fair share and the usage of all parties, with the decisions of this cycle.
pub fn fair_shares(cycle: &CycleState) -> FairShares {
    starving::shares(cycle)
}

/// Preempts running jobs for blocked jobs, in queue order. If clusters count, the jobs nearest to a
/// node come first, as for free resources (`cluster_distance`).
fn make_room<'s>(
    trigger: PreemptTrigger,
    resolved: &'s Resolved,
    stage: &mut Stage<'s>,
    cycle: &mut CycleState<'s>,
) {
    let Some(mut rivalry) = Rivalry::open(trigger, cycle) else {
        return;
    };
    for near in &resolved.passes {
        make_room_in(Some(near), resolved, &mut rivalry, stage, cycle);
    }
    make_room_in(None, resolved, &mut rivalry, stage, cycle);
}

/// Preempts running jobs on the nodes that a pass allows each job; on all nodes without a pass. A
/// job that fits on a node outside its pass preempts nothing.
fn make_room_in<'s>(
    pass: Option<&'s Resolved>,
    whole: &'s Resolved,
    rivalry: &mut Rivalry<'s>,
    stage: &mut Stage<'s>,
    cycle: &mut CycleState<'s>,
) {
    let (mut ranking, mut left) = (ranking::rank(cycle.state, pass.unwrap_or(whole)), MOST);
    while left > 0
        && let Some(job) = ranking.next()
    {
        if cycle.has_started(job.job) || stage.awaits_room(job.job) {
            ranking.follow(job);
            continue;
        }
        let class = cycle.state.class(job.class.id);
        let anywhere = class.map_or(job, |class| job.asking(whole.of(class)));
        if !waits_for_room(anywhere, cycle) || !rivalry.may_preempt(job, cycle) {
            ranking.pass(job);
            continue;
        }
        left -= 1;
        let has_room = pass.is_some() && stage.has_room(anywhere, cycle);
        if !has_room && stage.evict(job, rivalry, cycle) {
            ranking.follow(job);
        } else {
            ranking.pass(job);
        }
    }
}

/// The jobs preempted for a job, or how many could be; None without triggers, or if the job waits
/// for something other than resources.
pub fn way_for<'s>(job: Candidate<'s>, cycle: &mut CycleState<'s>) -> Option<PreemptionOutlook> {
    let making: Vec<JobId> = cycle.makes_way_for(job.job);
    if !making.is_empty() {
        return Some(PreemptionOutlook::Made(making));
    }
    if cycle.preemption().triggers.is_empty() || !waits_for_room(job, cycle) {
        return None;
    }
    let (mut candidates, mut protected) = (0, 0);
    for &trigger in &cycle.preemption().triggers {
        let Some(mut rivalry) = Rivalry::open(trigger, cycle) else {
            continue;
        };
        if rivalry.may_preempt(job, cycle) {
            let (asked, barred) = rivalry.below(job);
            (candidates, protected) = (candidates + asked, protected + barred);
        }
    }
    Some(PreemptionOutlook::Barred {
        candidates,
        protected,
    })
}

/// Whether a job waits only for resources, and not for those of a planned start of another job.
fn waits_for_room(job: Candidate, cycle: &CycleState) -> bool {
    let is_for_room = |reason: &Reason| {
        reason.is_blocked()
            && !matches!(
                reason,
                Reason::WouldDelayBooking { .. } | Reason::Reserved { .. } | Reason::NoNodes
            )
    };
    job.class.asks_for.is_none() && cycle.verdict(job.class).is_some_and(is_for_room)
}

#[cfg(test)]
mod tests;
