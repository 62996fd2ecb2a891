//! What is in a job's way, each stage asked for itself once a cycle has decided: the cycle stops at the
//! first that refuses, people want to know all.

use super::ledger::Ledger;
use super::priority::Candidate;
use super::shape::ClassKey;
use super::{feasibility, throttling};
use crate::model::job::JobId;
use crate::model::reason::{Reason, Stage};
use crate::model::time::{Span, Time};

/// How often a still shorter walltime is tried.
const ROUNDS: usize = 32;

/// Longer than anything that is planned.
const EVER: Span = Span::seconds(1000 * 366 * 86_400);

/// All that keeps a job from starting beside what a cycle has decided, the earliest stage first. Of the
/// stages that look for room, only the first can tell.
pub fn of(job: Candidate, ledger: &mut Ledger) -> Vec<Reason> {
    let mut objections: Vec<Reason> = feasibility::screen(&job.class.shape, ledger).err().into_iter().collect();
    let could_run = objections.is_empty();
    objections.extend(throttling::objections(job, ledger));
    let room = could_run.then(|| ledger.place_beside(job.class).err()).flatten();
    objections.extend(room.map(|reason| as_its_own(&reason, job.job)));
    in_order(objections)
}

/// The same, where a cycle has said why the job waits: its word counts for the stage that it names.
pub fn led_by(said: Option<&Reason>, job: JobId, found: Vec<Reason>) -> Vec<Reason> {
    let Some(said) = said.map(|said| as_its_own(said, job)) else { return found };
    let is_of_room = |reason: &Reason| reason.stage() >= Stage::Match || reason.is_blocked();
    let is_same = |reason: &Reason| reason.code() == said.code() || (is_of_room(reason) && is_of_room(&said));
    let others = found.iter().filter(|reason| !is_same(reason)).cloned();
    in_order(std::iter::once(said.clone()).chain(others).collect())
}

fn in_order(mut objections: Vec<Reason>) -> Vec<Reason> {
    objections.sort_by_key(Reason::stage);
    objections
}

/// Who is in the way of his own promised start waits for it.
fn as_its_own(reason: &Reason, job: JobId) -> Reason {
    match *reason {
        Reason::WouldDelayBooking { holder, at } if holder == job || holder.parent() == Some(job) => {
            Reason::Booked { at }
        }
        _ => reason.clone(),
    }
}

/// The longest walltime with which a job would start now, if its own is all that keeps it from that. It
/// is tried, not reckoned: with such a walltime nothing is in its way.
pub fn shorter(job: Candidate, ledger: &mut Ledger, first: &Reason) -> Option<Span> {
    let mut walltime = before(first, ledger.now)?;
    for _ in 0..ROUNDS {
        let class = ClassKey { walltime: Some(walltime), ..job.class.clone() };
        let mut shortened = Candidate::alone(job.job, &class);
        shortened.begun = job.begun;
        let objections = of(shortened, ledger);
        let Some(objection) = objections.first() else { return Some(walltime) };
        walltime = before(objection, ledger.now).filter(|next| *next < walltime)?;
    }
    None
}

/// How long a job may last so as not to meet what is in its way, in whole seconds.
fn before(reason: &Reason, now: Time) -> Option<Span> {
    let at = match *reason {
        Reason::WouldDelayBooking { at, .. } | Reason::Reserved { from: at, .. } => at,
        Reason::CrossesDedicated { at } | Reason::CrossesPrime { at, .. } => at,
        Reason::NoWalltime => return Some(EVER),
        _ => return None,
    };
    let seconds = at.since(now).0 / 1000;
    (at != Time::NEVER && seconds > 0).then_some(Span::seconds(seconds))
}
