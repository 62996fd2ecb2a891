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
    /// Sets the list of eligible jobs (M24). If `eligible` contains a class, the cycle considers
    /// only the listed jobs of the class; otherwise it considers all jobs of the class.
    pub fn set_eligible(&mut self, eligible: Eligible) {
        self.plan.eligible = eligible;
    }

    /// Why a job is not on the list of eligible jobs; None if the cycle considers it.
    pub fn list_refusal(&self, job: Candidate) -> Option<Arc<Reason>> {
        self.plan.eligible.refusal(job.class.id, job.job).cloned()
    }

    /// Why limits refuse one more job of a class; None if the job exceeds no limit. In pass
    /// [`Pass::OverSoftLimits`], only hard limits count.
    pub fn limit_refusal(&mut self, class: &ClassKey, pass: Pass) -> Option<Arc<Reason>> {
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

    /// Whether one more job of a class stays within all hard limits.
    pub fn is_within_hard_limits(&mut self, class: &ClassKey) -> bool {
        self.limits
            .as_mut()
            .and_then(|limits| limits.exceeded_hard_limit(class))
            .is_none()
    }

    /// The jobs with a planned start in the plan so far.
    pub fn booked_jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.plan.bookings.iter().map(|booking| booking.job)
    }

    /// Whether the policy plans starts and the calendar is not full.
    pub fn may_plan_start(&self) -> bool {
        self.backfill().plans_starts() && !self.calendar.is_full()
    }

    /// Whether the key `consider` of `[backfill]` allows the cycle to consider another job behind a
    /// blocked job (M36).
    pub fn has_depth_left(&self) -> bool {
        self.backfill_limits.has_depth_left(self.backfill())
    }

    /// Replaces the existing verdicts of the classes in `reasons`.
    pub fn replace_verdicts(&mut self, reasons: &BTreeMap<ClassId, Arc<Reason>>) {
        for (class, reason) in &mut self.plan.verdicts {
            if let Some(new_reason) = reasons.get(class) {
                *reason = new_reason.clone();
            }
        }
    }
}
