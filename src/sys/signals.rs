//! Signals to a daemon, read like any other input.

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::{AsFd, BorrowedFd};

/// The signals that ask a daemon to leave.
pub struct Signals {
    descriptor: SignalFd,
}

impl Signals {
    /// From now on TERM and INT wait to be read; children that end leave nothing behind, and a
    /// reader that has gone away is an error of the write.
    pub fn catch() -> nix::Result<Signals> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGTERM);
        set.add(Signal::SIGINT);
        set.thread_block()?;
        // SAFETY: ignoring a signal runs no handler.
        unsafe {
            signal(Signal::SIGCHLD, SigHandler::SigIgn)?;
            signal(Signal::SIGPIPE, SigHandler::SigIgn)?;
            signal(Signal::SIGHUP, SigHandler::SigIgn)?;
        }
        Ok(Signals { descriptor: SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)? })
    }

    /// Whether one has come.
    pub fn take(&mut self) -> bool {
        matches!(self.descriptor.read_signal(), Ok(Some(_)))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
