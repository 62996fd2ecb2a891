//! Signals to a daemon, which the daemon reads from a descriptor.

use super::process::{self, Reaped};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

/// A received signal and its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedSignal {
    /// The signal.
    pub signal: Signal,
    /// The pid of the sender; 0 if the kernel sent the signal.
    pub pid: u32,
    /// The uid of the sender.
    pub uid: u32,
}

impl fmt::Display for ReceivedSignal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.signal)?;
        if self.pid != 0 {
            write!(f, " from process {} of uid {}", self.pid, self.uid)?;
        }
        Ok(())
    }
}

/// Requests that a daemon has received as signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalRequests {
    /// SIGTERM or SIGINT: exit.
    pub leave: Option<ReceivedSignal>,
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
            let leave = [Signal::SIGTERM, Signal::SIGINT]
                .into_iter()
                .find(|known| *known as u32 == signal.ssi_signo);
            requests.leave = requests.leave.or(leave.map(|known| ReceivedSignal {
                signal: known,
                pid: signal.ssi_pid,
                uid: signal.ssi_uid,
            }));
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
