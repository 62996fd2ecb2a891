//! Arrays and their subjobs in the server. Events of an array affect its subjobs, and the reverse.

use crate::model::job::Job;
use crate::model::job::array::Rewrite;
use crate::model::job::event::Event;
use crate::model::job::life::EventContext;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::server::mail;
use crate::server::state::ServerState;
use crate::server::state::Touched;
use crate::server::state::touch;
use std::sync::Arc;

impl ServerState {
    /// Applies an event to a job and, for an array, to all running and requeued subjobs: they have
    /// holds of their own.
    pub fn happen_to_all(&mut self, id: JobId, event: &Event) {
        self.happen(id, event.clone());
        self.happen_to_begun(id, event);
    }

    /// Applies an event to the started, unfinished subjobs of an array.
    pub fn happen_to_begun(&mut self, id: JobId, event: &Event) {
        self.begun(id)
            .into_iter()
            .for_each(|element| self.happen(element, event.clone()));
    }

    /// The started, unfinished subjobs of an array; empty for other jobs.
    fn begun(&self, id: JobId) -> Vec<JobId> {
        self.jobs
            .get(&id)
            .map_or(Vec::new(), |job| job.running_subjobs())
    }

    /// Ends subjobs, by position, that have never started.
    pub fn end_waiting(&mut self, id: JobId, positions: &[(u32, u32)]) {
        self.change_array(id, |array, moment| {
            positions
                .iter()
                .for_each(|&(first, last)| array.end_waiting(first, last, moment));
        });
    }

    /// Changes subjob states in an array. This may start or finish the array.
    fn change_array(&mut self, id: JobId, change: impl FnOnce(&mut Job, EventContext)) {
        let moment = self.moment();
        let Some(array) = touch(&mut self.jobs, &mut self.tick, id, false) else {
            return;
        };
        let (was, had_begun) = (array.life.state, array.has_begun());
        change(array, moment);
        self.dependencies.observe(was, array);
        if array.has_begun() && !had_begun {
            self.dependencies.note_began(array);
        }
        self.tick
            .mails
            .extend(mail::letter(&self.setup, was, array, None));
        self.note_turn(id, was, None);
        self.reschedule(id);
    }

    /// Restores a finished array from the history.
    pub fn take_back(&mut self, array: Job) {
        if !self.jobs.contains_key(&array.id) {
            self.tick.jobs.insert(
                array.id,
                Touched {
                    before: None,
                    whole: false,
                },
            );
            self.jobs.insert(array.id, Arc::new(array));
        }
    }

    /// Creates the record of a subjob that starts.
    pub(crate) fn begin_element(&mut self, id: JobId) {
        if self.jobs.contains_key(&id) {
            return;
        }
        let array = id.parent().and_then(|array| self.jobs.get(&array));
        let element = array
            .zip(id.index())
            .and_then(|(array, index)| array.unrecorded(index));
        if let Some(mut element) =
            element.filter(|element| element.life.state != JobState::Finished)
        {
            // The bars of the array do not apply: an operator starts this subjob.
            (element.life.bars, element.life.awaits) = Default::default();
            // The stored record of an earlier run may have an outdated spec.
            let whole = element.life.attempt > 0;
            self.tick.jobs.entry(id).or_insert(Touched {
                before: None,
                whole,
            });
            self.jobs.insert(id, Arc::new(element));
        }
    }

    /// Updates the state of a subjob in its array.
    pub(crate) fn update_array_of(&mut self, id: JobId) {
        let (Some(parent), Some(index), Some(job)) = (id.parent(), id.index(), self.jobs.get(&id))
        else {
            return;
        };
        let state = job.state_in_array();
        if self
            .jobs
            .get(&parent)
            .is_none_or(|array| array.subjob_state(index) == Some(state))
        {
            return;
        }
        let attempt = job.life.attempt;
        self.change_array(parent, |array, moment| {
            array.life.highest = array.life.highest.max(attempt);
            array.set_subjob_state(index, state, moment);
        });
    }

    /// Makes the started subjobs of an array keep their spec when the array is altered.
    pub fn keep_spec_of_begun(&mut self, id: JobId) {
        for element in self.begun(id) {
            touch(&mut self.jobs, &mut self.tick, element, true);
        }
    }
}

/// The subjob states of an array that are not in the spool yet.
pub(crate) fn unwritten(job: &mut Arc<Job>) -> Option<Rewrite> {
    job.elements
        .as_ref()
        .filter(|elements| elements.has_unwritten())?;
    Arc::make_mut(Arc::make_mut(job).elements.as_mut()?).take_unwritten()
}
