//! Mail, notices (messages to notification programs) and lines of the log, collected during a
//! transaction and sent or written after the commit.

use crate::model::job::event::Event;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::server::log_lines::LogLine;
use crate::server::mail::Letter;
use crate::server::notices;
use crate::server::notices::Notice;
use crate::server::state::ServerState;
use crate::wire::message::AttemptCounts;
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

    /// Collects lines for the log from now on. The caller must take them with
    /// [`ServerState::take_log`].
    pub fn keep_log(&mut self) {
        self.keeps_log = true;
    }

    /// Whether the log has lines about starts and ends of jobs.
    pub(super) fn logs_jobs(&self) -> bool {
        let setup = &self.setup;
        self.keeps_log && setup.config.server.log_jobs.unwrap_or(setup.shared)
    }

    /// Adds a line to the log, once the current transaction is committed.
    pub(crate) fn log(&mut self, line: Option<LogLine>) {
        if self.keeps_log {
            self.transaction.log.extend(line);
        }
    }

    /// Numbers of attempts since the start of this server.
    pub fn attempts(&self) -> AttemptCounts {
        self.attempts
    }

    /// Takes the lines of committed transactions.
    pub fn take_log(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut self.log)
    }
}
