//! The last action of each user, for `lanai undo`.

use crate::model::job::Owner;
use crate::model::job::event::Event;
use crate::model::job::undo::UndoKind;
use crate::model::job::undo::UserAction;
use crate::model::job_id::JobId;
use crate::server::state::ServerState;
use crate::server::undo_log::UndoLog;
use std::sync::Arc;

impl ServerState {
    /// Loads the stored actions.
    pub fn load_user_actions(&mut self, actions: Vec<UserAction>) {
        self.undo_log = UndoLog::new(actions);
    }

    /// Sets the connection of the requests that follow. Requests of the same kind on one connection
    /// are one action.
    pub fn set_connection(&mut self, connection: u64) {
        self.undo_log.set_connection(connection);
    }

    /// Starts to record a request that can be reverted.
    pub(crate) fn start_recording(&mut self, kind: UndoKind) {
        self.undo_log.start(kind);
    }

    /// Ends the recording of a request of this user.
    pub(crate) fn finish_recording(&mut self, owner: &Owner) {
        let jobs = &self.jobs;
        let current = |id: JobId| jobs.get(&id).cloned();
        let update = self.undo_log.finish(owner, self.now, current);
        if let Some(update) = update {
            self.add_update(update);
        }
    }

    /// Records a job before a change, if the request can be reverted.
    pub(super) fn record_change(&mut self, id: JobId, event: Option<&Event>) {
        if self.undo_log.is_recording()
            && let Some(job) = self.jobs.get(&id)
        {
            self.undo_log.note(job, &self.dependencies, event);
        }
    }

    /// The last action of a user, if it can be reverted now.
    pub(crate) fn last_action(&self, owner: &Owner) -> Option<Arc<UserAction>> {
        self.undo_log.last(owner, self.now)
    }

    /// Removes the action of a user.
    pub(crate) fn forget_action(&mut self, uid: u32) {
        let update = self.undo_log.forget(uid);
        self.add_update(update);
    }

    /// Removes the actions that can no longer be reverted.
    pub fn forget_expired_actions(&mut self) {
        for update in self.undo_log.forget_expired(self.now) {
            self.add_update(update);
        }
    }
}
