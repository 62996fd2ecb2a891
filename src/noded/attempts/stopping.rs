//! Suspending and resuming attempts.
//!
//! A shepherd sends confirmations to the noded that started it. A shepherd of an earlier noded
//! cannot reach the current noded. So noded also reads the record of the attempt soon after the
//! order, and then at growing intervals.

use super::{Attempts, Runner};
use crate::model::time::Span;
use crate::noded::control::Control;
use crate::noded::folder::{AttemptName, Folder};
use crate::sys::clock;
use crate::wire::order::AttemptStatus;

/// Delay between an order and the first check.
const FIRST_CHECK: Span = Span(20);
/// Maximum delay between two checks.
const MAX_CHECK_DELAY: Span = Span::seconds(10);

impl Attempts {
    /// Suspends all processes of an attempt or a task.
    pub fn suspend(&mut self, name: AttemptName) {
        self.order_suspension(name, true, Control::Suspend);
    }

    /// Resumes all processes of an attempt or a task. Binds them to the processors `cpus` unless
    /// `cpus` is empty.
    pub fn resume(&mut self, name: AttemptName, cpus: Vec<u16>) {
        self.order_suspension(name, false, Control::Resume(cpus));
    }

    fn order_suspension(&mut self, name: AttemptName, stop: bool, order: Control) {
        let Some(entry) = self
            .entries
            .get_mut(&name)
            .filter(|entry| !entry.has_ended())
        else {
            return;
        };
        let is_done = matches!(entry.status, AttemptStatus::Suspended(_)) == stop
            && entry.status != AttemptStatus::Starting;
        if let Runner::Hollow(hollow) = &mut self.runner {
            hollow.set_suspended(name, stop, clock::monotonic());
            return self.note_stopped(name, 1, stop);
        }
        entry.ordered_suspended = (!is_done).then_some(stop);
        if is_done {
            // schedd repeats an order if it has missed the report.
            self.report(name);
        } else {
            self.pending_check = Some((Span(clock::monotonic().0 + FIRST_CHECK.0), FIRST_CHECK));
        }
        self.send_order(name, order);
    }

    /// Records whether all processes of an attempt are suspended.
    pub(super) fn note_stopped(&mut self, name: AttemptName, session: u32, stopped: bool) {
        let status = if stopped {
            AttemptStatus::Suspended(session)
        } else {
            AttemptStatus::Running(session)
        };
        let Some(entry) = self
            .entries
            .get_mut(&name)
            .filter(|entry| !entry.has_ended())
        else {
            return;
        };
        entry.ordered_suspended = entry
            .ordered_suspended
            .filter(|expected| *expected != stopped);
        if entry.status != status {
            self.set_status(name, status);
        }
    }

    /// When orders to suspend or resume are checked next; None if no check is planned.
    pub fn next_stop_check(&self) -> Option<Span> {
        self.pending_check.map(|(next, _)| next)
    }

    /// Checks unconfirmed suspensions and resumptions, if due.
    pub fn check_stops(&mut self, now: Span) {
        let Some((_, pause)) = self.pending_check.filter(|(next, _)| *next <= now) else {
            return;
        };
        let unconfirmed: Vec<AttemptName> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.ordered_suspended.is_some())
            .map(|(&name, _)| name)
            .collect();
        for name in unconfirmed {
            let trace = Folder::of(&self.site.state, name).trace().ok().flatten();
            if let Some((session, stopped)) =
                trace.and_then(|trace| Some((trace.session()?, trace.stopped)))
            {
                self.note_stopped(name, session, stopped);
            }
        }
        let pause = Span((pause.0 * 2).min(MAX_CHECK_DELAY.0));
        let is_awaited = self
            .entries
            .values()
            .any(|entry| entry.ordered_suspended.is_some());
        self.pending_check = is_awaited.then(|| (Span(now.0.saturating_add(pause.0)), pause));
    }
}
