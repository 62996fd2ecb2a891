//! Signals to a daemon, read like any other input.

use super::process::{self, Reaped};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::{AsFd, BorrowedFd};

/// What signals have asked of a daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalRequests {
    /// TERM, INT: to leave.
    pub leave: bool,
    /// HUP: to read its configuration anew.
    pub reload: bool,
}

/// The signals that ask a daemon for something.
pub struct Signals {
    descriptor: SignalFd,
}

impl Signals {
    /// From now on TERM, INT, HUP and CHLD wait to be read, and a reader that has gone away is an
    /// error of the write.
    pub fn catch() -> nix::Result<Signals> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGTERM);
        set.add(Signal::SIGINT);
        set.add(Signal::SIGHUP);
        set.add(Signal::SIGCHLD);
        set.thread_block()?;
        // SAFETY: ignoring a signal runs no handler.
        unsafe { signal(Signal::SIGPIPE, SigHandler::SigIgn)? };
        Ok(Signals {
            descriptor: SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?,
        })
    }

    /// What this daemon is asked for. Its children are waited for where they were started; only as
    /// a container's first process it buries those of others too.
    pub fn take(&mut self) -> SignalRequests {
        let mut asked = SignalRequests::default();
        while let Ok(Some(signal)) = self.descriptor.read_signal() {
            asked.reload |= signal.ssi_signo == Signal::SIGHUP as u32;
            asked.leave |=
                [Signal::SIGTERM as u32, Signal::SIGINT as u32].contains(&signal.ssi_signo);
        }
        while std::process::id() == 1 && matches!(process::reap(None), Reaped::Ended(..)) {}
        asked
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
