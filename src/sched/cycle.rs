//! One scheduling cycle, from start to finish.
//!
//! Each job, in order of priority, goes through the stages *feasibility, priority, throttling,
//! matching, allocation, distribution* (`place`) and *launch*. The cycle starts the job or records
//! why the job waits, plans the starts of the first blocked jobs, and preempts running jobs. A
//! suspended job is considered before the waiting jobs of equal or lower priority (`resuming`).

pub(in crate::sched) mod backfill_order;
pub(in crate::sched) mod cluster_distance;
pub mod eligibility;
pub(in crate::sched) mod expansion;
pub(in crate::sched) mod feasibility;
pub mod forced;
pub(in crate::sched) mod greedy;
pub(in crate::sched) mod launch;
pub(in crate::sched) mod limits;
pub(in crate::sched) mod matching;
pub(in crate::sched) mod numbers;
pub(in crate::sched) mod preemptible_backfill;
pub(in crate::sched) mod preemption;
pub(in crate::sched) mod priority_threshold;
pub(in crate::sched) mod refusals;
pub(in crate::sched) mod resuming;
pub(in crate::sched) mod soft_limits;
pub(in crate::sched) mod state;
pub(in crate::sched) mod throttling;

use crate::model::policy::Policy;
use crate::model::reason::Reason;
use crate::model::time::Time;
use crate::sched::placement::cycle_cache::CycleCache;
use crate::sched::placement::resolution::Resolved;
use crate::sched::placement::{allocation, task_distribution};
use crate::sched::priority::ranking::{self, Candidate, Ranking};
use crate::sched::view::plan::Plan;
use crate::sched::view::snapshot::ClusterState;
use launch::PossibleStart;
use refusals::Refused;
use resuming::ResumeOrder;
use state::{CycleState, Pass};
use std::sync::Arc;

/// Runs one cycle: decides which jobs start now, and records why the jobs of each class (of equal
/// jobs) wait. Equal state, policy and time give an equal plan. Free resources only shrink within
/// a cycle, therefore the first refusal of a class usually holds for all jobs of the class.
pub fn run(state: &ClusterState, policy: &Policy, now: Time) -> Plan {
    run_again(
        &state.prioritised(policy, now),
        policy,
        now,
        &mut CycleCache::default(),
    )
}

/// Returns the same plan as [`run`] in less time, because it reuses results of earlier cycles in
/// `cache`. The waiting jobs must be in order of priority ([`ClusterState::prioritise`]).
pub fn run_again(state: &ClusterState, policy: &Policy, now: Time, cache: &mut CycleCache) -> Plan {
    let resolved = Resolved::new(state, policy, now);
    let decided = close(decide(state, policy, &resolved, now, cache));
    debug_assert!(
        decided
            == close(decide(
                state,
                policy,
                &resolved,
                now,
                &mut CycleCache::default()
            )),
        "the cycle cache changes the plan"
    );
    cache.conclude(state, policy, &decided);
    decided
}

/// Whether a new cycle could decide something that the last cycle with this cache did not. A cycle
/// is due if the cache contains no result: no cycle has run, the last cycle started, resumed or
/// preempted jobs, or its result was discarded. A cycle is also due if the state or the policy has
/// changed, if the last cycle scheduled another cycle for `now` or earlier, if a job runs past its
/// walltime, or if the order of the waiting jobs has changed.
pub fn is_due(state: &ClusterState, policy: &Policy, now: Time, cache: &CycleCache) -> bool {
    !cache.still_holds(state, policy, now) || !state.is_in_order(policy, now)
}

/// Runs all passes of a cycle and returns its final state.
pub(super) fn decide<'s>(
    state: &'s ClusterState,
    policy: &'s Policy,
    resolved: &'s Resolved,
    now: Time,
    cache: &mut CycleCache,
) -> CycleState<'s> {
    let mut cycle = CycleState::open(state, policy, resolved, now);
    let eligible = eligibility::list(policy, resolved, &mut cycle);
    cycle.set_eligible(eligible);
    for near in &resolved.passes {
        cluster_distance::start_near(ranking::rank(state, near), resolved, &mut cycle);
    }
    let suspended = ResumeOrder::of(&cycle, policy);
    start_all(ranking::rank(state, resolved), suspended, &mut cycle, cache);
    soft_limits::start_over_soft_limits(resolved, &mut cycle);
    expansion::start_over_limit(resolved, &mut cycle);
    preemption::run(resolved, &mut cycle);
    cycle
}

/// Returns the plan of a finished cycle. A job gets the reason of the first stage that refuses the
/// job (G5). If jobs with the same request were refused together for lack of resources, an earlier
/// stage can refuse some of them; for these jobs, this function adds the verdict of that stage.
pub(super) fn close(mut cycle: CycleState) -> Plan {
    let state = cycle.state;
    debug_assert_eq!(cycle.plan.audit(state), Ok(()));
    cycle.schedule_end_of_held_resources();
    throttling::add_stopped_queue_verdicts(state, &mut cycle.plan);
    priority_threshold::add_threshold_verdicts(state, cycle.policy, &mut cycle.plan);
    if let Some(limits) = &mut cycle.limits {
        throttling::add_limit_verdicts(state, limits, &mut cycle.plan);
    }
    eligibility::set_verdicts(&mut cycle.plan, |class| {
        Some(state.classes.get(&class)?.key.verdict_names())
    });
    cycle.plan
}

/// Starts the jobs that can start, and resumes suspended jobs, in order of priority. Once the cycle
/// plans no more starts, the backfill order applies. Records why the other jobs wait.
fn start_all<'s>(
    mut ranking: Ranking<'s>,
    mut suspended: ResumeOrder,
    cycle: &mut CycleState<'s>,
    cache: &mut CycleCache,
) {
    let mut is_backfilling = false;
    while let Some(job) = ranking.next() {
        suspended.resume_before(job, cycle);
        if cycle.has_started(job.job) {
            ranking.follow(job);
            continue;
        }
        cycle.count_considered();
        match place(job, Pass::Order, cycle) {
            Ok(possible_start) => {
                launch::launch(job, possible_start, cycle);
                ranking.follow(job);
            }
            Err(reason) => {
                match cycle.record_refusal(job, reason) {
                    Refused::Job => ranking.follow(job),
                    Refused::Class => ranking.pass(job),
                    Refused::Shape => (),
                }
                if !is_backfilling && cycle.is_fully_planned() {
                    is_backfilling = true;
                    backfill_order::reorder(&mut ranking, cycle, cache);
                }
            }
        }
    }
    suspended.resume_remaining(cycle);
}

/// Puts a job through all stages before the launch and returns the start that is possible now. The
/// error is the reason of the first stage that refuses the job.
pub(super) fn place<'s>(
    job: Candidate<'s>,
    pass: Pass,
    cycle: &mut CycleState<'s>,
) -> Result<PossibleStart, Arc<Reason>> {
    let shape = &job.class.shape;
    feasibility::check(shape, cycle)?;
    priority_threshold::check(job, cycle)?;
    throttling::check(job, pass, cycle)?;
    let found = matching::find(job, pass, cycle)?;
    let space = &cycle.space;
    let (claim, extra) = allocation::allocate(space, shape, &found.placement);
    let distribution = space.guide().distribution;
    let shares =
        task_distribution::distribute(space.cluster, shape, &found.placement, &extra, distribution);
    Ok(launch::prepare(pass, &found, claim, shares))
}
