//! Mail and notices (messages to notification programs), collected during a transaction and sent
//! after the commit.

use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::server::mail::Letter;
use crate::server::notices;
use crate::server::notices::Notice;
use crate::server::state::ServerState;
use std::sync::Arc;

impl ServerState {
    /// Takes the mail of committed transactions.
    pub fn take_mails(&mut self) -> Vec<Letter> {
        std::mem::take(&mut self.mails)
    }

    /// Adds the notices about a job's change; `was` is the job's state before the change.
    pub(crate) fn add_notices(&mut self, id: JobId, was: JobState, event: Option<&Event>) {
        let Some(job) = self.jobs.get(&id).cloned() else {
            return;
        };
        let facts = || {
            self.transaction
                .facts
                .clone()
                .unwrap_or_else(|| Arc::new(self.facts_now()))
        };
        let notices = notices::notices(&self.setup, facts, was, &job, event);
        self.transaction.facts = notices
            .last()
            .and_then(Notice::facts)
            .or(self.transaction.facts.take());
        self.transaction.notices.extend(notices);
    }

    /// Takes the notices of committed transactions.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
}
