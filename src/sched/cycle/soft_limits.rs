//! Who is over a soft limit starts last: once all that are within theirs have started or are
//! promised a start, what is left goes to those within their hard limits (M23, G3).
//!
//! Example: 5 processors, each user may have 2 jobs, and 8 if nobody else wants the room. Of a's
//! six jobs two start and of b's three two; the processor that is left goes to a third one of a.
//!
//! So before that, everybody within soft limits who waits for room is promised a start, however
//! deep the policy promises. Where that cannot be - the policy promises nothing, or there are too
//! many - nobody over a soft limit starts while one of them waits. Who waits for what nobody can
//! foretell, as a node that is down, holds nobody up. Where only some are looked at behind a
//! blocked job (M36), those over a soft limit are the last of them.

use super::launch;
use super::state::{CycleState, Pass};
use crate::model::job_id::JobId;
use crate::model::reason::{CycleStage, Reason};
use crate::sched::cycle;
use crate::sched::placement::resolution::Resolved;
use crate::sched::priority::ranking::{self, Candidate};
use crate::sched::view::shape::{ClassId, ShapeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// No more promises are given than this for the sake of who is over a soft limit.
const MOST: usize = 1000;

/// Starts those that a soft limit alone keeps waiting, as far as that delays nobody within the soft
/// limits.
pub fn start_over_soft<'s>(resolved: &'s Resolved, cycle: &mut CycleState<'s>) {
    let over = cycle.over_soft();
    if over.is_empty() || !cycle.looks_on() || !has_room(&over, resolved, cycle) {
        return;
    }
    if !promise_all(resolved, cycle) {
        return;
    }
    let refused = start(&over, resolved, cycle);
    cycle.tell_anew(&refused);
}

/// Whether any job of these classes would find room within its hard limits. Of those that ask for
/// the same the shortest finds some if any does, where no reservation tells them apart.
fn has_room<'s>(
    over: &BTreeSet<ClassId>,
    resolved: &'s Resolved,
    cycle: &mut CycleState<'s>,
) -> bool {
    let state = cycle.state;
    let tells_apart = !state.windows.is_empty();
    let mut shortest: BTreeMap<(ShapeId, Option<ClassId>), Candidate> = BTreeMap::new();
    for waiting in over.iter().filter_map(|class| state.classes.get(class)) {
        let Some((_, (_, first))) = waiting.first() else {
            continue;
        };
        let class = resolved.of(&waiting.key);
        if cycle.is_within_hard_limits(class) {
            let job = Candidate::alone(first, class);
            let one = shortest
                .entry((class.shape.id, tells_apart.then_some(class.id)))
                .or_insert(job);
            if cycle.span_of(class) < cycle.span_of(one.class) {
                *one = job;
            }
        }
    }
    shortest
        .into_values()
        .any(|job| cycle.match_now(job).is_ok())
}

/// Promises a start to all within soft limits that wait for room; false if some of them are left
/// out.
fn promise_all<'s>(resolved: &'s Resolved, cycle: &mut CycleState<'s>) -> bool {
    cycle.begin_again();
    let mut promised: BTreeSet<JobId> = cycle.promised().collect();
    let mut ranking = ranking::rank(cycle.state, resolved);
    let mut left = MOST;
    while let Some(job) = ranking.next() {
        if cycle.has_started(job.job) || promised.contains(&job.job) {
            ranking.follow(job);
            continue;
        }
        match cycle::place(job, Pass::SoftLimitPlans, cycle) {
            Err(reason) if job.class.asks_for.is_some() || !is_for_room(&reason) => {
                ranking.pass(job)
            }
            Err(_) if left == 0 || !cycle.may_promise() => return false,
            Err(_) => match cycle.promise_beyond(job) {
                Some(_) => {
                    left -= 1;
                    promised.insert(job.job);
                    ranking.follow(job);
                }
                None => ranking.pass(job),
            },
            Ok(attempt) => {
                launch::launch(job, attempt, cycle);
                ranking.follow(job);
            }
        }
    }
    true
}

/// Whether a job waits for room, or for its turn to be looked at.
fn is_for_room(reason: &Reason) -> bool {
    reason.is_blocked() || reason.stage() >= CycleStage::Backfill
}

/// Starts jobs of these classes; why the others still wait, where that is another limit.
fn start<'s>(
    over: &BTreeSet<ClassId>,
    resolved: &'s Resolved,
    cycle: &mut CycleState<'s>,
) -> BTreeMap<ClassId, Arc<Reason>> {
    cycle.begin_again();
    let (mut ranking, mut refused) = (ranking::rank(cycle.state, resolved), BTreeMap::new());
    while let Some(job) = ranking.next() {
        if !over.contains(&job.class.id) {
            ranking.pass(job);
        } else if cycle.has_started(job.job) {
            ranking.follow(job);
        } else {
            cycle.consider();
            match cycle::place(job, Pass::OverSoftLimits, cycle) {
                Ok(attempt) => {
                    launch::launch(job, attempt, cycle);
                    ranking.follow(job);
                }
                Err(reason) => {
                    // What is too long for a promise, or has no room, is so for all that ask for
                    // the same.
                    if !cycle.is_for_all(job, &reason) {
                        ranking.pass(job);
                    }
                    if matches!(*reason, Reason::Limited(_)) {
                        refused.insert(job.class.id, reason);
                    }
                }
            }
        }
    }
    refused
}
