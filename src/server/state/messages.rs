//! Mail and notices: collected during a tick, sent once it is on disk.

use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::server::mail::Letter;
use crate::server::notices;
use crate::server::notices::Notice;
use crate::server::state::ServerState;
use std::sync::Arc;

impl ServerState {
    /// Takes the mail of ticks that are on disk.
    pub fn take_mails(&mut self) -> Vec<Letter> {
        std::mem::take(&mut self.mails)
    }

    /// Adds the notices about a job; `was` is its state before.
    pub(crate) fn note_turn(&mut self, id: JobId, was: JobState, event: Option<&Event>) {
        let Some(job) = self.jobs.get(&id).cloned() else {
            return;
        };
        let facts = || {
            self.tick
                .facts
                .clone()
                .unwrap_or_else(|| Arc::new(self.facts_now()))
        };
        let notices = notices::notices(&self.setup, facts, was, &job, event);
        self.tick.facts = notices
            .last()
            .and_then(Notice::facts)
            .or(self.tick.facts.take());
        self.tick.notices.extend(notices);
    }

    /// Takes the notices of ticks that are on disk.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
}
