//! Work on the files of a job's owner before and after the job. A separate process, the worker,
//! does this work as the owner, so that it can open only files that the owner can open.

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

/// Maximum time to wait until a finished or killed worker has disappeared. A worker that waits for
/// an unresponsive disk can take longer.
const EXIT_TIMEOUT: Span = Span::seconds(2);

/// The settings of a worker.
#[derive(Debug)]
pub struct StagingWorker<'a> {
    /// The owner.
    pub account: &'a UserAccount,
    /// The owner's groups and the group that the job requests, if the worker must change its user
    /// to the owner.
    pub groups: Option<&'a [Gid]>,
    /// The group to set if the worker already runs as the owner.
    pub group: Option<u32>,
    /// The umask for new files.
    pub umask: u32,
    /// The attempt's directory, from which cancels are read.
    pub folder: &'a Folder,
    /// Which cancels of the attempt end the work.
    pub cancels: Cancels,
    /// The time limit of the work. Without a limit, the work might never end: the owner can stop
    /// the worker, and a disk can stop responding.
    pub limit: Span,
}

/// Which cancels of the attempt end the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancels {
    /// All cancels, including those that arrived before the work began.
    All,
    /// Cancels that arrive after the work has begun. Earlier cancels concerned the job itself.
    New,
    /// No cancels: the work is short and must be completed.
    None,
}

/// The result of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagingResult {
    /// The work was completed.
    Done,
    /// The work failed, for this reason.
    Failed(String),
    /// The work was canceled, and the worker killed.
    Cancelled,
    /// The work exceeded its time limit, and the worker was killed.
    Late,
}

impl StagingWorker<'_> {
    /// Runs `work` in a worker and waits until it ends.
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
            None => self.group.map_or(Ok(()), user::set_group)?,
        }
        // Set the parent-death signal after the change of user, which clears the setting. If the
        // shepherd has ended before, exit.
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != shepherd {
            process::leave(1);
        }
        umask(Mode::from_bits_truncate(self.umask & 0o777));
        Ok(())
    }

    /// Waits until the worker ends, is canceled, or exceeds its time limit.
    fn wait(&self, mut worker: RunningProgram, signals: &SignalFd, mut seen: u64) -> StagingResult {
        let mut ordered = false;
        let mut cancelled = self.is_cancelled(&mut seen);
        let result = loop {
            if cancelled {
                worker.stop();
                break StagingResult::Cancelled;
            }
            if let Some(result) = worker.poll(clock::monotonic()) {
                break worker_result(result);
            }
            if worker.wait_for_news(Some(signals.as_fd())) {
                ordered = true;
                let bare = has_bare_cancel(signals) && self.cancels != Cancels::None;
                cancelled = bare | self.is_cancelled(&mut seen);
            }
        };
        // The wait is limited, because a worker that is stuck in the kernel does not disappear.
        worker.wait_until_gone(EXIT_TIMEOUT);
        if ordered && !cancelled {
            // Send SIGUSR1 again, so that the code that watches the job reads the orders, too.
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

fn worker_result(result: ProgramResult) -> StagingResult {
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

/// Whether one of the pending signals is a bare cancel: noded sends SIGUSR2 if it cannot write a
/// cancel to the order file, for instance because the disk is full. Discards all pending signals.
pub(super) fn has_bare_cancel(signals: &SignalFd) -> bool {
    let mut bare = false;
    while let Ok(Some(signal)) = signals.read_signal() {
        bare |= signal.ssi_signo == Signal::SIGUSR2 as u32;
    }
    bare
}

/// Joins the failures of several steps to one text.
pub fn join_failures(steps: impl IntoIterator<Item = Result<(), String>>) -> Result<(), String> {
    let faults: Vec<String> = steps.into_iter().filter_map(Result::err).collect();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults.join("; "))
    }
}

/// Converts the result of a worker. The error is why the work was not completed.
pub fn to_result(done: io::Result<StagingResult>) -> Result<(), String> {
    match done.map_err(not_delivered)? {
        StagingResult::Done => Ok(()),
        StagingResult::Failed(why) => Err(why),
        StagingResult::Cancelled => Err("the delivery of files was canceled".into()),
        StagingResult::Late => Err("the delivery of files exceeded its time limit".into()),
    }
}

/// The failure of a worker that could not be started.
pub fn not_delivered(error: io::Error) -> String {
    format!("files could not be delivered: {error}")
}
