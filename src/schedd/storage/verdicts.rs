//! The reasons why jobs wait, by job class, and the planned starts: kept in memory and written when
//! they change.
//!
//! A new kind of reason is written soon; changed figures alone are written with a delay, because on
//! a busy machine they change with every start.

use crate::model::account::member::Member;
use crate::model::job::promise::PromisedStart;
use crate::model::job_id::JobId;
use crate::model::reason::Reason;
use crate::model::time::{Span, Time};
use crate::sched::view::plan::Plan;
use crate::schedd::storage::fair_shares::StoredFairShares;
use crate::schedd::storage::promises::Promises;
use crate::schedd::timers::FIGURES;
use crate::schedd::timers::SOON;
use crate::update::Update;
use std::collections::{BTreeMap, BTreeSet};

/// The verdicts of the latest cycle, and which of them are not in the spool yet.
#[derive(Default)]
pub struct Verdicts {
    /// Each reason, and since when it has had its code.
    reasons: BTreeMap<u64, (Reason, Time)>,
    unwritten: BTreeSet<u64>,
    promises: Promises,
    fair_shares: StoredFairShares,
    /// When the unwritten ones must be written.
    pub due: Option<Span>,
}

impl Verdicts {
    /// `written` are the stored verdicts by class, which are deleted unless a cycle confirms them.
    /// `promises` are the stored planned starts.
    pub fn new(
        written: BTreeMap<u64, (Reason, Time)>,
        promises: BTreeMap<JobId, PromisedStart>,
    ) -> Verdicts {
        Verdicts {
            unwritten: written.keys().copied().collect(),
            reasons: written,
            promises: Promises::new(promises),
            due: Some(Span(0)),
            ..Verdicts::default()
        }
    }

    /// Takes the result of a cycle. `waits` is whether a job is still a candidate. `now` is
    /// monotonic.
    pub fn take_in(&mut self, plan: &Plan, waits: impl Fn(JobId) -> bool, now: Span) {
        let mut reasons = BTreeMap::new();
        for (class, reason) in &plan.verdicts {
            let reason = reason.kept();
            let since = match self.reasons.get(&class.0) {
                Some((before, since)) if before.code() == reason.code() => *since,
                _ => plan.now,
            };
            reasons.insert(class.0, (reason, since));
        }
        for class in self
            .reasons
            .keys()
            .chain(reasons.keys())
            .copied()
            .collect::<BTreeSet<_>>()
        {
            let (old, new) = (self.reasons.get(&class), reasons.get(&class));
            if old != new {
                let same_kind =
                    old.map(|(reason, _)| reason.code()) == new.map(|(reason, _)| reason.code());
                self.unwritten.insert(class);
                self.by(now + if same_kind { FIGURES } else { SOON });
            }
        }
        self.reasons = reasons;
        let starting: BTreeSet<JobId> = plan.starts.iter().map(|start| start.job).collect();
        let delay = self.promises.take_in(
            &plan.bookings,
            |job| !starting.contains(&job) && waits(job),
            plan.now,
        );
        if let Some(delay) = delay {
            self.by(now + delay);
        }
    }

    /// The planned starts of the latest cycle.
    pub fn promises(&self) -> BTreeMap<JobId, PromisedStart> {
        self.promises.in_force()
    }

    /// Takes the fair-share priorities of a cycle.
    pub fn take_in_shares(&mut self, priorities: Vec<(Member, f64)>, now: Span) {
        let due = self.fair_shares.take_in(priorities, now);
        if let Some(due) = due {
            self.by(due);
        }
    }

    fn by(&mut self, when: Span) {
        self.due = Some(self.due.map_or(when, |due| due.min(when)));
    }

    /// The updates to write.
    pub fn changes(&mut self, now: Span) -> Vec<Update> {
        let fair_shares = self.fair_shares.change(now);
        self.unwritten
            .iter()
            .map(|class| Update::Verdict(*class, self.reasons.get(class).cloned()))
            .chain(self.promises.changes())
            .chain(fair_shares)
            .collect()
    }

    /// The updates are on disk.
    pub fn written(&mut self) {
        self.unwritten.clear();
        self.promises.written();
        self.due = self.fair_shares.written();
    }
}
