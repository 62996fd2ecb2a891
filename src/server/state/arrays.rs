//! Arrays and their elements in the server: what happens to the one and what that means for the
//! others.

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
    /// Takes note of what happened to a job, and if it is an array to all its elements that have
    /// begun and are not over: they have holds and wishes of their own.
    pub fn happen_to_all(&mut self, id: JobId, event: &Event) {
        self.happen(id, event.clone());
        self.happen_to_begun(id, event);
    }

    /// Takes note of what happened to the elements of an array that have begun and are not over.
    pub fn happen_to_begun(&mut self, id: JobId, event: &Event) {
        self.begun(id)
            .into_iter()
            .for_each(|element| self.happen(element, event.clone()));
    }

    /// The elements of an array that have begun and are not over; none of what is no array.
    fn begun(&self, id: JobId) -> Vec<JobId> {
        self.jobs
            .get(&id)
            .map_or(Vec::new(), |job| job.elements_begun())
    }

    /// Elements of an array that have never started, by position, never will.
    pub fn end_waiting(&mut self, id: JobId, positions: &[(u32, u32)]) {
        self.change_array(id, |array, moment| {
            positions
                .iter()
                .for_each(|&(first, last)| array.end_waiting(first, last, moment));
        });
    }

    /// Changes how elements of an array stand, with which it may begin or end.
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

    /// An array that is over, out of the history again.
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

    /// An element that starts has a record of its own from then on.
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
            // What bars the array is its own; an operator has started this one all the same.
            (element.life.bars, element.life.awaits) = Default::default();
            // The record of an earlier run may say what was asked for then.
            let whole = element.life.attempt > 0;
            self.tick.jobs.entry(id).or_insert(Touched {
                before: None,
                whole,
            });
            self.jobs.insert(id, Arc::new(element));
        }
    }

    /// Lets an array know how its element stands.
    pub(crate) fn tell_array(&mut self, id: JobId) {
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
            array.element_stands(index, state, moment);
        });
    }

    /// Elements that have begun keep what was asked for, whatever becomes of their array.
    pub fn keep_spec_of_begun(&mut self, id: JobId) {
        for element in self.begun(id) {
            touch(&mut self.jobs, &mut self.tick, element, true);
        }
    }
}

/// How the elements of an array stand, as far as the spool has it otherwise.
pub(crate) fn unwritten(job: &mut Arc<Job>) -> Option<Rewrite> {
    job.elements
        .as_ref()
        .filter(|elements| elements.has_unwritten())?;
    Arc::make_mut(Arc::make_mut(job).elements.as_mut()?).take_unwritten()
}
