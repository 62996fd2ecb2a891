//! Suspended jobs in the state of a cycle.

use super::CycleState;
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use crate::sched::placement::availability_map::JobAmounts;
use crate::sched::view::plan::Resume;

impl CycleState<'_> {
    /// Whether a suspended job that resumes now delays no planned start.
    pub fn keeps_promises(&mut self, need: &JobAmounts, until: Time) -> bool {
        self.calendar.leaves_promises(&self.space, need, until)
    }

    /// Requests another cycle at this time.
    pub fn request_cycle_at(&mut self, at: Time) {
        self.plan.request_cycle(at);
    }

    /// Records a resumed job and its resources.
    pub fn enter_resumed(&mut self, resume: Resume, need: JobAmounts) {
        self.calendar
            .start(resume.job, need, resume.until, &self.space);
        self.plan.resumes.push(resume);
    }

    /// The earliest time at which a suspended job can resume; None if unknown.
    pub fn earliest_resumption(&mut self, need: &JobAmounts, length: Span) -> Option<Time> {
        self.calendar.earliest_again(&self.space, need, length)
    }

    /// Records the resources held for a suspended job from now on, and all that it needs from `at`
    /// on.
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
