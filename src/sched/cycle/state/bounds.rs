//! What the limits allow at this point of a cycle.

use super::{CycleState, Pass};
use crate::model::job_id::JobId;
use crate::model::reason::Reason;
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::eligible::Eligible;
use crate::sched::view::shape::{ClassId, ClassKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl<'s> CycleState<'s> {
    /// Restricts some classes to these jobs (M24).
    pub fn consider_only(&mut self, eligible: Eligible) {
        self.plan.eligible = eligible;
    }

    /// Why a job is not considered; None if it is.
    pub fn unlisted(&self, job: Candidate) -> Option<Arc<Reason>> {
        self.plan.eligible.refusal(job.class.id, job.job).cloned()
    }

    /// The reason for the limit that one more job of a class would exceed.
    pub fn over_limit(&mut self, class: &ClassKey, pass: Pass) -> Option<Arc<Reason>> {
        let limits = self.limits.as_mut()?;
        let bar = match pass {
            Pass::OverSoftLimits => limits.hard_bar(class)?,
            _ => limits.bar(class)?,
        };
        Some(limits.reason(bar, class))
    }

    /// The classes that only a soft limit has refused so far (M23).
    pub fn over_soft(&self) -> BTreeSet<ClassId> {
        self.limits
            .as_ref()
            .map(|limits| limits.over_soft().clone())
            .unwrap_or_default()
    }

    /// Whether one more job of a class would exceed no hard limit.
    pub fn is_within_hard_limits(&mut self, class: &ClassKey) -> bool {
        self.limits
            .as_mut()
            .and_then(|limits| limits.hard_bar(class))
            .is_none()
    }

    /// The jobs with a planned start.
    pub fn promised(&self) -> impl Iterator<Item = JobId> + '_ {
        self.plan.bookings.iter().map(|booking| booking.job)
    }

    /// Whether another start may be planned.
    pub fn may_promise(&self) -> bool {
        self.backfill().promises() && !self.calendar.is_full()
    }

    /// Whether the backfill depth allows another job behind a blocked one (M36).
    pub fn looks_on(&self) -> bool {
        self.gaps.looks_on(self.backfill())
    }

    /// Replaces the verdicts of these classes.
    pub fn tell_anew(&mut self, reasons: &BTreeMap<ClassId, Arc<Reason>>) {
        for (class, reason) in &mut self.plan.verdicts {
            if let Some(anew) = reasons.get(class) {
                *reason = anew.clone();
            }
        }
    }
}
