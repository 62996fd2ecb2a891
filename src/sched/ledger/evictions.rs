//! What a cycle decides of those that run: who makes way, and for whom the room is kept.

use super::Ledger;
use crate::model::job::JobId;
use crate::model::policy::{self, Policy};
use crate::model::reason::Reason;
use crate::model::time::{Span, Time};
use crate::sched::limits::Books;
use crate::sched::matching::Placement;
use crate::sched::plan::{Booking, Preemption};
use crate::sched::priority::Candidate;
use crate::sched::shape::ClassKey;
use crate::sched::space::Space;
use crate::sched::standing::KEPT;
use crate::sched::timeline::OVERDUE;

impl<'s> Ledger<'s> {
    /// The policy of the cycle.
    pub fn policy(&self) -> &'s Policy {
        self.policy
    }

    /// Who makes way for whom.
    pub fn preemption(&self) -> &'s policy::Preemption {
        &self.policy.preemption
    }

    /// What limits on what runs leave, if there are any.
    pub fn books(&self) -> Option<&Books<'s>> {
        self.limits.as_ref()
    }

    /// Why the jobs of a class do not start, as far as that is told.
    pub fn verdict(&self, class: &ClassKey) -> Option<&Reason> {
        self.plan.verdict(class)
    }

    /// The promises given so far.
    pub fn bookings(&self) -> &[Booking] {
        &self.plan.bookings
    }

    /// Cuts down what could be free to what windows leave of it to a job of a class that starts now.
    pub fn narrow(&self, space: &mut Space<'s>, class: &ClassKey) {
        if !self.state.windows.is_empty() {
            self.windows.narrow(space, class, self.now, self.end_of(class));
        }
    }

    /// Enters who makes way.
    pub fn preempt(&mut self, ways: impl IntoIterator<Item = Preemption>) {
        self.plan.preempts.extend(ways);
    }

    /// The job for which others make way starts as soon as they have: the room is promised to it, before
    /// anybody else.
    pub fn earmark(&mut self, candidate: Candidate<'s>, placement: &Placement) {
        let Candidate { job, class, .. } = candidate;
        let name = |ix| self.state.cluster.node(ix).name.clone();
        let at = self.now + OVERDUE;
        self.plan.bookings.retain(|booking| booking.job != job);
        self.plan.bookings.push(Booking {
            job,
            class: class.id,
            at,
            until: at + self.span_of(class),
            nodes: placement.picks.iter().map(|&(ix, _)| name(ix)).collect(),
            was: None,
            cause: None,
            earmark: Some(self.now + KEPT),
        });
    }

    /// A further look could help then.
    pub fn look_again_at(&mut self, moment: Time) {
        self.plan.look_again(moment.max(self.now + Span(1)));
    }

    /// Whether a job was told in this cycle to make way.
    pub fn is_preempted(&self, job: JobId) -> bool {
        self.plan.preempts.iter().any(|way| way.job == job)
    }
}
