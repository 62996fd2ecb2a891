//! The end of a watched job: its reason, its grace time, and whether the job runs again.

use super::{JobWatch, WatchedEnd, limits};
use crate::model::job::{AttemptOutcome, How};
use crate::model::time::Span;
use crate::noded::control::Cancel;
use crate::noded::meter::UsageMeter;
use crate::noded::sweep;
use crate::sys::cgroup::Cgroup;
use crate::sys::clock;
use crate::sys::process::{self, ProcessEnd, Reaped};
use crate::wire::message::Payload;
use nix::libc::{SIGHUP, SIGKILL, SIGTERM};
use nix::sys::signalfd::SignalFd;
use std::time::Duration;

/// Maximum time to wait for the exit status of a killed first process.
const STATUS_TIMEOUT: Span = Span::seconds(1);

/// Whether the job runs again after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndKind {
    /// The job does not run again, except after a fault of the node or if files to stage in are
    /// missing.
    Done,
    /// The job runs again.
    Again,
    /// The job was ordered to checkpoint itself (Y17). It runs again unless it succeeds or exceeds
    /// a limit.
    AgainUnlessSuccessful,
}

impl EndKind {
    fn of(cancel: Cancel) -> EndKind {
        if !cancel.again {
            EndKind::Done
        } else if cancel.signal.is_none() {
            EndKind::Again
        } else {
            EndKind::AgainUnlessSuccessful
        }
    }

    /// Whether the job runs again after the outcome `how`. schedd uses the same rule
    /// (`model::job::life`).
    fn runs_again(self, how: &How) -> bool {
        match (how, self) {
            (How::NodeFault(_) | How::AwaitsFiles(_), _) | (_, EndKind::Again) => true,
            // The job may have exceeded its limit before the checkpoint was complete.
            (
                How::Exited(0) | How::Overran { .. } | How::Exceeded { .. },
                EndKind::AgainUnlessSuccessful,
            ) => false,
            (_, EndKind::AgainUnlessSuccessful) => true,
            (_, EndKind::Done) => false,
        }
    }
}

/// The state of a job that is being ended because of an order, a limit or a hang-up.
#[derive(Debug)]
pub(super) struct Ending {
    /// The monotonic time of SIGKILL.
    pub(super) kill_at: Span,
    /// The exceeded limit, if a limit is the reason.
    reason: Option<How>,
}

