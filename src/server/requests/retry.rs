//! `qalter --retry` and `qrerun --failed`: runs failed or deleted jobs and subjobs again, also jobs
//! from the history (Q27).

use crate::model::attribute::AttributeSetting;
use crate::model::job::Job;
use crate::model::job::array::Indices;
use crate::model::job::event::Event;
use crate::model::job::retry::Again;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::queue::counters::EnteringJob;
use crate::model::refusal::Refusal;
use crate::server::granted::Granted;
use crate::server::request_context::RequestContext;
use crate::server::requests::alter::Alteration;
use crate::server::requests::subjobs;
use std::sync::Arc;

impl RequestContext<'_> {
    /// Requeues the failed subjobs of an array. A finished array is restored from the history
    /// first.
    pub(crate) fn rerun_failed(&mut self, id: JobId) -> Result<Granted, Refusal> {
        if id.index().is_some() {
            return Err(Refusal::invalid_request());
        }
        let array = self.retriable_job(id)?;
        if array.elements.is_none() {
            return Err(Refusal::not_an_array());
        }
        self.run_again(array, Again::Failed)
    }

    /// Requeues a job that failed or was deleted. Of an array, requeues the subjobs that failed or
    /// were deleted: all of them, or those in `only`.
    ///
    /// If there are `settings`, the job is altered before it returns to its queue; all checks of
    /// qalter apply. An unfinished array is refused then, because its other subjobs would be
    /// altered, too.
    pub(crate) fn retry(
        &mut self,
        id: JobId,
        only: Option<Indices>,
        settings: &[AttributeSetting],
    ) -> Result<Granted, Refusal> {
        let only = only.or(id.index().map(Indices::one));
        let mut job = self.retriable_job(id.parent().unwrap_or(id))?;
        let again = Again::Unsuccessful(only);
        let mut notes = Vec::new();
        if !settings.is_empty() {
            if !job.can_run_again(again) {
                return Err(Refusal::bad_state());
            }
            (job, notes) = self.altered_before_retry(job, settings)?;
        }
        match (&job.elements, only) {
            (None, Some(_)) => return Err(Refusal::unknown_job()),
            (Some(elements), Some(only)) => {
                let indices = job.indices().ok_or_else(Refusal::unknown_job)?;
                let named = indices
                    .positions(only)
                    .ok_or_else(Refusal::invalid_request)?;
                subjobs::check_ranges(named, elements)?;
            }
            // The queue must be enabled, and the limits must allow one more job.
            (None, None) => self.check_queue(&job)?,
            (Some(_), None) => {}
        }
        let (id, spec) = (job.id, job.spec.clone());
        self.run_again(job, again)?;
        if settings.is_empty() {
            return Ok(Granted::Done);
        }
        self.server.change(id, |job| job.spec = spec);
        let attributes = settings.iter().map(|setting| setting.attribute.clone());
        let event = Event::Altered {
            by: self.caller.shown(),
            attributes: attributes.collect(),
        };
        self.server.apply_event(id, event);
        Ok(Granted::Altered(id, notes))
    }

    /// A finished job with these settings, and warnings.
    fn altered_before_retry(
        &mut self,
        job: Job,
        settings: &[AttributeSetting],
    ) -> Result<(Job, Vec<String>), Refusal> {
        if job.life.state != JobState::Finished {
            return Err(Refusal::retry_unfinished_with());
        }
        if self.has_modify_hooks() {
            return Err(Refusal::retry_with_hooks());
        }
        if let Some(other) = settings.iter().find(|setting| setting.resource.is_none()) {
            return Err(Refusal::read_only(&other.attribute));
        }
        let Alteration { job, after, .. } = self.altered_job(Arc::new(job), settings)?;
        let altered = Job {
            spec: Arc::new(after.spec),
            ..Arc::unwrap_or_clone(job)
        };
        Ok((altered, after.notes))
    }

    /// A job, finished or not, that the caller may rerun. Refused if the job is interactive, or if
    /// its attempt has not ended. An array with running subjobs is accepted. An array is refused
    /// while a subjob is finished, for instance after a forced deletion, but its node has not yet
    /// reported the end of its attempt.
    fn retriable_job(&self, id: JobId) -> Result<Job, Refusal> {
        let job = match self.server.job(id) {
            Some(job) => Job::clone(job),
            None if self.has_history() => self.stored_job(id)?.ok_or_else(Refusal::unknown_job)?,
            None => return Err(Refusal::unknown_job()),
        };
        self.caller.must_own(&job)?;
        // An interactive job needs the terminal of its submission, so it cannot run again.
        let is_settled =
            job.life.open_run().is_none() && !self.server.has_subjobs_awaiting_reports(job.id);
        if job.spec.interactive {
            let remedy = "an interactive job cannot run again: submit it with qsub -I";
            Err(Refusal::bad_state().with_remedy(remedy))
        } else if is_settled {
            Ok(job)
        } else {
            let remedy = "the job has not ended yet: wait for its end, or use qrerun";
            Err(Refusal::bad_state().with_remedy(remedy))
        }
    }

    /// Checks that a finished job may enter its queue again.
    pub(crate) fn check_queue(&self, job: &Job) -> Result<(), Refusal> {
        let queue = self
            .server
            .queue(&job.spec.queue)
            .ok_or_else(Refusal::unknown_queue)?;
        if !queue.enabled {
            return Err(Refusal::queue_disabled());
        }
        self.server
            .check_limits(EnteringJob::New(JobState::Queued), &job.owner, &job.spec)
            .map(drop)
    }

    fn run_again(&mut self, job: Job, again: Again) -> Result<Granted, Refusal> {
        if !job.can_run_again(again) {
            return Err(Refusal::bad_state().with_remedy(nothing_to_rerun(&job)));
        }
        let (id, highest, by) = (job.id, job.life.highest, self.caller.shown());
        self.server.restore_from_history(job);
        let event = match again {
            Again::Failed => Event::FailedRerun { by, highest },
            Again::Unsuccessful(only) => Event::Retried { by, only, highest },
        };
        self.server.apply_event(id, event);
        Ok(Granted::Done)
    }
}

/// Why a job without an open attempt cannot run again.
fn nothing_to_rerun(job: &Job) -> String {
    let only = "only a job that failed or was deleted can run again";
    match job.life.exit {
        _ if job.elements.is_some() => "none of the subjobs has failed or was deleted".to_string(),
        Some(exit) if job.life.state == JobState::Finished => {
            format!(
                "the job has exit status {}, and {only}: submit it again with qsub",
                exit.status
            )
        }
        _ => format!("the job has not run yet, and {only}"),
    }
}
