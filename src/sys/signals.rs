//! Signals to a daemon, read like any other input.

use super::process::{self, Reaped};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::{AsFd, BorrowedFd};

/// The signals that ask a daemon to leave.
pub struct Signals {
    descriptor: SignalFd,
}

impl Signals {
    /// From now on TERM, INT and CHLD wait to be read, and a reader that has gone away is an error
    /// of the write.
    pub fn catch() -> nix::Result<Signals> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGTERM);
        set.add(Signal::SIGINT);
        set.add(Signal::SIGCHLD);
        set.thread_block()?;
        // SAFETY: ignoring a signal runs no handler.
        unsafe {
            signal(Signal::SIGPIPE, SigHandler::SigIgn)?;
            signal(Signal::SIGHUP, SigHandler::SigIgn)?;
        }
        Ok(Signals { descriptor: SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)? })
    }

    /// Whether this daemon is to leave. Its children are waited for where they were started; only as
    /// a container's first process it buries those of others too.
    pub fn take(&mut self) -> bool {
        let mut leave = false;
        while let Ok(Some(signal)) = self.descriptor.read_signal() {
            leave |= signal.ssi_signo != Signal::SIGCHLD as u32;
        }
        while std::process::id() == 1 && matches!(process::reap(None), Reaped::Ended(..)) {}
        leave
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
