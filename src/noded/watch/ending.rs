//! The end of a watched job: who ordered it, its grace time, and whether its output is final.

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

/// Maximum wait for the status of a killed first process.
const LAST_WAIT: Span = Span::seconds(1);

/// The effect of the end on the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndKind {
    /// The job has ended.
    Done,
    /// The job runs again.
    Again,
    /// The job runs again unless it ends successfully: it was ordered to checkpoint itself (Y17).
    AgainUnlessWell,
}

impl EndKind {
    fn of(cancel: Cancel) -> EndKind {
        if !cancel.again {
            EndKind::Done
        } else if cancel.signal.is_none() {
            EndKind::Again
        } else {
            EndKind::AgainUnlessWell
        }
    }

    /// Whether the job runs again, so that its output is not final. schedd uses the same rule
    /// (`model::life`).
    fn runs_again(self, how: &How) -> bool {
        match (how, self) {
            (How::NodeFault(_) | How::AwaitsFiles(_), _) | (_, EndKind::Again) => true,
            // Its end may have been due before it was checkpointed.
            (
                How::Exited(0) | How::Overran { .. } | How::Exceeded { .. },
                EndKind::AgainUnlessWell,
            ) => false,
            (_, EndKind::AgainUnlessWell) => true,
            (_, EndKind::Done) => false,
        }
    }
}

/// The state of a job that was ordered to end.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) kill_at: Span,
    overran: Option<How>,
}

impl JobWatch<'_> {
    /// Whether its script has ended. If it was ordered to end, its other processes have the rest of
    /// the grace time.
    pub(super) fn over(&self) -> bool {
        self.status.is_some()
            && (self.alone
                || self
                    .ending
                    .as_ref()
                    .is_none_or(|ending| self.due(ending.kill_at)))
    }

    /// Ends the job by an order. The last of several orders decides whether the job runs again.
    ///
    /// An order after the end of the script has no effect: the end and the order may be pending
    /// together, so the script's status is collected first.
    pub(super) fn cancel(&mut self, cgroup: Option<&Cgroup>, cancel: Cancel) {
        self.reap();
        if self.on_its_own {
            return;
        }
        self.fate = EndKind::of(cancel);
        if let Some(ending) = &mut self.ending
            && cancel.is_forced()
        {
            ending.kill_at = clock::monotonic();
        }
        self.end_by(cgroup, cancel.signal.unwrap_or(SIGTERM), cancel.grace, None);
    }

    /// Sends SIGTERM now and SIGKILL after `grace`. A repetition has no effect.
    pub(super) fn end(&mut self, cgroup: Option<&Cgroup>, grace: Span, overran: Option<How>) {
        self.end_by(cgroup, SIGTERM, grace, overran);
    }

    /// Sends SIGKILL now, without SIGTERM: otherwise, when one process ends, the next would use its
    /// memory.
    pub(super) fn end_at_once(&mut self, excess: How) {
        self.ending = Some(Ending {
            kill_at: clock::monotonic(),
            overran: Some(excess),
        });
    }

    /// Sends this signal now and SIGKILL after `grace`.
    fn end_by(&mut self, cgroup: Option<&Cgroup>, signal: i32, grace: Span, overran: Option<How>) {
        if self.ending.is_some() {
            return;
        }
        self.sent = Some(signal);
        self.ending = Some(Ending {
            kill_at: Span(clock::monotonic().0.saturating_add(grace.0.max(0))),
            overran,
        });
        sweep::signal(cgroup, signal);
        self.end_pause(cgroup);
        if self.terminal.is_some() && matches!(self.launch.payload, Payload::Script(_)) {
            // An interactive shell ignores SIGTERM.
            process::send_signal(self.session.as_raw(), SIGHUP);
        }
    }

    /// Sends SIGHUP now, like a terminal that hangs up, and SIGKILL after the grace time.
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
                overran: None,
            });
            sweep::signal(cgroup, SIGHUP);
            self.end_pause(cgroup);
        }
    }

    /// The status of the first process, which has just been killed. A process that cannot be reaped
    /// (traced, or stuck in the kernel) must not delay the end of the others.
    pub(super) fn last_status(&self) -> ProcessEnd {
        let until = Span(clock::monotonic().0 + LAST_WAIT.0);
        loop {
            match process::reap(Some(self.session)) {
                Reaped::Ended(_, end) => return end,
                Reaped::Living if !self.due(until) => clock::sleep(Duration::from_millis(5)),
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
        // Read before the sweep, which removes the cgroup.
        meter.total(cgroup.as_ref(), elapsed);
        self.note_denial(cgroup.as_ref(), &mut meter);
        sweep::end(cgroup.as_ref(), children);
        let used = meter.total(None, elapsed);
        let how = self.how();
        let sent = match how {
            How::Signaled(number) if self.warned == Some(number) => self.warned,
            _ => self.sent,
        };
        let runs_again = self.fate.runs_again(&how);
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

    /// Records an out-of-memory kill by the kernel as the reason of the end, whatever the script's
    /// status is.
    fn note_denial(&mut self, cgroup: Option<&Cgroup>, meter: &mut UsageMeter) {
        let denied = cgroup.and_then(|group| limits::denied(self.launch, group));
        if let Some(denied) = denied
            && self.ending.is_none()
        {
            if let How::Exceeded { used, .. } = denied {
                meter.note_peak(used.unsigned_abs());
            }
            self.tell_owner(&denied);
            self.end_at_once(denied);
        }
    }

    fn how(&self) -> How {
        let overran = self
            .ending
            .as_ref()
            .and_then(|ending| ending.overran.clone());
        match (&self.fault, overran, self.status) {
            (Some(fault), ..) => fault.clone().end(self.launch),
            (None, Some(overran), _) => overran,
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
    fn what_an_end_means_goes_by_the_order_and_then_by_how_it_ended() {
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
        let hows = [
            How::Exited(0),
            How::Exited(3),
            How::Signaled(15),
            over,
            How::NodeFault("disk".into()),
        ];
        let again = |fate: EndKind| hows.each_ref().map(|how| fate.runs_again(how));
        assert_eq!(
            again(cancel(None, false)),
            [false, false, false, false, true]
        );
        assert_eq!(
            again(cancel(Some(10), false)),
            again(EndKind::Done),
            "deleted"
        );
        assert_eq!(again(cancel(None, true)), [true; 5]);
        assert_eq!(
            again(cancel(Some(10), true)),
            [false, true, true, false, true]
        );
    }
}
