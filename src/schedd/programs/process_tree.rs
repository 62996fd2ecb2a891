//! The descendants of this process: waiting for them and ending them.

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
    /// This process received a signal; SIGCHLD when a descendant has ended.
    Signal(Signal),
    /// The other descriptor is readable.
    Readable,
}

/// The descendants of this process. As subreaper it adopts orphans.
pub struct ProcessTree {
    signals: SignalFd,
    /// Reaped processes, until their status is taken.
    ended: BTreeMap<i32, ProcessEnd>,
}

impl ProcessTree {
    /// Makes this process a subreaper, and its signals readable from a descriptor.
    pub fn gather() -> io::Result<ProcessTree> {
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

    /// Waits until a child has ended; a signal that arrives before is the inner error. If
    /// `interruptible` is false, SIGINT is ignored: a command in the foreground gets it from the
    /// terminal itself.
    pub fn until_gone(
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

    /// Reaps ended processes. Returns whether none is left.
    fn reap_all(&mut self) -> bool {
        loop {
            match process::reap(None) {
                Reaped::Ended(pid, end) => drop(self.ended.insert(pid.as_raw(), end)),
                Reaped::Living => return false,
                Reaped::NoChild => return true,
            }
        }
    }

    /// Waits until no descendant is left, for up to `linger`, then kills the rest. With `grace`,
    /// sends SIGTERM first and waits up to that time instead.
    pub fn end(&mut self, linger: Span, grace: Option<Span>) {
        let own = std::process::id() as i32;
        if grace.is_some() {
            for process in procfs::descendants(own) {
                process::send_signal(process.pid, SIGTERM);
                process::send_signal(process.pid, SIGCONT);
            }
        }
        let until = clock::monotonic() + grace.unwrap_or(linger);
        while !self.reap_all() && clock::monotonic() < until + KILL_TIMEOUT {
            if clock::monotonic() >= until {
                // Orphans of killed processes are adopted and found in the next round.
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
