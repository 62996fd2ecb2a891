//! State of an array, which changes when its subjobs start and end.

use super::array::{SubjobState, ids};
use super::attempt::{DELETED, Exit, Want};
use super::eligible_time::Accrues;
use super::life::EventContext;
use super::state::JobState;
use super::{Job, Life};
use crate::model::job_id::JobId;
use std::sync::Arc;

impl Job {
    /// Tests whether a subjob of this array has ever started.
    pub fn has_begun(&self) -> bool {
        self.life.began.is_some()
    }

    /// Returns the state of the subjob with this index; None if there is no such subjob.
    pub fn subjob_state(&self, index: u32) -> Option<SubjobState> {
        self.elements
            .as_ref()?
            .subjob_state(self.indices()?.position(index)?)
    }

    /// Creates the job of a subjob that has no record of its own, because it never started or is to
    /// be rerun. None if the array has no subjob with this index.
    pub fn subjob_without_record(&self, index: u32) -> Option<Job> {
        let state = self.subjob_state(index)?;
        // After a rerun of the array, `attempt` is the highest attempt number of its subjobs. This
        // subjob can have started up to that number of times.
        let run_count = self.life.run_count.max(self.life.attempt);
        let mut life = Life {
            comment: None,
            deferral: None,
            began: None,
            highest: 0,
            run_count,
            ..self.life.clone()
        };
        match state {
            SubjobState::Ended(status) => {
                life.state = JobState::Finished;
                life.exit = Some(Exit {
                    status,
                    deleted: true,
                });
                life.obittime = self.life.obittime.or(Some(self.life.mtime));
                life.eligibility
                    .turn(Accrues::Exiting, life.obittime.unwrap_or(life.mtime));
            }
            _ if self.life.state == JobState::Begun => life.state = JobState::Queued,
            _ => {}
        }
        let id = JobId::element(self.id.number, index);
        Some(Job {
            id,
            owner: self.owner.clone(),
            spec: self.spec.clone(),
            life,
            elements: None,
        })
    }

    /// Changes the state of a subjob. When the last subjob has finished, the array finishes. Its
    /// status is [`DELETED`] if the array or all its subjobs were deleted, 0 if all subjobs have
    /// status 0, and otherwise 1.
    pub fn set_subjob_state(&mut self, index: u32, state: SubjobState, moment: EventContext) {
        let position = self.indices().and_then(|indices| indices.position(index));
        if let (Some(position), Some(elements)) =
            (position, self.elements.as_mut().map(Arc::make_mut))
        {
            elements.mark(position, position, state);
            if state == SubjobState::Begun {
                self.life.began.get_or_insert(moment.now);
            }
            self.life.mtime = moment.now;
            self.update_array_state(moment);
        }
    }

    /// Deletes the waiting subjobs from position `first` to position `last`.
    pub fn end_waiting(&mut self, first: u32, last: u32, moment: EventContext) {
        if let Some(elements) = self.elements.as_mut().map(Arc::make_mut) {
            let waiting: Vec<(u32, u32)> = elements.waiting().within(first, last).collect();
            for (first, last) in waiting {
                elements.mark(first, last, SubjobState::Ended(DELETED));
            }
            self.life.mtime = moment.now;
            self.update_array_state(moment);
        }
    }

    /// Returns the started, unfinished subjobs of an array; empty for other jobs.
    pub fn running_subjobs(&self) -> Vec<JobId> {
        let array = self.indices().zip(self.elements.as_ref());
        array.map_or(Vec::new(), |(indices, elements)| {
            ids(self.id, elements.begun(), indices).collect()
        })
    }

    /// Returns the state of this started subjob, in the form that the array stores.
    pub fn state_in_array(&self) -> SubjobState {
        match self.life.exit {
            Some(exit) if self.life.state == JobState::Finished => SubjobState::Ended(exit.status),
            _ => SubjobState::Begun,
        }
    }

    fn update_array_state(&mut self, moment: EventContext) {
        let Some(elements) = self.elements.as_ref() else {
            return;
        };
        if !elements.are_finished() {
            self.update_waiting_state(moment);
        } else if self.life.state == JobState::Finished {
            // The array has already finished.
        } else if matches!(self.life.want, Want::Gone(_)) || elements.are_deleted() {
            self.finish(DELETED, true, moment);
        } else {
            let status = i32::from(!elements.are_successful());
            self.finish(status, false, moment);
        }
        self.accrue(moment);
    }
}
