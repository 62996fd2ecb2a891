//! Work on an owner's files before and after a job, done by a process that runs as the owner: it
//! can open only the owner's files.

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

/// Maximum wait for a killed process. One that waits for an unresponsive disk takes longer.
const LAST_WAIT: Span = Span::seconds(2);

/// The owner, the limits and the cancels of a piece of work.
#[derive(Debug)]
pub struct StagingWorker<'a> {
    /// The owner.
    pub account: &'a UserAccount,
    /// All the owner's groups, when the process must become the owner first.
    pub groups: Option<&'a [Gid]>,
    /// The group to set if the process already runs as the owner.
    pub group: Option<u32>,
    /// The umask for new files.
    pub umask: u32,
    /// The attempt's directory: a cancel among its orders ends the work.
    pub folder: &'a Folder,
    /// The cancels that end the work.
    pub cancels: Cancels,
    /// Its time limit: the owner can stop the process, and a disk may not respond.
    pub limit: Span,
}

/// The cancels that end the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancels {
    /// All, including earlier ones.
    All,
    /// Later ones: the job has handled the earlier ones.
    New,
    /// None: the work is short and must be completed.
    None,
}

/// The result of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagingResult {
    /// Done.
    Done,
    /// Not completely done, and why.
    Failed(String),
    /// It was cancelled.
    Cancelled,
    /// It exceeded its time limit and was killed.
    Late,
}

impl StagingWorker<'_> {
    /// Runs `work` in a child and waits for it.
    pub fn run(&self, work: impl FnOnce() -> Result<(), String>) -> io::Result<StagingResult> {
        let signals = process::signals(&[Signal::SIGUSR1, Signal::SIGUSR2])?;
        let mut seen = 0;
        while self.cancels == Cancels::New && !self.folder.orders(&mut seen).is_empty() {}
        let shepherd = getpid();
        let worker = RunningProgram::fork(clock::monotonic(), self.limit, || {
            self.become_owner(shepherd)
                .map_err(|e| io::Error::other(format!("cannot become the job's owner: {e}")))?;
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
        // Set only now, since a change of user clears it. If the shepherd has ended before, exit.
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != shepherd {
            process::leave(1);
        }
        umask(Mode::from_bits_truncate(self.umask & 0o777));
        Ok(())
    }

    /// Waits for the end of the worker: by itself, by a cancel, or at the time limit.
    fn wait(&self, mut worker: RunningProgram, signals: &SignalFd, mut seen: u64) -> StagingResult {
        let mut ordered = false;
        let mut cancelled = self.is_cancelled(&mut seen);
        let result = loop {
            if cancelled {
                worker.stop();
                break StagingResult::Cancelled;
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
        // A process stuck in the kernel takes longer.
        worker.wait_until_gone(LAST_WAIT);
        if ordered && !cancelled {
            // Repeats the signal for the job's watch, since it was consumed here.
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

fn helper_result(result: ProgramResult) -> StagingResult {
    match result.exit {
        Ok(exit) if exit.status == Some(0) => StagingResult::Done,
        Ok(exit) if exit.text.is_empty() => {
            StagingResult::Failed("the staging process was killed".into())
        }
        Ok(exit) => StagingResult::Failed(exit.text),
        Err(ProgramFault::Late(_)) => StagingResult::Late,
        Err(ProgramFault::Output(error)) => StagingResult::Failed(error.to_string()),
    }
}

/// Whether one of the pending signals is a bare cancel, sent when the disk had no room.
pub(super) fn bare_cancel(signals: &SignalFd) -> bool {
    let mut bare = false;
    while let Ok(Some(signal)) = signals.read_signal() {
        bare |= signal.ssi_signo == Signal::SIGUSR2 as u32;
    }
    bare
}

/// Joins the failures of several steps.
pub fn together(steps: impl IntoIterator<Item = Result<(), String>>) -> Result<(), String> {
    let faults: Vec<String> = steps.into_iter().filter_map(Result::err).collect();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults.join("; "))
    }
}

/// Why the work was not completed.
pub fn to_result(done: io::Result<StagingResult>) -> Result<(), String> {
    match done.map_err(not_delivered)? {
        StagingResult::Done => Ok(()),
        StagingResult::Failed(why) => Err(why),
        StagingResult::Cancelled => Err("it was cancelled".into()),
        StagingResult::Late => Err("it exceeded its time limit".into()),
    }
}

/// The error of work that could not begin.
pub fn not_delivered(error: io::Error) -> String {
    format!("files could not be delivered: {error}")
}
