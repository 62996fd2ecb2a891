//! Requests for subjobs: deletion, rerun and signals. Rerun and signals also apply to other jobs.

use crate::model::indices::spans::Spans;
use crate::model::job::Attempt;
use crate::model::job::Spec;
use crate::model::job::array;
use crate::model::job::array::Elements;
use crate::model::job::array::Indices;
use crate::model::job::array::SubjobState;
use crate::model::job::event::Event;
use crate::model::job::suspend::SuspendRequest;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::signal;
use crate::server::granted::Granted;
use crate::server::node_reports;
use crate::server::request_context::RequestContext;
use std::sync::Arc;

impl RequestContext<'_> {
    /// The subjobs of a new array; None for other jobs. Refuses arrays above the size limit.
    pub(crate) fn new_subjobs(&self, spec: &Spec) -> Result<Option<Arc<Elements>>, Refusal> {
        let most = self.server.setup.config.server.max_array_size;
        if spec
            .subjob_count()
            .is_some_and(|count| most.is_some_and(|most| count > most))
        {
            Err(Refusal::array_too_large())
        } else {
            Ok(spec.elements().map(Arc::new))
        }
    }

    /// The jobs to which a request with this id applies. A job that is no array: the job itself. An
    /// array: its started, unfinished subjobs, or those of them in `only`. A subjob: the subjob, if
    /// it has started and not finished.
    pub(crate) fn started_jobs(
        &self,
        id: JobId,
        only: Option<Indices>,
    ) -> Result<Vec<JobId>, Refusal> {
        let job = self.unfinished_job(id.parent().unwrap_or(id))?;
        let (Some(indices), Some(elements)) = (job.indices(), &job.elements) else {
            return Ok(vec![id]);
        };
        let only = only.or(id.index().map(Indices::one));
        if only.is_some_and(|only| indices.common(only).is_none()) {
            return Err(Refusal::invalid_request());
        }
        let wanted = |id: &JobId| {
            only.is_none_or(|only| id.index().is_some_and(|i| only.position(i).is_some()))
        };
        Ok(array::ids(job.id, elements.begun(), indices)
            .filter(wanted)
            .collect())
    }

    /// Deletes the subjobs in `only`. Finished subjobs are skipped; if all of them are finished,
    /// the request is refused.
    pub(crate) fn delete_elements(
        &mut self,
        id: JobId,
        only: Indices,
        force: bool,
    ) -> Result<Granted, Refusal> {
        let array = self.owned_job(id.parent().unwrap_or(id))?;
        let (Some(indices), Some(elements)) = (array.indices(), &array.elements) else {
            return Err(Refusal::unknown_job());
        };
        let named = indices
            .positions(only)
            .ok_or_else(Refusal::invalid_request)?;
        check_ranges(named, elements)?;
        let (waiting, begun) = (
            ranges_among(named, elements.waiting()),
            ranges_among(named, elements.begun()),
        );
        if waiting.is_empty() && begun.is_empty() {
            return Err(Refusal::finished_element());
        }
        let by = self.caller.shown();
        for position in begun.into_iter().flat_map(|(first, last)| first..=last) {
            let element = JobId::element(array.id.number, indices.at(position));
            self.server.apply_event(
                element,
                Event::DeleteWanted {
                    by: by.clone(),
                    force,
                },
            );
        }
        if !waiting.is_empty() {
            self.server.end_waiting(array.id, &waiting);
            self.server
                .apply_event(array.id, Event::ElementsDeleted { by, indices: only });
        }
        Ok(Granted::Done)
    }

    pub(crate) fn rerun(&mut self, id: JobId, only: Option<Indices>) -> Result<Granted, Refusal> {
        let job = self.unfinished_job(id.parent().unwrap_or(id))?;
        self.caller.must_be_privileged()?;
        let runs = |id: &JobId| {
            self.server
                .job(*id)
                .is_some_and(|job| job.life.state.is_under_way())
        };
        let running: Vec<JobId> = self
            .started_jobs(id, only)?
            .into_iter()
            .filter(runs)
            .collect();
        match () {
            () if running.is_empty() => return Err(Refusal::bad_state()),
            () if !job.spec.rerunnable => return Err(Refusal::not_rerunnable()),
            () => {}
        }
        for id in running {
            self.server.apply_event(
                id,
                Event::RerunWanted {
                    by: self.caller.shown(),
                },
            );
        }
        Ok(Granted::Done)
    }

    /// The refusal of a request that needs a running job.
    pub(crate) fn not_running(&self, id: JobId) -> Refusal {
        let array = id.parent().and_then(|array| self.server.job(array));
        let state = array
            .zip(id.index())
            .and_then(|(array, index)| array.subjob_state(index));
        match state {
            Some(SubjobState::Ended(_)) => Refusal::finished_element(),
            _ => Refusal::bad_state(),
        }
    }

    pub(crate) fn signal(
        &mut self,
        id: JobId,
        only: Option<Indices>,
        name: &str,
    ) -> Result<Granted, Refusal> {
        if let Some(turn) = SuspendRequest::named(name) {
            return self.suspend_or_resume(id, only, turn);
        }
        self.owned_job(id.parent().unwrap_or(id))?;
        let signal = signal::parse(name).ok_or_else(Refusal::unknown_signal)?;
        let attempt = |id: JobId| -> Option<(JobId, Attempt)> {
            let run = self
                .server
                .job(id)?
                .life
                .open_run()
                .filter(|run| run.session.is_some() && run.has_script())?;
            Some((id, run.attempt))
        };
        let attempts: Vec<(JobId, Attempt)> = self
            .started_jobs(id, only)?
            .into_iter()
            .filter_map(attempt)
            .collect();
        if attempts.is_empty() {
            return Err(self.not_running(id));
        }
        let attempts: Vec<_> = attempts
            .into_iter()
            .filter(|&(id, _)| node_reports::is_node_up(self.server, id))
            .collect();
        if attempts.is_empty() {
            return Err(Refusal::node_not_responding());
        }
        for &(id, _) in &attempts {
            self.server.apply_event(
                id,
                Event::Signalled {
                    by: self.caller.shown(),
                    signal,
                },
            );
        }
        Ok(Granted::Signal(attempts, signal))
    }
}

