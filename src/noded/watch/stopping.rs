//! Suspending and resuming a watched job. The job's time limits do not run while it is suspended.

use super::{JobWatch, Pause};
use crate::model::time::Span;
use crate::noded::folder::AttemptName;
use crate::noded::pause;
use crate::noded::spawner_messages::{SpawnerMessage, send_message};
use crate::sys::cgroup::Cgroup;
use crate::sys::clock;

impl JobWatch<'_> {
    /// Suspends all processes of the job. If they are suspended already, notifies noded again. Has
    /// no effect if the job has ended or is being ended.
    pub(super) fn suspend(&mut self, cgroup: Option<&Cgroup>) {
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

    /// Resumes all processes of the job. If `cpus` is not empty, binds them to these processors.
    /// Notifies noded.
    pub(super) fn resume(&mut self, cgroup: Option<&Cgroup>, cpus: Vec<u16>) {
        if !cpus.is_empty() && cpus != self.bound_cpus {
            pause::bind(cgroup, &cpus);
            self.bound_cpus = cpus;
        }
        self.end_pause(cgroup);
        self.pause_unsent = true;
        self.send_stopped();
    }

    /// If the job is suspended and a check is due, stops processes that are not stopped. Notifies
    /// noded of a suspension or resumption of which it has not been notified yet.
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

    /// Ends the suspension, if the job is suspended.
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
