//! One scheduling cycle, start to finish.
//!
//! Each job, in order of priority, goes through the stages *feasibility, priority, throttling,
//! matching, allocation, distribution, launch* (`place`). The cycle starts it, or records why it
//! waits, plans the start of the first blocked jobs, and preempts running jobs. Suspended jobs
//! resume in order of priority among the waiting ones.

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
pub(in crate::sched) mod preemptible_backfill;
pub(in crate::sched) mod preemption;
pub(in crate::sched) mod priority_threshold;
pub(in crate::sched) mod resuming;
pub(in crate::sched) mod soft_limits;
pub(in crate::sched) mod state;
pub(in crate::sched) mod throttling;

use crate::model::policy::Policy;
use crate::model::reason::Reason;
use crate::model::time::Time;
use crate::sched::placement::cycle_cache::Memory;
use crate::sched::placement::resolution::Resolved;
use crate::sched::placement::{allocation, task_distribution};
use crate::sched::priority::ranking::{self, Candidate, Ranking};
use crate::sched::view::plan::Plan;
use crate::sched::view::snapshot::State;
use launch::Attempt;
use resuming::Turns;
use state::{Ledger, Refused};
use std::sync::Arc;

/// Why a walk through the queue considers jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sched) enum Pass {
    /// To start them in order of priority.
    Order,
    /// To plan the starts of jobs within their soft limits before others start: they have been
    /// considered already, so they do not count towards the backfill depth (M23).
    SoftLimitPlans,
    /// To start jobs that exceed a soft limit, and no hard one (M23).
    OverSoftLimits,
    /// To start more subjobs of an array than its own limit (Q15).
    Expansion,
}

/// Decides what is to start now, and says of every class that waits why. Pure: equal state, policy
/// and moment give an equal plan. The first refusal of a class stands for all its jobs, because
/// room only shrinks within a cycle.
pub fn run(state: &State, policy: &Policy, now: Time) -> Plan {
    run_again(
        &state.prioritised(policy, now),
        policy,
        now,
        &mut Memory::default(),
    )
}

/// The same plan, sooner: with the memory of an earlier cycle of this state, whose queue is in
/// order ([`State::prioritise`]).
pub fn run_again(state: &State, policy: &Policy, now: Time, memory: &mut Memory) -> Plan {
    let resolved = Resolved::new(state, policy, now);
    let plan = |memory| decide(state, policy, &resolved, now, memory).close();
    let decided = plan(memory);
    debug_assert!(
        decided == plan(&mut Memory::default()),
        "what is remembered is not so"
    );
    memory.conclude(state, policy, &decided);
    decided
}

/// Whether a cycle could decide anything that the last one with this memory has not: something has
/// happened since, or it has decided something itself, or the moment has come at which it wanted to
/// look again, or others go first than did then.
pub fn is_due(state: &State, policy: &Policy, now: Time, memory: &Memory) -> bool {
    !memory.concludes(state, policy, now) || !state.is_in_order(policy, now)
}

/// The books of a cycle that has decided all there is to decide.
pub(super) fn decide<'s>(
    state: &'s State,
    policy: &'s Policy,
    resolved: &'s Resolved,
    now: Time,
    memory: &mut Memory,
) -> Ledger<'s> {
    let mut ledger = Ledger::open(state, policy, resolved, now);
    let eligible = eligibility::list(policy, resolved, &mut ledger);
    ledger.consider_only(eligible);
    for near in &resolved.passes {
        cluster_distance::start_near(ranking::rank(state, near), resolved, &mut ledger);
    }
    let suspended = Turns::of(&ledger, policy);
    start_all(
        ranking::rank(state, resolved),
        suspended,
        &mut ledger,
        memory,
    );
    soft_limits::start_over_soft(resolved, &mut ledger);
    expansion::start_extras(resolved, &mut ledger);
    preemption::run(resolved, &mut ledger);
    ledger
}

/// Starts the jobs that can start, in order of priority, and records why the others wait.
fn start_all<'s>(
    mut ranking: Ranking<'s>,
    mut suspended: Turns,
    ledger: &mut Ledger<'s>,
    memory: &mut Memory,
) {
    let mut is_backfilling = false;
    while let Some(job) = ranking.next() {
        suspended.before(job, ledger);
        if ledger.has_started(job.job) {
            ranking.follow(job);
            continue;
        }
        ledger.consider();
        match place(job, Pass::Order, ledger) {
            Ok(attempt) => {
                ledger.start(job, attempt);
                ranking.follow(job);
            }
            Err(reason) => {
                match ledger.wait(job, reason) {
                    Refused::Job => ranking.follow(job),
                    Refused::Class => ranking.pass(job),
                    Refused::Shape => (),
                }
                if !is_backfilling && ledger.is_fully_planned() {
                    is_backfilling = true;
                    backfill_order::reorder(&mut ranking, ledger, memory);
                }
            }
        }
    }
    suspended.rest(ledger);
}

/// Puts a job through all stages, and returns the start that is possible now. The first stage that
/// refuses the job is the reason why it waits.
pub(super) fn place<'s>(
    job: Candidate<'s>,
    pass: Pass,
    ledger: &mut Ledger<'s>,
) -> Result<Attempt, Arc<Reason>> {
    let shape = &job.class.shape;
    feasibility::check(shape, ledger)?;
    priority_threshold::check(job, ledger)?;
    throttling::check(job, pass, ledger)?;
    let found = matching::find(job, pass, ledger)?;
    let space = &ledger.space;
    let (claim, extra) = allocation::allocate(space, shape, &found.placement);
    let distribution = space.guide().distribution;
    let shares =
        task_distribution::distribute(space.cluster, shape, &found.placement, &extra, distribution);
    Ok(launch::prepare(pass, &found, claim, shares))
}
