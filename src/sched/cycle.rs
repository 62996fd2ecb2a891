//! One scheduling cycle, start to finish.
//!
//! Read it aloud: job by job in order of priority, screen for feasibility, throttle, match,
//! allocate, distribute and launch -- or record why not, promise the first blocked its start, and
//! tell those to make way that should. What is suspended goes on in its turn among them.

pub(in crate::sched) mod backfill_order;
pub(in crate::sched) mod cluster_distance;
pub mod eligibility;
pub(in crate::sched) mod expansion;
pub(in crate::sched) mod feasibility;
pub mod forced;
pub(in crate::sched) mod greedy;
pub(in crate::sched) mod launch;
pub(in crate::sched) mod limits;
pub(in crate::sched) mod preemptible_backfill;
pub(in crate::sched) mod preemption;
pub(in crate::sched) mod resuming;
pub(in crate::sched) mod soft_limits;
pub(in crate::sched) mod state;
pub(in crate::sched) mod threshold;
pub(in crate::sched) mod throttling;

use crate::model::policy::Policy;
use crate::model::reason::Reason;
use crate::model::time::Time;
use crate::sched::placement::availability_map::Claim;
use crate::sched::placement::cycle_cache::Memory;
use crate::sched::placement::matching::Placement;
use crate::sched::placement::resolution::Resolved;
use crate::sched::priority::ranking::{self, Candidate, Ranking};
use crate::sched::view::plan::{Plan, Start};
use crate::sched::view::snapshot::State;
use resuming::Turns;
use state::{Ledger, Refused};
use std::sync::Arc;

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

/// Starts what may start, in its order, and says of all else why not.
fn start_all<'s>(
    mut ranking: Ranking<'s>,
    mut suspended: Turns,
    ledger: &mut Ledger<'s>,
    memory: &mut Memory,
) {
    while let Some(job) = ranking.next() {
        suspended.before(job, ledger);
        if ledger.has_started(job.job) {
            ranking.follow(job);
            continue;
        }
        ledger.consider();
        match place(job, ledger) {
            Ok((start, claim)) => {
                ledger.start(job, start, claim);
                ranking.follow(job);
            }
            Err(reason) => {
                match ledger.wait(job, reason) {
                    Refused::Job => ranking.follow(job),
                    Refused::Class => ranking.pass(job),
                    Refused::Shape => (),
                }
                backfill_order::reorder(&mut ranking, ledger, memory);
            }
        }
    }
    suspended.rest(ledger);
}

pub(super) fn place<'s>(
    job: Candidate<'s>,
    ledger: &mut Ledger<'s>,
) -> Result<(Start, Claim), Arc<Reason>> {
    let placement = fit(job, ledger)?;
    Ok(launch::start(job, &placement, ledger))
}

/// Where a job may start now, or why it may not.
pub(super) fn fit<'s>(
    job: Candidate<'s>,
    ledger: &mut Ledger<'s>,
) -> Result<Placement, Arc<Reason>> {
    feasibility::screen(&job.class.shape, ledger)?;
    threshold::admit(job, ledger)?;
    throttling::admit(job, ledger)?;
    ledger.place(job)
}
