//! Work on an owner's files before and after a job, done by a process that is the owner and
//! nobody else: whatever a path leads to, it opens no more than its owner could.

use super::control::Control;
use super::folder::Folder;
use crate::sys::process::{self, Fork};
use crate::sys::user::{self, Account};
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::sys::stat::{Mode, umask};
use nix::sys::wait::waitpid;
use nix::unistd::{Gid, Pid, getpid, getppid, setsid};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

/// The most that is heard of what went wrong, in bytes.
const LONGEST: usize = 2000;

/// Who does it, and what may call it off.
#[derive(Debug)]
pub struct Errand<'a> {
    /// The owner.
    pub account: &'a Account,
    /// All the owner's groups, when the process must become the owner first.
    pub groups: Option<&'a [Gid]>,
    /// The group to take when it already is.
    pub group: Option<u32>,
    /// For files it makes.
    pub umask: u32,
    /// The attempt's folder: a cancel among its orders ends the work.
    pub folder: &'a Folder,
    /// Which cancels.
    pub cancels: Cancels,
}

/// Which cancels end the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancels {
    /// Those that have come before, too.
    All,
    /// Those that come from now on: the job has heeded the others.
    New,
    /// None: it is soon done, and no good is in half of it.
    None,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// All of it.
    Well,
    /// Not all, and why.
    Failed(String),
    /// It was cancelled.
    Cancelled,
}

impl Errand<'_> {
    /// Does `work` and waits for it.
    pub fn run(&self, work: impl FnOnce() -> Result<(), String>) -> io::Result<Done> {
        let (near, far) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let signals = process::signals(&[Signal::SIGUSR1, Signal::SIGUSR2])?;
        let mut seen = 0;
        while self.cancels == Cancels::New && !self.folder.orders(&mut seen).is_empty() {}
        let shepherd = getpid();
        match process::fork()? {
            Fork::Child => {
                let said =
                    self.become_owner(&far, shepherd).map_err(|e| format!("identity: {e}")).and_then(|()| work());
                let text = said.err().unwrap_or_default();
                let _ = File::from(far).write_all(text.as_bytes());
                process::leave(i32::from(!text.is_empty()))
            }
            Fork::Parent(worker) => {
                drop(far);
                Ok(self.wait(worker, near, &signals, seen))
            }
        }
    }

    fn become_owner(&self, far: &OwnedFd, shepherd: Pid) -> io::Result<()> {
        setsid()?;
        process::close_all_but(&[far.as_fd()]);
        match self.groups {
            Some(groups) => user::become_user(self.account, groups)?,
            None => self.group.map_or(Ok(()), user::take_group)?,
        }
        // Only now: becoming another user forgets this. A shepherd that is gone has left before.
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != shepherd {
            process::leave(1);
        }
        umask(Mode::from_bits_truncate(self.umask & 0o777));
        Ok(())
    }

    /// Hears the worker until it has ended, one way or the other.
    fn wait(&self, worker: Pid, near: OwnedFd, signals: &SignalFd, mut seen: u64) -> Done {
        let (mut said, mut near) = (Vec::new(), File::from(near));
        let (mut ordered, mut cancelled) = (false, self.is_cancelled(&mut seen));
        if cancelled {
            process::end(worker.as_raw());
        }
        loop {
            let mut fds =
                [PollFd::new(near.as_fd(), PollFlags::POLLIN), PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut fds, PollTimeout::NONE);
            let [speaks, told] = fds.map(|fd| fd.any() == Some(true));
            if told {
                ordered = true;
                let bare = bare_cancel(signals) && self.cancels != Cancels::None;
                cancelled |= bare | self.is_cancelled(&mut seen);
                if cancelled {
                    process::end(worker.as_raw());
                }
            }
            let mut buffer = [0; 512];
            match if speaks { near.read(&mut buffer) } else { continue } {
                Ok(length) if length > 0 && said.len() < LONGEST => said.extend_from_slice(&buffer[..length]),
                Ok(length) if length > 0 => {}
                _ => break,
            }
        }
        let ended = waitpid(worker, None);
        if ordered && !cancelled {
            // For who watches the job, and has not heard the signal that was taken here.
            process::send_signal(getpid().as_raw(), Signal::SIGUSR1 as i32);
        }
        match (cancelled, ended) {
            (true, _) => Done::Cancelled,
            (false, Ok(nix::sys::wait::WaitStatus::Exited(_, 0))) => Done::Well,
            (false, _) if said.is_empty() => Done::Failed("the copying process was killed".into()),
            (false, _) => Done::Failed(String::from_utf8_lossy(&said).into_owned()),
        }
    }

    fn is_cancelled(&self, seen: &mut u64) -> bool {
        self.cancels != Cancels::None
            && self.folder.orders(seen).iter().any(|order| matches!(order, Control::Cancel(..)))
    }
}

/// Whether one of the signals that have come is a cancel for which the disk had no room.
pub(super) fn bare_cancel(signals: &SignalFd) -> bool {
    let mut bare = false;
    while let Ok(Some(signal)) = signals.read_signal() {
        bare |= signal.ssi_signo == Signal::SIGUSR2 as u32;
    }
    bare
}
