//! Suspending and resuming a watched job. Its time limits do not run meanwhile.

use super::{JobWatch, Pause};
use crate::model::time::Span;
use crate::noded::folder::AttemptName;
use crate::noded::pause;
use crate::noded::spawner_messages::{SpawnerMessage, send_message};
use crate::sys::cgroup::Cgroup;
use crate::sys::clock;

impl JobWatch<'_> {
    /// Suspends all its processes. A repetition reports the state again.
    pub(super) fn stop(&mut self, cgroup: Option<&Cgroup>) {
        if self.ending.is_some() || self.status.is_some() {
            return;
        }
        if self.pause.as_ref().is_some_and(|pause| pause.is_stopped) {
            self.pause_unsent = true;
        }
        self.pause
            .get_or_insert_with(|| Pause::new(clock::monotonic()));
        self.check_suspension(cgroup);
    }

    /// Resumes all its processes, bound to these processors if any are given.
    pub(super) fn resume(&mut self, cgroup: Option<&Cgroup>, cpus: Vec<u16>) {
        if !cpus.is_empty() && cpus != self.bound {
            pause::bind(cgroup, &cpus);
            self.bound = cpus;
        }
        self.end_pause(cgroup);
        self.pause_unsent = true;
        self.send_stopped();
    }

    /// Stops processes that are not stopped, if a check is due.
    pub(super) fn check_suspension(&mut self, cgroup: Option<&Cgroup>) {
        let now = clock::monotonic();
        if let Some(pause) = self.pause.as_mut().filter(|pause| pause.next <= now)
            && pause.check(cgroup, now)
        {
            self.built.note_stopped(true);
            self.pause_unsent = true;
        }
        self.send_stopped();
    }

    /// Ends the suspension, for any reason.
    pub(super) fn end_pause(&mut self, cgroup: Option<&Cgroup>) {
        let Some(pause) = self.pause.take() else {
            return;
        };
        let length = Span(clock::monotonic().0 - pause.since.0);
        self.suspended_for = Span(self.suspended_for.0.saturating_add(length.0));
        self.guard.skip_suspension(length);
        self.built.note_stopped(false);
        pause.end(cgroup);
    }

    fn send_stopped(&mut self) {
        if self.pause_unsent {
            let is_stopped = self.pause.as_ref().is_some_and(|pause| pause.is_stopped);
            let session = self.session.as_raw().unsigned_abs();
            let message =
                SpawnerMessage::Stopped(AttemptName::of(self.launch), session, is_stopped);
            self.pause_unsent = !send_message(self.noded, &message, None, false);
        }
    }
}
