//! Who is over a soft limit starts last: once all that are within theirs have started or are promised a
//! start, what is left goes to those within their hard limits (M23, G3).
//!
//! Example: 5 processors, each user may have 2 jobs, and 8 if nobody else wants the room. Of a's six jobs
//! two start and of b's three two; the processor that is left goes to a third one of a.
//!
//! So before that, everybody within soft limits who waits for room is promised a start, however deep the
//! policy promises. Where that cannot be - the policy promises nothing, or there are too many - nobody over
//! a soft limit starts while one of them waits. Who waits for what nobody can foretell, as a node that is
//! down, holds nobody up.

use super::cycle;
use super::ledger::Ledger;
use super::priority;
use super::resolution::Resolved;
use super::shape::ClassId;
use crate::model::job::JobId;
use crate::model::reason::{Reason, Stage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// No more promises are given than this for the sake of who is over a soft limit.
const MOST: usize = 1000;

/// Starts those that a soft limit alone keeps waiting, as far as that delays nobody within the soft limits.
pub fn start_over_soft<'s>(resolved: &'s Resolved, ledger: &mut Ledger<'s>) {
    let over = ledger.over_soft();
    if over.is_empty() || !over.iter().any(|class| has_room(*class, resolved, ledger)) {
        return;
    }
    if !promise_all(resolved, ledger) {
        return;
    }
    ledger.heed_soft_limits(false);
    let refused = start(&over, resolved, ledger);
    ledger.heed_soft_limits(true);
    ledger.tell_anew(&refused);
}

/// Whether a job of a class would find room within its hard limits.
fn has_room<'s>(class: ClassId, resolved: &'s Resolved, ledger: &mut Ledger<'s>) -> bool {
    let Some(class) = ledger.state.class(class).map(|class| resolved.of(class)) else { return false };
    ledger.is_within_hard_limits(class) && ledger.place_beside(class).is_ok()
}

/// Promises a start to all within soft limits that wait for room; false if some of them are left out.
fn promise_all<'s>(resolved: &'s Resolved, ledger: &mut Ledger<'s>) -> bool {
    ledger.begin_again();
    let mut promised: BTreeSet<JobId> = ledger.promised().collect();
    let mut ranking = priority::rank(ledger.state, resolved);
    let mut left = MOST;
    while let Some(job) = ranking.next() {
        if ledger.has_started(job.job) || promised.contains(&job.job) {
            ranking.follow(job);
            continue;
        }
        match cycle::place(job, ledger) {
            Err(reason) if job.class.asks_for.is_some() || !is_for_room(&reason) => ranking.pass(job),
            Err(_) if left == 0 || !ledger.may_promise() => return false,
            Err(_) => match ledger.promise_beyond(job) {
                Some(_) => {
                    left -= 1;
                    promised.insert(job.job);
                    ranking.follow(job);
                }
                None => ranking.pass(job),
            },
            Ok((start, claim)) => {
                ledger.start(job, start, claim);
                ranking.follow(job);
            }
        }
    }
    true
}

/// Whether a job waits for room, or for its turn to be looked at.
fn is_for_room(reason: &Reason) -> bool {
    reason.is_blocked() || reason.stage() >= Stage::Backfill
}

/// Starts jobs of these classes; why the others still wait, where that is another limit.
fn start<'s>(
    over: &BTreeSet<ClassId>,
    resolved: &'s Resolved,
    ledger: &mut Ledger<'s>,
) -> BTreeMap<ClassId, Arc<Reason>> {
    ledger.begin_again();
    let (mut ranking, mut refused) = (priority::rank(ledger.state, resolved), BTreeMap::new());
    while let Some(job) = ranking.next() {
        if !over.contains(&job.class.id) {
            ranking.pass(job);
        } else if ledger.has_started(job.job) {
            ranking.follow(job);
        } else {
            ledger.consider();
            match cycle::place(job, ledger) {
                Ok((start, claim)) => {
                    ledger.start(job, start, claim);
                    ranking.follow(job);
                }
                Err(reason) => {
                    if matches!(*reason, Reason::Limited(_)) {
                        refused.insert(job.class.id, reason);
                    }
                    ranking.pass(job);
                }
            }
        }
    }
    refused
}
