//! What becomes of one job, passed on to those that wait for it.
//!
//! The ledger notes every turn of a tied job ([`ties::Ties::observe`]); [`pass_on`] judges its dependents
//! in the same tick, and theirs in turn, one after another from a list: a chain of any length falls
//! in one tick, in linear time. A job without dependencies costs a look into an index.

pub mod asked;

pub mod cycle;

pub mod ties;

use super::ledger::Ledger;
use crate::model::depend::{Condition, Edge, Kind, Progress, Tie, Verdict, fate, judge};
use crate::model::event::Event;
use crate::model::job::{Job, JobId};
use crate::model::state::State;
use crate::spool::commit::Change;
use crate::spool::ties::Standing;
use ties::Turn;

/// Passes on all that has been noted, until nothing more follows from it.
pub fn pass_on(ledger: &mut Ledger) {
    while let Some((id, turn)) = ledger.ties.next_turn() {
        match turn {
            Turn::Began => began(ledger, id),
            Turn::Returned => each_rival(ledger, id, |job| Event::RivalReturned { job }),
            Turn::Ended => over(ledger, id),
        }
    }
}

fn began(ledger: &mut Ledger, id: JobId) {
    for (dependent, condition) in ledger.ties.dependents(id) {
        if condition == Condition::Begun {
            meet(ledger, dependent, condition, id);
        }
    }
    each_rival(ledger, id, |job| Event::RivalBegan { job });
}

fn each_rival(ledger: &mut Ledger, id: JobId, event: fn(JobId) -> Event) {
    for rival in ledger.ties.rivals(id) {
        ledger.ties.stirred = true;
        ledger.note(rival, event(id));
    }
}

fn over(ledger: &mut Ledger, id: JobId) {
    let Some(job) = ledger.job(id).cloned() else { return };
    let progress = Progress::of(&job);
    for (dependent, condition) in ledger.ties.dependents(id) {
        match judge(condition, progress) {
            Verdict::Met => meet(ledger, dependent, condition, id),
            Verdict::Impossible => {
                let edge = Edge { kind: Kind::After(condition), job: id };
                break_off(ledger, dependent, edge, &fate(&job.life));
            }
            Verdict::Pending => {}
        }
    }
    if matches!(progress, Progress::Ended { began: true, .. }) {
        let edge = Edge { kind: Kind::RunOne, job: id };
        for rival in ledger.ties.rivals(id) {
            break_off(ledger, rival, edge, "and that one has run");
        }
    } else if let Some(tie) = ledger.ties.membership(id).filter(|_| job.life.bars.rival.is_none()) {
        // The others are left to choose among themselves.
        ledger.also(Change::Tie(tie, Standing::Met));
    }
    ledger.ties.forget(id);
}

/// Lets a job go on from a condition that is met.
fn meet(ledger: &mut Ledger, job: JobId, condition: Condition, other: JobId) {
    let edge = Edge { kind: Kind::After(condition), job: other };
    let tie = Tie { job, edge };
    if is_live(ledger, job) && ledger.ties.remove(tie) {
        ledger.ties.stirred = true;
        ledger.also(Change::Tie(tie, Standing::Met));
        ledger.note(job, Event::DependencyMet { edge });
    }
}

fn break_off(ledger: &mut Ledger, job: JobId, edge: Edge, how: &str) {
    let other = edge.job.full(&ledger.setup.name);
    let why = format!("Job deleted as result of dependency on job {other}: {}, {how}", edge.kind.name());
    if is_live(ledger, job) {
        ledger.note(job, Event::DependencyBroken { edge, why });
    }
}

/// A job may have been ended a moment ago, by another of its bonds.
fn is_live(ledger: &Ledger, id: JobId) -> bool {
    ledger.job(id).is_some_and(|job| job.life.state != State::Finished)
}

/// Unties a job that an operator has released, and that stood as `was` before: it waits for nothing
/// any more; what it had waited for stays shown.
pub fn lift(ledger: &mut Ledger, was: &Job) {
    let id = was.id;
    for (other, condition) in ledger.ties.conditions(id) {
        let tie = Tie { job: id, edge: Edge { kind: Kind::After(condition), job: other } };
        ledger.ties.remove(tie);
        ledger.also(Change::Tie(tie, Standing::Lifted));
    }
    if let Some(tie) = ledger.ties.membership(id).filter(|_| was.life.bars.rival.is_some()) {
        ledger.ties.remove(tie);
        ledger.also(Change::Tie(tie, Standing::Met));
    }
}