/// Maximum number of separate index ranges in one request. Each range uses memory; an array may
/// have twice this number of ranges.
const MAX_SCATTERED: u32 = 100_000;

/// Refuses requests that split an array into too many index ranges.
pub(crate) fn check_ranges(named: Indices, elements: &Elements) -> Result<(), Refusal> {
    let scattered = if named.is_dense() { 1 } else { named.count() };
    if scattered > MAX_SCATTERED
        || elements.waiting().runs().saturating_add(scattered as usize) > 2 * MAX_SCATTERED as usize
    {
        Err(Refusal::too_scattered(MAX_SCATTERED))
    } else {
        Ok(())
    }
}

/// The positions in `set` that are also in `named`, as ranges.
fn ranges_among(named: Indices, set: &Spans) -> Vec<(u32, u32)> {
    if named.is_dense() {
        set.within(named.at(0), named.largest()).collect()
    } else {
        named
            .iter()
            .filter(|&position| set.contains(position))
            .map(|position| (position, position))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_in_both_the_request_and_the_set_are_returned_as_ranges() {
        let mut set = Spans::default();
        set.insert(2, 5);
        set.insert(8, 9);
        let range = |text: &str| text.parse::<Indices>().unwrap();
        assert_eq!(ranges_among(range("3-8"), &set), [(3, 5), (8, 8)]);
        assert_eq!(ranges_among(range("0-9:4"), &set), [(4, 4), (8, 8)]);
        assert_eq!(ranges_among(Indices::one(7), &set), []);
    }

    #[test]
    fn requests_with_too_many_separate_ranges_are_refused() {
        let elements = Elements::new(1_000_000);
        let range = |text: &str| text.parse::<Indices>().unwrap();
        assert!(check_ranges(range("0-999999"), &elements).is_ok());
        assert!(check_ranges(range("0-199998:2"), &elements).is_ok());
        assert!(
            check_ranges(range("0-999999:2"), &elements)
                .unwrap_err()
                .text
                .contains("100000")
        );
    }
}
