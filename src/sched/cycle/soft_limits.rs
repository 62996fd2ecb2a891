//! Jobs over a soft limit start last: once all jobs within their soft limits have started or have a
//! planned start, the remaining resources go to jobs within their hard limits (M23, G3).
//!
//! Example: 5 CPUs; each user may run 2 jobs, and 8 if the resources would otherwise be idle. User
//! a submits six jobs, then user b three. Two jobs of each user start; the last CPU goes to a third
//! job of a.
//!
//! So the pass first plans a start for every job within soft limits that waits for resources,
//! whatever the reservation depth of the policy. If that is impossible (the policy plans no starts,
//! or there are too many jobs), no job over a soft limit starts while such a job waits. A job
//! without a computable start, such as one that waits for a node that is down, delays no other job.
//! If the backfill depth is limited (M36), jobs over a soft limit come last within it.

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

/// The maximum number of planned starts that this pass adds.
const MAX_PLANNED_STARTS: usize = 1000;

/// Starts jobs that only a soft limit keeps waiting, if that delays no job within its soft limits.
pub fn start_over_soft_limits<'s>(resolved: &'s Resolved, cycle: &mut CycleState<'s>) {
    let over = cycle.over_soft();
    if over.is_empty() || !cycle.has_depth_left() || !has_room(&over, resolved, cycle) {
        return;
    }
    if !promise_all(resolved, cycle) {
        return;
    }
    let refused = start(&over, resolved, cycle);
    cycle.replace_verdicts(&refused);
}

/// Whether any job of these classes fits within its hard limits. Only the shortest job of each
/// request is tried, unless reservations distinguish between the classes.
fn has_room<'s>(
    over: &BTreeSet<ClassId>,
    resolved: &'s Resolved,
    cycle: &mut CycleState<'s>,
) -> bool {
    let state = cycle.state;
    let distinguishes_classes = !state.windows.is_empty();
    let mut shortest: BTreeMap<(ShapeId, Option<ClassId>), Candidate> = BTreeMap::new();
    for waiting in over.iter().filter_map(|class| state.classes.get(class)) {
        let Some((_, (_, first))) = waiting.first() else {
            continue;
        };
        let class = resolved.of(&waiting.key);
        if cycle.is_within_hard_limits(class) {
            let job = Candidate::alone(first, class);
            let candidate = shortest
                .entry((class.shape.id, distinguishes_classes.then_some(class.id)))
                .or_insert(job);
            if cycle.span_of(class) < cycle.span_of(candidate.class) {
                *candidate = job;
            }
        }
    }
    shortest
        .into_values()
        .any(|job| cycle.match_now(job).is_ok())
}

/// Plans a start for all jobs within soft limits that wait for resources; false if some get none.
fn promise_all<'s>(resolved: &'s Resolved, cycle: &mut CycleState<'s>) -> bool {
    cycle.begin_again();
    let mut promised: BTreeSet<JobId> = cycle.promised().collect();
    let mut ranking = ranking::rank(cycle.state, resolved);
    let mut left = MAX_PLANNED_STARTS;
    while let Some(job) = ranking.next() {
        if cycle.has_started(job.job) || promised.contains(&job.job) {
            ranking.follow(job);
            continue;
        }
        match cycle::place(job, Pass::SoftLimitPlans, cycle) {
            Err(reason) if job.class.reservation.is_some() || !waits_for_resources(&reason) => {
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

/// Whether a job waits for resources, or was skipped by backfill.
fn waits_for_resources(reason: &Reason) -> bool {
    reason.is_blocked() || reason.stage() >= CycleStage::Backfill
}

/// Starts jobs of these classes. Returns the classes that another limit still refuses, and why.
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
                    // A refusal because of a planned start or lack of resources holds for all jobs
                    // with the same request.
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
