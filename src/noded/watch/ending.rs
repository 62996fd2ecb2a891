//! A watched job comes to an end: who has told it to, how long it has, and what that end means for
//! what it has written.

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

/// How long the status of a killed first process is waited for.
const LAST_WAIT: Span = Span::seconds(1);

/// What its end is to the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndKind {
    /// Over.
    Done,
    /// It is to run again.
    Again,
    /// The same, unless it has come to its end in time: it was told to write down how far it has
    /// come (Y17).
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

    /// Whether what it has written is not its last word. schedd decides by the same
    /// (`model::life`).
    fn runs_again(self, how: &How) -> bool {
        match (how, self) {
            (How::NodeFault(_) | How::AwaitsFiles(_), _) | (_, EndKind::Again) => true,
            // Its end may have been due before it was written down how far it had come.
            (
                How::Exited(0) | How::Overran { .. } | How::Exceeded { .. },
                EndKind::AgainUnlessWell,
            ) => false,
            (_, EndKind::AgainUnlessWell) => true,
            (_, EndKind::Done) => false,
        }
    }
}

/// The job has been told to end.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) kill_at: Span,
    overran: Option<How>,
}

impl JobWatch<'_> {
    /// Its script has ended. If it was told to end, its other processes have the rest of the grace.
    pub(super) fn over(&self) -> bool {
        self.status.is_some()
            && (self.alone
                || self
                    .ending
                    .as_ref()
                    .is_none_or(|ending| self.due(ending.kill_at)))
    }

    /// Ends the job on an order. Of several orders the last one decides whether the job runs again.
    ///
    /// An order that arrives after the end of the script changes nothing: the end and the order may
    /// be pending together, so the script's status is collected first.
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

    /// TERM now, KILL after `grace`. Telling it twice changes nothing.
    pub(super) fn end(&mut self, cgroup: Option<&Cgroup>, grace: Span, overran: Option<How>) {
        self.end_by(cgroup, SIGTERM, grace, overran);
    }

    /// KILL now, and no TERM ahead of it: with one process gone the next would write what it has
    /// taken.
    pub(super) fn end_at_once(&mut self, excess: How) {
        self.ending = Some(Ending {
            kill_at: clock::monotonic(),
            overran: Some(excess),
        });
    }

    /// The same with another signal.
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
            // A shell that talks to a person ignores TERM.
            process::send_signal(self.session.as_raw(), SIGHUP);
        }
    }

    /// HUP now, as from any terminal that hangs up, and KILL after the grace.
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

    /// How the first process ended, which has just been killed. One that cannot be reaped, traced
    /// by somebody or stuck in the kernel, must not keep the others from being ended.
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
        // Read before the sweep, which removes the group.
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

    /// The kernel has ended it for its memory: that is why, whatever its script made of it.
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
