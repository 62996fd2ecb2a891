//! Work on an owner's files before and after a job, done by a process that is the owner and
//! nobody else: whatever a path leads to, it opens no more than its owner could.

use super::control::Control;
use super::folder::Folder;
use crate::model::time::Span;
use crate::sys::clock;
use crate::sys::process;
use crate::sys::program::{ProgramFault, ProgramResult, RunningProgram};
use crate::sys::user::{self, UserAccount};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Pid, getpid, getppid, setsid};
use std::io;
use std::os::fd::AsFd;

/// How long a killed process may take to end. One that waits for an unresponsive disk takes longer.
const LAST_WAIT: Span = Span::seconds(2);

/// Who does it, and what may call it off.
#[derive(Debug)]
pub struct StagingWorker<'a> {
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

impl StagingWorker<'_> {
    /// Does `work` and waits for it.
    pub fn run(&self, work: impl FnOnce() -> Result<(), String>) -> io::Result<HelperResult> {
        let signals = process::signals(&[Signal::SIGUSR1, Signal::SIGUSR2])?;
        let mut seen = 0;
        while self.cancels == Cancels::New && !self.folder.orders(&mut seen).is_empty() {}
        let shepherd = getpid();
        let worker = RunningProgram::fork(clock::monotonic(), self.limit, || {
            self.become_owner(shepherd)
                .map_err(|e| io::Error::other(format!("identity: {e}")))?;
            work().map_err(io::Error::other)
        })?;
        Ok(self.wait(worker, &signals, seen))
    }

    fn become_owner(&self, shepherd: Pid) -> io::Result<()> {
        setsid()?;
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
    fn wait(&self, mut worker: RunningProgram, signals: &SignalFd, mut seen: u64) -> HelperResult {
        let mut ordered = false;
        let mut cancelled = self.is_cancelled(&mut seen);
        let result = loop {
            if cancelled {
                worker.stop();
                break HelperResult::Cancelled;
            }
            if let Some(result) = worker.poll(clock::monotonic()) {
                break helper_result(result);
            }
            if worker.wait_for_news(Some(signals.as_fd())) {
                ordered = true;
                let bare = bare_cancel(signals) && self.cancels != Cancels::None;
                cancelled = bare | self.is_cancelled(&mut seen);
            }
        };
        // If it is stuck in the kernel, it ends when it can.
        worker.wait_until_gone(LAST_WAIT);
        if ordered && !cancelled {
            // For the watch of the job, which has not seen the signal that was taken here.
            process::send_signal(getpid().as_raw(), Signal::SIGUSR1 as i32);
        }
        result
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

fn helper_result(result: ProgramResult) -> HelperResult {
    match result.exit {
        Ok(exit) if exit.status == Some(0) => HelperResult::Well,
        Ok(exit) if exit.text.is_empty() => {
            HelperResult::Failed("the copying process was killed".into())
        }
        Ok(exit) => HelperResult::Failed(exit.text),
        Err(ProgramFault::Late(_)) => HelperResult::Late,
        Err(ProgramFault::Output(error)) => HelperResult::Failed(error.to_string()),
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
