//! Methods of the cycle state for suspended jobs.

use super::CycleState;
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use crate::sched::placement::availability_map::JobAmounts;
use crate::sched::view::plan::Resume;

impl CycleState<'_> {
    /// Whether a suspended job that resumes now with the resources `need` and ends at `until`
    /// delays no planned start.
    pub fn delays_no_booking(&mut self, need: &JobAmounts, until: Time) -> bool {
        self.calendar.delays_no_booking(&self.space, need, until)
    }

    /// Requests another cycle at this time.
    pub fn request_cycle_at(&mut self, at: Time) {
        self.plan.request_cycle(at);
    }

    /// Adds a resumed job to the plan, and its resources to the calendar.
    pub fn add_resumption(&mut self, resume: Resume, need: JobAmounts) {
        self.calendar
            .start(resume.job, need, resume.until, &self.space);
        self.plan.resumes.push(resume);
    }

    /// The earliest time at which a suspended job can resume for `length` with the resources
    /// `need`; None if unknown.
    pub fn earliest_resumption(&mut self, need: &JobAmounts, length: Span) -> Option<Time> {
        self.calendar.earliest_resumption(&self.space, need, length)
    }

    /// Records in the calendar the resources that are held for a suspended job: `kept` from now on
    /// and, from `at` on, all the resources that the job needs, for its remaining time (`whole`).
    /// If `at` is None, records only `kept`.
    pub fn hold_for_suspended(
        &mut self,
        job: JobId,
        kept: JobAmounts,
        at: Option<Time>,
        whole: (JobAmounts, Span),
    ) {
        self.calendar
            .hold_for_suspended(job, kept, at, whole, &self.space);
    }
}
