//! Why jobs do not start, per class of alike jobs, and the starts promised: kept in memory,
//! written when they change.
//!
//! A new kind of reason is written soon; one whose figures alone have moved is written at leisure:
//! on a busy machine figures move with every start.

use super::timers::{FIGURES, SOON};
use crate::model::job::JobId;
use crate::model::reason::Reason;
use crate::model::time::{Span, Time};
use crate::sched::plan::Plan;
use crate::spool::commit::Change;
use std::collections::{BTreeMap, BTreeSet};

type Booking = (JobId, Time, Vec<String>);

/// The verdicts of the latest cycle, and which of them the spool does not have yet.
#[derive(Default)]
pub struct Verdicts {
    reasons: BTreeMap<u64, Reason>,
    bookings: Vec<Booking>,
    unwritten: BTreeSet<u64>,
    bookings_unwritten: bool,
    /// When the unwritten ones are to be written at the latest.
    pub due: Option<Span>,
}

impl Verdicts {
    /// `written` are the classes the spool has a verdict of, from an earlier schedd: forgotten
    /// unless a cycle says so again.
    pub fn new(written: Vec<u64>) -> Verdicts {
        Verdicts {
            unwritten: written.into_iter().collect(),
            bookings_unwritten: true,
            due: Some(Span(0)),
            ..Verdicts::default()
        }
    }

    /// Takes in what a cycle has found; `now` is on the clock that no step moves.
    pub fn take_in(&mut self, plan: &Plan, now: Span) {
        let reasons: BTreeMap<u64, Reason> =
            plan.verdicts.iter().map(|(class, reason)| (class.0, Reason::clone(reason))).collect();
        for class in self.reasons.keys().chain(reasons.keys()).copied().collect::<BTreeSet<_>>() {
            let (old, new) = (self.reasons.get(&class), reasons.get(&class));
            if old != new {
                let same_kind = old.map(Reason::code) == new.map(Reason::code);
                self.unwritten.insert(class);
                self.by(now + if same_kind { FIGURES } else { SOON });
            }
        }
        self.reasons = reasons;
        let bookings: Vec<Booking> =
            plan.bookings.iter().map(|booking| (booking.job, booking.at, booking.distinct_nodes())).collect();
        if bookings != self.bookings {
            self.bookings = bookings;
            self.bookings_unwritten = true;
            self.by(now + SOON);
        }
    }

    fn by(&mut self, when: Span) {
        self.due = Some(self.due.map_or(when, |due| due.min(when)));
    }

    /// The rows to write.
    pub fn changes(&self) -> Vec<Change> {
        let row = |class: &u64| Change::Verdict(*class, self.reasons.get(class).cloned());
        let mut changes: Vec<Change> = self.unwritten.iter().map(row).collect();
        if self.bookings_unwritten {
            changes.push(Change::Bookings(self.bookings.clone()));
        }
        changes
    }

    /// The rows are on disk.
    pub fn written(&mut self) {
        self.unwritten.clear();
        self.bookings_unwritten = false;
        self.due = None;
    }
}
