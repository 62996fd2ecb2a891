//! Work on an owner's files before and after a job, done by a process that is the owner and
//! nobody else: whatever a path leads to, it opens no more than its owner could.

use super::control::Control;
use super::folder::Folder;
use crate::model::time::Span;
use crate::sys::clock;
use crate::sys::process::{self, Fork, ProcessEnd, Reaped};
use crate::sys::user::{self, UserAccount};
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Pid, getpid, getppid, setsid};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

/// The most that is read of what went wrong, in bytes.
const LONGEST: u64 = 2000;
/// How long a killed process may take to end. One that waits for an unresponsive disk takes longer.
const LAST_WAIT: Span = Span::seconds(2);

/// Who does it, and what may call it off.
#[derive(Debug)]
pub struct StagingHelper<'a> {
    /// The owner.
    pub account: &'a UserAccount,
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
    /// How long it may take: the owner can stop the process, and a disk may not respond.
    pub limit: Span,
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
pub enum HelperResult {
    /// All of it.
    Well,
    /// Not all, and why.
    Failed(String),
    /// It was cancelled.
    Cancelled,
    /// It exceeded its time limit and was killed.
    Late,
}

/// The process that does the work.
struct HelperProcess {
    pid: Pid,
    /// Readable when it has ended.
    ended: OwnedFd,
    /// What it has to say of a failure.
    said: File,
}

impl HelperProcess {
    fn new(pid: Pid, said: OwnedFd) -> io::Result<HelperProcess> {
        let ended = process::pidfd(pid).inspect_err(|_| process::end(pid.as_raw()))?;
        Ok(HelperProcess {
            pid,
            ended,
            said: File::from(said),
        })
    }

    /// KILL also ends a stopped process.
    fn kill(&self) {
        let _ = process::send_to(&self.ended, Signal::SIGKILL);
    }

    /// Waits until it has ended, there are signals to read, or the moment `until` has come: whether
    /// it has ended, and whether there are signals.
    fn wait(&self, signals: &SignalFd, until: Span) -> (bool, bool) {
        let mut fds =
            [self.ended.as_fd(), signals.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let left = until.0.saturating_sub(clock::monotonic().0).max(0);
        let _ = poll(
            &mut fds,
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
        );
        let [has_ended, has_signals] = fds.map(|fd| fd.any() == Some(true));
        (has_ended, has_signals)
    }

    /// What came of it, once it has ended.
    fn result(&self) -> HelperResult {
        if process::reap(Some(self.pid)) == Reaped::Ended(self.pid, ProcessEnd::Exited(0)) {
            return HelperResult::Well;
        }
        let mut said = Vec::new();
        let _ = (&self.said).take(LONGEST).read_to_end(&mut said);
        match String::from_utf8_lossy(&said).into_owned() {
            text if text.is_empty() => {
                HelperResult::Failed("the copying process was killed".into())
            }
            text => HelperResult::Failed(text),
        }
    }
}

impl StagingHelper<'_> {
    /// Does `work` and waits for it.
    pub fn run(&self, work: impl FnOnce() -> Result<(), String>) -> io::Result<HelperResult> {
        let (near, far) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let signals = process::signals(&[Signal::SIGUSR1, Signal::SIGUSR2])?;
        let mut seen = 0;
        while self.cancels == Cancels::New && !self.folder.orders(&mut seen).is_empty() {}
        let shepherd = getpid();
        match process::fork()? {
            Fork::Child => {
                let said = self
                    .become_owner(&far, shepherd)
                    .map_err(|e| format!("identity: {e}"))
                    .and_then(|()| work());
                let text = said.err().unwrap_or_default();
                let _ = File::from(far).write_all(text.as_bytes());
                process::leave(i32::from(!text.is_empty()))
            }
            Fork::Parent(worker) => {
                drop(far);
                Ok(self.wait(&HelperProcess::new(worker, near)?, &signals, seen))
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

    /// Waits until the worker has ended: by itself, by a cancel, or because it is late.
    fn wait(&self, worker: &HelperProcess, signals: &SignalFd, mut seen: u64) -> HelperResult {
        let mut until = clock::monotonic() + self.limit;
        let (mut ordered, mut cancelled) = (false, self.is_cancelled(&mut seen));
        let mut killed = None;
        loop {
            let is_due = clock::monotonic() >= until;
            if killed.is_some() && is_due {
                // It is stuck in the kernel, and ends when it can.
                break;
            }
            if killed.is_none() && (cancelled || is_due) {
                killed = Some(if cancelled {
                    HelperResult::Cancelled
                } else {
                    HelperResult::Late
                });
                worker.kill();
                until = clock::monotonic() + LAST_WAIT;
            }
            let (has_ended, has_signals) = worker.wait(signals, until);
            if has_signals {
                ordered = true;
                let bare = bare_cancel(signals) && self.cancels != Cancels::None;
                cancelled |= bare | self.is_cancelled(&mut seen);
            }
            if has_ended {
                break;
            }
        }
        if ordered && !cancelled {
            // For the watch of the job, which has not seen the signal that was taken here.
            process::send_signal(getpid().as_raw(), Signal::SIGUSR1 as i32);
        }
        let result = worker.result();
        match killed {
            Some(why) => why,
            None if cancelled => HelperResult::Cancelled,
            None => result,
        }
    }

    fn is_cancelled(&self, seen: &mut u64) -> bool {
        self.cancels != Cancels::None
            && self
                .folder
                .orders(seen)
                .iter()
                .any(|order| matches!(order, Control::Cancel(..)))
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

/// Joins the failures of several steps, all of which were taken.
pub fn together(steps: impl IntoIterator<Item = Result<(), String>>) -> Result<(), String> {
    let faults: Vec<String> = steps.into_iter().filter_map(Result::err).collect();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults.join("; "))
    }
}

/// Why not all of the work was done.
pub fn all_of(done: io::Result<HelperResult>) -> Result<(), String> {
    match done.map_err(not_delivered)? {
        HelperResult::Well => Ok(()),
        HelperResult::Failed(why) => Err(why),
        HelperResult::Cancelled => Err("cancelled".into()),
        HelperResult::Late => Err("not done in time".into()),
    }
}

/// The error of work that could not begin.
pub fn not_delivered(error: io::Error) -> String {
    format!("files could not be delivered: {error}")
}
