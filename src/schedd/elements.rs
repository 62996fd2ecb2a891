//! What clients ask of the elements of an array, and of running jobs one by one.

use super::requests::{Desk, Granted};
use crate::model::array::{self, Elements, Indices, Standing};
use crate::model::event::Event;
use crate::model::job::{Attempt, Job, JobId};
use crate::model::refusal::Refusal;
use crate::model::signal;
use crate::model::state::State;
use std::sync::Arc;

impl Desk<'_> {
    /// The elements of a new array.
    pub(super) fn elements(&self, indices: Indices) -> Result<Arc<Elements>, Refusal> {
        match self.ledger.setup.config.server.max_array_size {
            Some(most) if indices.count() > most => Err(Refusal::array_too_large()),
            _ => Ok(Arc::new(Elements::new(indices.count()))),
        }
    }

    /// The jobs that an id stands for when something is done to running jobs: itself, or the elements
    /// of an array that have begun, all or these alone.
    fn begun(&self, id: JobId, only: Option<Indices>) -> Result<Vec<JobId>, Refusal> {
        if let Some(index) = id.index() {
            let standing = self.standing(id, index)?;
            return if standing == Standing::Begun { Ok(vec![id]) } else { Err(not_running(standing)) };
        }
        let job = self.live(id)?;
        let (Some(indices), Some(elements)) = (job.indices(), &job.elements) else { return Ok(vec![id]) };
        let wanted = |id: &JobId| only.is_none_or(|only| id.index().is_some_and(|i| only.position(i).is_some()));
        let begun: Vec<JobId> = array::ids(id, elements.begun(), indices).filter(wanted).collect();
        if begun.is_empty() { Err(Refusal::bad_state()) } else { Ok(begun) }
    }

    /// How an element stands, of an array that is not over.
    fn standing(&self, id: JobId, index: u32) -> Result<Standing, Refusal> {
        let array = self.live(id.parent().unwrap_or(id))?;
        let position = array.indices().and_then(|indices| indices.position(index));
        let standing = position.zip(array.elements.as_ref()).and_then(|(at, elements)| elements.standing(at));
        standing.ok_or_else(Refusal::unknown_job)
    }

    /// Deletes elements: those that are over already are passed by, if others are left.
    pub(super) fn delete_elements(&mut self, id: JobId, only: Indices, force: bool) -> Result<Granted, Refusal> {
        let array = self.owned(id.parent().unwrap_or(id))?;
        let (Some(indices), Some(elements)) = (array.indices(), &array.elements) else {
            return Err(Refusal::unknown_job());
        };
        let named: Vec<(u32, u32)> = positions(only, indices);
        if named.is_empty() {
            return Err(Refusal::unknown_job());
        }
        let within = |set: &crate::model::spans::Spans| {
            named.iter().flat_map(|&(first, last)| set.within(first, last)).collect::<Vec<_>>()
        };
        let (waiting, begun) = (within(elements.waiting()), within(elements.begun()));
        if waiting.is_empty() && begun.is_empty() {
            return Err(Refusal::finished_element());
        }
        let by = self.caller.shown();
        for position in begun.into_iter().flat_map(|(first, last)| first..=last) {
            let element = JobId::element(array.id.number, indices.at(position));
            self.ledger.happen(element, Event::DeleteWanted { by: by.clone(), force });
        }
        if !waiting.is_empty() {
            self.ledger.end_waiting(array.id, &waiting);
            self.ledger.happen(array.id, Event::ElementsDeleted { by, indices: only });
        }
        Ok(Granted::Done)
    }

    pub(super) fn rerun(&mut self, id: JobId, only: Option<Indices>) -> Result<Granted, Refusal> {
        let job = self.live(id.parent().unwrap_or(id))?;
        self.caller.must_be_privileged()?;
        let begun = self.begun(id, only)?;
        let runs = |id: &JobId| self.ledger.job(*id).is_some_and(|job| job.life.state == State::Running);
        let running: Vec<JobId> = begun.into_iter().filter(runs).collect();
        match () {
            () if running.is_empty() => return Err(Refusal::bad_state()),
            () if !job.spec.rerunnable => return Err(Refusal::not_rerunnable()),
            () => {}
        }
        for id in running {
            self.ledger.happen(id, Event::RerunWanted { by: self.caller.shown() });
        }
        Ok(Granted::Done)
    }

    /// Lets those elements of an array that failed wait again; an array that is over comes back for
    /// that, out of the history.
    pub(super) fn rerun_failed(&mut self, id: JobId) -> Result<Granted, Refusal> {
        let array = match self.ledger.job(id) {
            Some(job) => Job::clone(job),
            None => self.past(id)?.ok_or_else(Refusal::unknown_job)?,
        };
        self.caller.must_own(&array)?;
        let elements = array.elements.as_ref().ok_or_else(Refusal::not_an_array)?;
        if elements.ended().keys().all(|&status| status == 0) {
            return Err(Refusal::bad_state());
        }
        let highest = self.spool.highest_attempt(id).map_err(Refusal::spool)?;
        self.ledger.take_back(array);
        self.ledger.happen(id, Event::FailedRerun { by: self.caller.shown(), highest });
        Ok(Granted::Done)
    }

    pub(super) fn signal(&mut self, id: JobId, only: Option<Indices>, name: &str) -> Result<Granted, Refusal> {
        self.owned(id.parent().unwrap_or(id))?;
        let signal = signal::parse(name).ok_or_else(Refusal::unknown_signal)?;
        let attempt = |id: JobId| -> Option<(JobId, Attempt)> {
            let run = self.ledger.job(id)?.life.open_run().filter(|run| run.session.is_some())?;
            Some((id, run.attempt))
        };
        let attempts: Vec<(JobId, Attempt)> = self.begun(id, only)?.into_iter().filter_map(attempt).collect();
        if attempts.is_empty() {
            return Err(Refusal::bad_state());
        }
        for &(id, _) in &attempts {
            self.ledger.happen(id, Event::Signalled { by: self.caller.shown(), signal });
        }
        Ok(Granted::Signal(attempts, signal))
    }
}

fn not_running(standing: Standing) -> Refusal {
    match standing {
        Standing::Ended(_) => Refusal::finished_element(),
        Standing::Waiting | Standing::Begun => Refusal::bad_state(),
    }
}

/// The positions of `only` among `indices`, as runs.
fn positions(only: Indices, indices: Indices) -> Vec<(u32, u32)> {
    let all: Vec<u32> =
        only.iter().take_while(|&i| i <= indices.largest()).filter_map(|i| indices.position(i)).collect();
    let runs = all.chunk_by(|a, b| a + 1 == *b);
    runs.filter_map(|run| Some((*run.first()?, *run.last()?))).collect()
}
