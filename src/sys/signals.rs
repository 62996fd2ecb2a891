//! Signals to a daemon, which the daemon reads from a descriptor.

use super::process::{self, Reaped};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::{AsFd, BorrowedFd};

/// Requests that a daemon has received as signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalRequests {
    /// SIGTERM or SIGINT: exit.
    pub leave: bool,
    /// SIGHUP: reload the configuration.
    pub reload: bool,
}

/// The signals that a daemon handles.
pub struct Signals {
    descriptor: SignalFd,
}

impl Signals {
    /// Makes SIGTERM, SIGINT, SIGHUP and SIGCHLD readable from a descriptor, and ignores SIGPIPE,
    /// so that writes to closed connections fail with an error.
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

    /// The requests since the last call. If this process is the first process of a container (pid
    /// 1), also reaps all ended children, because orphans become children of this process.
    /// Otherwise the code that started a child must reap it.
    pub fn take(&mut self) -> SignalRequests {
        let mut requests = SignalRequests::default();
        while let Ok(Some(signal)) = self.descriptor.read_signal() {
            requests.reload |= signal.ssi_signo == Signal::SIGHUP as u32;
            requests.leave |=
                [Signal::SIGTERM as u32, Signal::SIGINT as u32].contains(&signal.ssi_signo);
        }
        while std::process::id() == 1 && matches!(process::reap(None), Reaped::Ended(..)) {}
        requests
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
