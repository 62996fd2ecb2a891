//! The verdicts (why jobs wait; one for each class of equal jobs), the planned starts, and the
//! fair-share priorities. They are kept in memory and written when they change.
//!
//! If the code of a reason changes, the reason is written soon. If only its numbers change, it is
//! written after a longer delay, because the numbers may change with each start of a job.

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

/// The verdicts of the latest cycle, and the classes with changes that are not in the spool yet.
#[derive(Default)]
pub struct Verdicts {
    /// The reason of each class, and the time since which its reason code is unchanged.
    reasons: BTreeMap<u64, (Reason, Time)>,
    unwritten: BTreeSet<u64>,
    promises: Promises,
    fair_shares: StoredFairShares,
    /// When unwritten changes must be written.
    pub due: Option<Span>,
}

impl Verdicts {
    /// Starts with the stored verdicts by class (`written`) and the stored planned starts. A
    /// verdict is deleted unless the first cycle confirms it.
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

    /// Applies the plan of a cycle. `waits` reports whether a job still waits. `now` is monotonic
    /// time.
    pub fn update(&mut self, plan: &Plan, waits: impl Fn(JobId) -> bool, now: Span) {
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
                self.write_by(now + if same_kind { FIGURES } else { SOON });
            }
        }
        self.reasons = reasons;
        let starting: BTreeSet<JobId> = plan.starts.iter().map(|start| start.job).collect();
        let delay = self.promises.update(
            &plan.bookings,
            |job| !starting.contains(&job) && waits(job),
            plan.now,
        );
        if let Some(delay) = delay {
            self.write_by(now + delay);
        }
    }

    /// The planned starts of the latest cycle, by job.
    pub fn promises(&self) -> BTreeMap<JobId, PromisedStart> {
        self.promises.current()
    }

    /// Sets the fair-share priorities of a cycle.
    pub fn update_fair_shares(&mut self, priorities: Vec<(Member, f64)>, now: Span) {
        let due = self.fair_shares.update(priorities, now);
        if let Some(due) = due {
            self.write_by(due);
        }
    }

    fn write_by(&mut self, when: Span) {
        self.due = Some(self.due.map_or(when, |due| due.min(when)));
    }

    /// The updates for changes that are not in the spool yet.
    pub fn changes(&mut self, now: Span) -> Vec<Update> {
        let fair_shares = self.fair_shares.change(now);
        self.unwritten
            .iter()
            .map(|class| Update::Verdict(*class, self.reasons.get(class).cloned()))
            .chain(self.promises.changes())
            .chain(fair_shares)
            .collect()
    }

    /// Marks all changes as written.
    pub fn written(&mut self) {
        self.unwritten.clear();
        self.promises.written();
        self.due = self.fair_shares.written();
    }
}
