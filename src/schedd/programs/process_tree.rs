//! All processes that stem from this one: waited for, and ended with it.

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

/// How often those that do not end are looked for again, in milliseconds.
const ROUND: i64 = 100;
/// How long killed ones may take to be gone.
const PATIENCE: Span = Span::seconds(3);

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// This process was sent a signal; CHLD when one of the brood has ended.
    Signal(Signal),
    /// The other descriptor can be read.
    Readable,
}

/// The descendants of this process. It inherits those whose parents end.
pub struct ProcessTree {
    signals: SignalFd,
    /// Those reaped, until somebody asks.
    ended: BTreeMap<i32, ProcessEnd>,
}

impl ProcessTree {
    /// From now on orphans are inherited, and signals wait to be read.
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

    /// Waits for a signal, or until `also` can be read.
    pub fn wait(&mut self, also: Option<BorrowedFd>) -> WakeReason {
        loop {
            if let Ok(Some(heard)) = self.signals.read_signal() {
                self.bury();
                return WakeReason::Signal(
                    Signal::try_from(heard.ssi_signo as i32).unwrap_or(Signal::SIGTERM),
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

    /// Waits until one of ours has ended; the signal, if we are told to end before. While a command
    /// runs in the foreground an interrupt from the terminal is for that command, which hears it
    /// too.
    pub fn until_gone(
        &mut self,
        pid: Pid,
        interruptible: bool,
    ) -> io::Result<Result<ProcessEnd, Signal>> {
        loop {
            self.bury();
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

    /// Reaps what has ended; whether nobody is left.
    fn bury(&mut self) -> bool {
        loop {
            match process::reap(None) {
                Reaped::Ended(pid, end) => drop(self.ended.insert(pid.as_raw(), end)),
                Reaped::Living => return false,
                Reaped::NoChild => return true,
            }
        }
    }

    /// Waits until nobody is left, who may take `linger` for it, or, asked to end, so long; then
    /// ends who still is.
    pub fn end(&mut self, linger: Span, asked: Option<Span>) {
        let own = std::process::id() as i32;
        if asked.is_some() {
            for process in procfs::descendants(own) {
                process::send_signal(process.pid, SIGTERM);
                process::send_signal(process.pid, SIGCONT);
            }
        }
        let until = clock::monotonic() + asked.unwrap_or(linger);
        while !self.bury() && clock::monotonic() < until + PATIENCE {
            if clock::monotonic() >= until {
                // Orphans of the killed are ours, and found in the next round.
                procfs::descendants(own)
                    .iter()
                    .for_each(|process| process::end(process.pid));
            }
            let mut fds = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            let _ = poll(
                &mut fds,
                PollTimeout::try_from(ROUND as i32).unwrap_or(PollTimeout::ZERO),
            );
            while let Ok(Some(_)) = self.signals.read_signal() {}
        }
    }
}