impl JobWatch<'_> {
    /// Whether the job is over: its script has ended, and if the job is being ended, all other
    /// processes have ended as well or the grace time is over.
    pub(super) fn is_over(&self) -> bool {
        self.status.is_some()
            && (self.has_no_process
                || self
                    .ending
                    .as_ref()
                    .is_none_or(|ending| self.is_due(ending.kill_at)))
    }

    /// Ends the job because of an order. After several orders, the last order decides whether the
    /// job runs again. A forced order also ends a grace time that has already begun. If the script
    /// has ended on its own, an order has no effect.
    pub(super) fn cancel(&mut self, cgroup: Option<&Cgroup>, cancel: Cancel) {
        // The script may have ended while the order was pending.
        self.reap();
        if self.on_its_own {
            return;
        }
        self.end_kind = EndKind::of(cancel);
        if let Some(ending) = &mut self.ending
            && cancel.is_forced()
        {
            ending.kill_at = clock::monotonic();
        }
        self.end_by(cgroup, cancel.signal.unwrap_or(SIGTERM), cancel.grace, None);
    }

    /// Sends SIGTERM and, after `grace`, SIGKILL. Has no effect if the job is ending already.
    pub(super) fn end(&mut self, cgroup: Option<&Cgroup>, grace: Span, reason: Option<How>) {
        self.end_by(cgroup, SIGTERM, grace, reason);
    }

    /// Ends the job without SIGTERM and grace time. If memory is short, a process that runs during
    /// a grace time could use the memory that another process has freed.
    pub(super) fn end_at_once(&mut self, excess: How) {
        self.ending = Some(Ending {
            kill_at: clock::monotonic(),
            reason: Some(excess),
        });
    }

    /// Sends `signal` and, after `grace`, SIGKILL. Resumes a suspended job. Has no effect if the
    /// job is ending already.
    fn end_by(&mut self, cgroup: Option<&Cgroup>, signal: i32, grace: Span, reason: Option<How>) {
        if self.ending.is_some() {
            return;
        }
        self.sent = Some(signal);
        self.ending = Some(Ending {
            kill_at: Span(clock::monotonic().0.saturating_add(grace.0.max(0))),
            reason,
        });
        sweep::signal(cgroup, signal);
        self.end_pause(cgroup);
        if self.terminal.is_some() && matches!(self.launch.payload, Payload::Script(_)) {
            // An interactive shell ignores SIGTERM.
            process::send_signal(self.session.as_raw(), SIGHUP);
        }
    }

    /// Sends SIGHUP, like a terminal that hangs up, and SIGKILL after the grace time. Has no effect
    /// if the job is ending already.
    pub(super) fn hang_up(&mut self, cgroup: Option<&Cgroup>) {
        if self.ending.is_none() {
            self.sent = Some(SIGHUP);
            let kill_at = Span(
                clock::monotonic()
                    .0
                    .saturating_add(self.launch.grace.0.max(0)),
            );
            self.ending = Some(Ending {
                kill_at,
                reason: None,
            });
            sweep::signal(cgroup, SIGHUP);
            self.end_pause(cgroup);
        }
    }

    /// The exit status of the first process, which has just been killed. Waits only briefly,
    /// because a process that cannot be reaped (traced, or stuck in the kernel) must not delay the
    /// end of the other processes. If there is no status within `STATUS_TIMEOUT`, returns a death
    /// by SIGKILL.
    pub(super) fn last_status(&self) -> ProcessEnd {
        let until = Span(clock::monotonic().0 + STATUS_TIMEOUT.0);
        loop {
            match process::reap(Some(self.session)) {
                Reaped::Ended(_, end) => return end,
                Reaped::Living if !self.is_due(until) => clock::sleep(Duration::from_millis(5)),
                _ => return ProcessEnd::Signaled(SIGKILL),
            }
        }
    }

    pub(super) fn finish(
        mut self,
        children: &SignalFd,
        cgroup: Option<Cgroup>,
        mut meter: UsageMeter,
    ) -> WatchedEnd {
        let elapsed = self.elapsed();
        // Read the usage before `sweep::kill_all`, which removes the cgroup.
        meter.total(cgroup.as_ref(), elapsed);
        self.note_out_of_memory(cgroup.as_ref(), &mut meter);
        sweep::kill_all(cgroup.as_ref(), children);
        let used = meter.total(None, elapsed);
        let how = self.how();
        let sent = match how {
            How::Signaled(number) if self.warned == Some(number) => self.warned,
            _ => self.sent,
        };
        let runs_again = self.end_kind.runs_again(&how);
        let on_its_own = self.on_its_own && matches!(how, How::Exited(_) | How::Signaled(_));
        let outcome = AttemptOutcome {
            how,
            sent,
            used,
            notes: self.notes,
            unfit: None,
            on_its_own,
        };
        WatchedEnd {
            outcome,
            streams: self.streams,
            runs_again,
        }
    }

    /// If the kernel has killed a process of the job for lack of memory, records that as the reason
    /// of the end, even if the script has exited with status 0. Has no effect if the job is being
    /// ended for another reason.
    fn note_out_of_memory(&mut self, cgroup: Option<&Cgroup>, meter: &mut UsageMeter) {
        let exceeded = cgroup.and_then(|group| limits::out_of_memory(self.launch, group));
        if let Some(exceeded) = exceeded
            && self.ending.is_none()
        {
            if let How::Exceeded { used, .. } = exceeded {
                meter.note_peak(used.unsigned_abs());
            }
            self.write_reason(&exceeded);
            self.end_at_once(exceeded);
        }
    }

    fn how(&self) -> How {
        let reason = self
            .ending
            .as_ref()
            .and_then(|ending| ending.reason.clone());
        match (&self.fault, reason, self.status) {
            (Some(fault), ..) => fault.clone().into_outcome(self.launch),
            (None, Some(reason), _) => reason,
            (None, None, Some(ProcessEnd::Exited(code))) => How::Exited(code),
            (None, None, Some(ProcessEnd::Signaled(number))) => How::Signaled(number),
            (None, None, _) => How::Signaled(SIGKILL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_and_the_outcome_decide_whether_the_job_runs_again() {
        let cancel = |signal, again| {
            EndKind::of(Cancel {
                grace: Span(0),
                signal,
                again,
            })
        };
        let over = How::Overran {
            used: Span(2),
            limit: Span(1),
        };
        let outcomes = [
            How::Exited(0),
            How::Exited(3),
            How::Signaled(15),
            over,
            How::NodeFault("disk".into()),
        ];
        let again = |end_kind: EndKind| outcomes.each_ref().map(|how| end_kind.runs_again(how));
        assert_eq!(
            again(cancel(None, false)),
            [false, false, false, false, true]
        );
        assert_eq!(
            again(cancel(Some(10), false)),
            again(EndKind::Done),
            "the job is deleted with a signal"
        );
        assert_eq!(again(cancel(None, true)), [true; 5]);
        assert_eq!(
            again(cancel(Some(10), true)),
            [false, true, true, false, true]
        );
    }
}
