//! Suspended jobs in the books of a cycle.

use super::CycleState;
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use crate::sched::placement::availability_map::JobAmounts;
use crate::sched::view::plan::Resume;

impl CycleState<'_> {
    /// Whether a suspended job that goes on now delays no promise.
    pub fn keeps_promises(&mut self, need: &JobAmounts, until: Time) -> bool {
        self.calendar.leaves_promises(&self.space, need, until)
    }

    /// A further look at this moment could help.
    pub fn look_then(&mut self, at: Time) {
        self.plan.look_again(at);
    }

    /// Enters that a suspended job goes on with what it has taken.
    pub fn enter_resumed(&mut self, resume: Resume, need: JobAmounts) {
        self.calendar
            .start(resume.job, need, resume.until, &self.space);
        self.plan.resumes.push(resume);
    }

    /// When a suspended job can go on at the earliest, if anybody can tell.
    pub fn earliest_resumption(&mut self, need: &JobAmounts, length: Span) -> Option<Time> {
        self.calendar.earliest_again(&self.space, need, length)
    }

    /// Enters what is kept for a suspended job from now on, and all it needs from a moment on.
    pub fn enter_kept(
        &mut self,
        job: JobId,
        kept: JobAmounts,
        at: Option<Time>,
        whole: (JobAmounts, Span),
    ) {
        self.calendar.keep(job, kept, at, whole, &self.space);
    }
}
