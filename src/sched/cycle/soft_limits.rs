//! Jobs over a soft limit start last: once all jobs within their soft limits have started or have a
//! planned start, the remaining resources go to jobs within their hard limits (M23, G3).
//!
//! Example: 5 CPUs; each user may run 2 jobs, and 8 if the resources would otherwise be idle. User
//! a submits six jobs of one CPU, then user b submits three. Two jobs of each user start; the last
//! CPU goes to a third job of user a.
//!
//! The pass first plans a start for every job within its soft limits that waits for resources, even
//! beyond the maximum number of planned starts (the key `depth` of `[backfill]`). If the policy
//! plans no starts, or if too many jobs would need a planned start, no job over a soft limit starts
//! while a job within its soft limits waits for resources. A job without a computable start, for
//! example because it waits for a node that is down, delays no other job. If the key `consider` of
//! `[backfill]` limits the number of considered jobs (M36), jobs over a soft limit are considered
//! last, as long as the limit is not reached.

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

/// Starts jobs that only a soft limit has refused, if they delay no job within its soft limits.
pub fn start_over_soft_limits<'s>(resolved: &'s Resolved, cycle: &mut CycleState<'s>) {
    let over = cycle.over_soft();
    if over.is_empty() || !cycle.has_depth_left() || !could_start(&over, resolved, cycle) {
        return;
    }
    if !plan_all_starts(resolved, cycle) {
        return;
    }
    let refused = start(&over, resolved, cycle);
    cycle.replace_verdicts(&refused);
}

/// Whether a job of these classes is within its hard limits and could start now. Tries only the job
/// with the shortest walltime of each shape; if there are reservations, of each class.
fn could_start<'s>(
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

/// Plans a start for all jobs within soft limits that wait for resources, and starts such jobs if
/// they fit now. Returns false if a job needs a planned start that the policy, the calendar or
/// `MAX_PLANNED_STARTS` does not allow. A job without a computable start is skipped.
fn plan_all_starts<'s>(resolved: &'s Resolved, cycle: &mut CycleState<'s>) -> bool {
    cycle.begin_again();
    let mut booked: BTreeSet<JobId> = cycle.booked_jobs().collect();
    let mut ranking = ranking::rank(cycle.state, resolved);
    let mut left = MAX_PLANNED_STARTS;
    while let Some(job) = ranking.next() {
        if cycle.has_started(job.job) || booked.contains(&job.job) {
            ranking.follow(job);
            continue;
        }
        match cycle::place(job, Pass::SoftLimitPlans, cycle) {
            Err(reason) if job.class.reservation.is_some() || !waits_for_resources(&reason) => {
                ranking.pass(job)
            }
            Err(_) if left == 0 || !cycle.may_plan_start() => return false,
            Err(_) => match cycle.plan_start_beyond_depth(job) {
                Some(_) => {
                    left -= 1;
                    booked.insert(job.job);
                    ranking.follow(job);
                }
                None => ranking.pass(job),
            },
            Ok(possible_start) => {
                launch::launch(job, possible_start, cycle);
                ranking.follow(job);
            }
        }
    }
    true
}

/// Whether a job waits for resources, or was refused in the backfill stage or later.
fn waits_for_resources(reason: &Reason) -> bool {
    reason.is_blocked() || reason.stage() >= CycleStage::Backfill
}

/// Starts jobs of the classes `over`, which only a soft limit has refused. Returns the classes that
/// a hard limit now refuses, with the reason.
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
            cycle.count_considered();
            match cycle::place(job, Pass::OverSoftLimits, cycle) {
                Ok(possible_start) => {
                    launch::launch(job, possible_start, cycle);
                    ranking.follow(job);
                }
                Err(reason) => {
                    // If the refusal holds for all jobs with the same request, `pass` is not
                    // called, so the ranking skips these jobs.
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
