//! Arrays and their elements, as schedd's ledger keeps them: an element becomes a job when it
//! starts.

use super::World;
use crate::model::job::Job;
use crate::model::job::dependency::Progress;
use crate::model::job::event::Event;
use crate::model::job::life::Moment;
use crate::model::job::state::State;
use crate::model::job_id::JobId;

impl World {
    /// Takes note of what happened to a job, and if it is an array to its elements that have begun
    /// and are not over.
    pub(super) fn happen_to_all(&mut self, id: JobId, event: &Event) {
        self.happen(id, event.clone());
        self.begun(id)
            .into_iter()
            .for_each(|element| self.happen(element, event.clone()));
    }

    /// The elements of an array that have begun and are not over; none of what is no array.
    pub(super) fn begun(&self, id: JobId) -> Vec<JobId> {
        self.jobs
            .get(&id)
            .map_or(Vec::new(), |job| job.elements_begun())
    }

    pub(super) fn change_array(&mut self, id: JobId, change: impl FnOnce(&mut Job, Moment)) {
        let moment = self.moment();
        let Some(array) = self.jobs.get_mut(&id) else {
            return;
        };
        let (was, had_begun) = (array.life.state, array.has_begun());
        change(array, moment);
        self.ties.observe(was, array);
        if array.has_begun() && !had_begun {
            self.ties.note_began(array);
        }
        self.view(id);
    }

    pub(super) fn begin_element(&mut self, id: JobId) {
        if self
            .jobs
            .get(&id)
            .is_some_and(|job| !matches!(Progress::of(job), Progress::Ended { .. }))
        {
            return;
        }
        let array = id.parent().and_then(|array| self.jobs.get(&array));
        let element = array
            .zip(id.index())
            .and_then(|(array, index)| array.unrecorded(index));
        if let Some(mut element) = element.filter(|element| element.life.state != State::Finished) {
            (element.life.bars, element.life.awaits) = Default::default();
            self.jobs.insert(id, element);
        }
    }

    pub(super) fn tell_array(&mut self, id: JobId) {
        let (Some(parent), Some(index), Some(job)) = (id.parent(), id.index(), self.jobs.get(&id))
        else {
            return;
        };
        let standing = job.standing_in_array();
        if self
            .jobs
            .get(&parent)
            .is_none_or(|array| array.standing(index) == Some(standing))
        {
            return;
        }
        let attempt = job.life.attempt;
        self.change_array(parent, |array, moment| {
            array.life.highest = array.life.highest.max(attempt);
            array.element_stands(index, standing, moment);
        });
    }
}
