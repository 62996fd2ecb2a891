//! Arrays and their subjobs in the server. Events of an array affect its subjobs; events of a
//! subjob affect its array.

use crate::model::job::Job;
use crate::model::job::array::Rewrite;
use crate::model::job::event::Event;
use crate::model::job::life::EventContext;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::server::mail;
use crate::server::state::ChangedJob;
use crate::server::state::ServerState;
use crate::server::state::touch;
use std::sync::Arc;

impl ServerState {
    /// Applies an event to a job and, for an array, also to all started, unfinished subjobs, which
    /// are stored as jobs of their own.
    pub fn apply_event_to_all(&mut self, id: JobId, event: &Event) {
        self.apply_event(id, event.clone());
        self.apply_event_to_started(id, event);
    }

    /// Applies an event to the started, unfinished subjobs of an array.
    pub fn apply_event_to_started(&mut self, id: JobId, event: &Event) {
        self.begun(id)
            .into_iter()
            .for_each(|element| self.apply_event(element, event.clone()));
    }

    /// The started, unfinished subjobs of an array; empty for other jobs.
    fn begun(&self, id: JobId) -> Vec<JobId> {
        self.jobs
            .get(&id)
            .map_or(Vec::new(), |job| job.running_subjobs())
    }

    /// Ends waiting subjobs. `positions` are ranges in the array's order of subjobs.
    pub fn end_waiting(&mut self, id: JobId, positions: &[(u32, u32)]) {
        self.record_change(id, None);
        self.change_array(id, |array, moment| {
            positions
                .iter()
                .for_each(|&(first, last)| array.end_waiting(first, last, moment));
        });
    }

    /// Changes subjob states in an array. This may start or finish the array.
    fn change_array(&mut self, id: JobId, change: impl FnOnce(&mut Job, EventContext)) {
        let moment = self.moment();
        let Some(array) = touch(&mut self.jobs, &mut self.transaction, id, false) else {
            return;
        };
        let (was, had_begun) = (array.life.state, array.has_begun());
        change(array, moment);
        self.dependencies.observe(was, array);
        if array.has_begun() && !had_begun {
            self.dependencies.note_began(array);
        }
        self.transaction
            .mails
            .extend(mail::letter(&self.setup, was, array, None));
        self.add_notices(id, was, None);
        self.refresh_job(id);
    }

    /// Adds a finished job or array from the history to the jobs in memory.
    pub fn restore_from_history(&mut self, job: Job) {
        if !self.jobs.contains_key(&job.id) {
            self.transaction.jobs.insert(
                job.id,
                ChangedJob {
                    before: None,
                    whole: false,
                },
            );
            self.jobs.insert(job.id, Arc::new(job));
        }
    }

    /// Creates the record of a subjob that starts, or that `qrun` is to start.
    pub(crate) fn create_subjob_record(&mut self, id: JobId) {
        if self.jobs.contains_key(&id) {
            return;
        }
        let array = id.parent().and_then(|array| self.jobs.get(&array));
        let element = array
            .zip(id.index())
            .and_then(|(array, index)| array.subjob_without_record(index));
        if let Some(mut element) =
            element.filter(|element| element.life.state != JobState::Finished)
        {
            // The dependencies of the array do not apply to a subjob that is started.
            (element.life.bars, element.life.awaits) = Default::default();
            // After an earlier run, the stored record may have an outdated spec, so it is rewritten
            // as a whole.
            let whole = element.life.attempt > 0;
            self.transaction.jobs.entry(id).or_insert(ChangedJob {
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

    /// Stores the specs of the started, unfinished subjobs, so that altering the array does not
    /// change them.
    pub fn store_specs_of_started(&mut self, id: JobId) {
        for element in self.begun(id) {
            touch(&mut self.jobs, &mut self.transaction, element, true);
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
