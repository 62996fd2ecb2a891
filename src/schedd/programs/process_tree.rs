//! The descendants of this process: waiting for their end, and killing them.

use crate::model::time::Span;
use crate::sys::process::{self, ProcessEnd, Reaped};
use crate::sys::{clock, procfs};
use nix::libc::{SIGCONT, SIGTERM};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Interval between kills of remaining processes, in milliseconds.
const KILL_INTERVAL: i64 = 100;
/// Maximum time for killed processes to disappear.
const KILL_TIMEOUT: Span = Span::seconds(3);

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// This process received a signal. SIGCHLD means that a child or an adopted orphan has ended.
    Signal(Signal),
    /// The given descriptor is readable.
    Readable,
}

/// The descendants of this process, including orphans, which this process adopts as a subreaper.
pub struct ProcessTree {
    signals: SignalFd,
    /// The ends of reaped processes, by process id, until they are taken.
    ended: BTreeMap<i32, ProcessEnd>,
}

impl ProcessTree {
    /// Makes this process a subreaper. Blocks its signals and receives SIGCHLD, SIGTERM, SIGHUP and
    /// SIGINT from a descriptor.
    pub fn adopt_orphans() -> io::Result<ProcessTree> {
        prctl::set_child_subreaper(true)?;
        process::block_signals()?;
        let signals = process::signals(&[
            Signal::SIGCHLD,
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGINT,
        ])?;
        Ok(ProcessTree {
            signals,
            ended: BTreeMap::new(),
        })
    }

    /// Waits for a signal, or until `also` is readable.
    pub fn wait(&mut self, also: Option<BorrowedFd>) -> WakeReason {
        loop {
            if let Ok(Some(received)) = self.signals.read_signal() {
                self.reap_all();
                return WakeReason::Signal(
                    Signal::try_from(received.ssi_signo as i32).unwrap_or(Signal::SIGTERM),
                );
            }
            let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            fds.extend(also.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            let _ = poll(&mut fds, PollTimeout::NONE);
            if fds.get(1).is_some_and(|fd| fd.any() == Some(true)) {
                return WakeReason::Readable;
            }
        }
    }

    /// Waits until a child has ended. If a signal other than SIGCHLD arrives first, it is the inner
    /// error. If `interruptible` is false, SIGINT is ignored, because the child runs in the
    /// foreground and gets SIGINT from the terminal itself.
    pub fn wait_for_child(
        &mut self,
        pid: Pid,
        interruptible: bool,
    ) -> io::Result<Result<ProcessEnd, Signal>> {
        loop {
            self.reap_all();
            if let Some(end) = self.ended.remove(&pid.as_raw()) {
                return Ok(Ok(end));
            }
            match self.wait(None) {
                WakeReason::Signal(Signal::SIGINT) if !interruptible => {}
                WakeReason::Signal(signal) if signal != Signal::SIGCHLD => return Ok(Err(signal)),
                _ => {}
            }
        }
    }

    /// Reaps ended processes. Returns whether no descendant is left.
    fn reap_all(&mut self) -> bool {
        loop {
            match process::reap(None) {
                Reaped::Ended(pid, end) => drop(self.ended.insert(pid.as_raw(), end)),
                Reaped::Living => return false,
                Reaped::NoChild => return true,
            }
        }
    }

    /// Waits up to `exit_time` until no descendant is left, then kills the remaining processes.
    /// With `grace`, sends SIGTERM first, and waits up to `grace` instead.
    pub fn end_all(&mut self, exit_time: Span, grace: Option<Span>) {
        let own = std::process::id() as i32;
        if grace.is_some() {
            for process in procfs::descendants(own) {
                process::send_signal(process.pid, SIGTERM);
                process::send_signal(process.pid, SIGCONT);
            }
        }
        let until = clock::monotonic() + grace.unwrap_or(exit_time);
        while !self.reap_all() && clock::monotonic() < until + KILL_TIMEOUT {
            if clock::monotonic() >= until {
                // Processes that are forked meanwhile are adopted, and killed at the next
                // repetition.
                procfs::descendants(own)
                    .iter()
                    .for_each(|process| process::end(process.pid));
            }
            let mut fds = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            let _ = poll(
                &mut fds,
                PollTimeout::try_from(KILL_INTERVAL as i32).unwrap_or(PollTimeout::ZERO),
            );
            while let Ok(Some(_)) = self.signals.read_signal() {}
        }
    }
}
