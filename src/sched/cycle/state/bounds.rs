//! Methods of the cycle state for limits, the list of eligible jobs, and planned starts.

use super::{CycleState, Pass};
use crate::model::job_id::JobId;
use crate::model::reason::Reason;
use crate::sched::priority::ranking::Candidate;
use crate::sched::view::eligible::Eligible;
use crate::sched::view::shape::{ClassId, ClassKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl<'s> CycleState<'s> {
    /// Sets the list of eligible jobs: of some classes, only these jobs are considered (M24).
    pub fn consider_only(&mut self, eligible: Eligible) {
        self.plan.eligible = eligible;
    }

    /// Why a job is not on the list of eligible jobs; None if the cycle considers it.
    pub fn unlisted(&self, job: Candidate) -> Option<Arc<Reason>> {
        self.plan.eligible.refusal(job.class.id, job.job).cloned()
    }

    /// The reason for the limit that one more job of a class would exceed.
    pub fn over_limit(&mut self, class: &ClassKey, pass: Pass) -> Option<Arc<Reason>> {
        let limits = self.limits.as_mut()?;
        let exceeded = match pass {
            Pass::OverSoftLimits => limits.exceeded_hard_limit(class)?,
            _ => limits.exceeded_limit(class)?,
        };
        Some(limits.reason(exceeded, class))
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
            .and_then(|limits| limits.exceeded_hard_limit(class))
            .is_none()
    }

    /// The jobs with a planned start in the plan so far.
    pub fn promised(&self) -> impl Iterator<Item = JobId> + '_ {
        self.plan.bookings.iter().map(|booking| booking.job)
    }

    /// Whether another start may be planned.
    pub fn may_promise(&self) -> bool {
        self.backfill().promises() && !self.calendar.is_full()
    }

    /// Whether the backfill depth allows another job behind a blocked one (M36).
    pub fn has_depth_left(&self) -> bool {
        self.backfill_limits.has_depth_left(self.backfill())
    }

    /// Replaces the verdicts of these classes.
    pub fn replace_verdicts(&mut self, reasons: &BTreeMap<ClassId, Arc<Reason>>) {
        for (class, reason) in &mut self.plan.verdicts {
            if let Some(new_reason) = reasons.get(class) {
                *reason = new_reason.clone();
            }
        }
    }
}
