//! Runs programs of the site and of users, except jobs: hooks, allocation scripts, programs that
//! report system-wide resources, mailers. Except with [`start_in_foreground`], a program runs in a
//! new process group. Its output is limited, and its run time can be limited. Callers poll
//! descriptors. Only the functions named `wait` or `wait_*` block.

#![allow(
    clippy::disallowed_methods,
    reason = "only this module starts programs of sites and users with `Command`"
)]

mod complaints;
mod pool;

pub use pool::ProgramPool;

use super::cgroup::Cgroup;
use super::clock;
use super::process;
use super::process::Fork;
use super::process::ProcessEnd;
use super::process::Reaped;
use super::user;
use super::user::UserAccount;
use crate::model::hook::HookExit;
use crate::model::time::Span;
use complaints::StandardError;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Gid, Pid};
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Maximum output of a program, in bytes.
const OUTPUT_LIMIT: usize = 1 << 20;
/// Maximum length of a [worker](RunningProgram::fork)'s error, in bytes.
const WORKER_LIMIT: usize = 2000;
/// `PATH` of programs with [`Surroundings::Own`].
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The timeout of a program without a time limit.
pub const UNLIMITED: Span = Span(i64::MAX);

/// A program to run, and its limits.
#[derive(Clone, Debug)]
pub struct ProgramCall<'a> {
    /// The absolute path of the program, and its arguments.
    pub words: &'a [String],
    /// The program's standard input.
    pub input: &'a [u8],
    /// The program's environment.
    pub surroundings: Surroundings<'a>,
    /// The user that the program runs as, and the groups of that user; None for the user of this
    /// process.
    pub identity: Option<(&'a UserAccount, &'a [Gid])>,
    /// Limits of the program and its descendants.
    pub confinement: Confinement<'a>,
    /// The program's time limit.
    pub timeout: Span,
    /// How the program's output is read.
    pub output: OutputMode,
}

/// The environment of a program, and what happens to processes that it leaves running.
#[derive(Clone, Copy, Debug)]
pub enum Surroundings<'a> {
    /// The program inherits the environment and limits of this process, and its descriptors except
    /// the standard descriptors. Processes that the program leaves running continue.
    Shared,
    /// The program gets only `PATH` and these variables, the three standard descriptors, and the
    /// usual limit on descriptors. Processes that the program leaves running in its process group
    /// are killed.
    Own(&'a [(&'a str, &'a str)]),
}

/// How the output of a program is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputMode {
    /// The output is read until the program exits. The result contains the exit status and the last
    /// line of standard error.
    UntilExit,
    /// The output is read until the program closes it. A program that closes its output before it
    /// exits is killed.
    UntilClosed,
    /// The output is discarded. The program continues if this process ends.
    Discarded,
}

/// Limits of a program and of all its descendants.
#[derive(Clone, Debug, Default)]
pub struct Confinement<'a> {
    /// The cgroup in which the program runs. If the cgroup cannot be opened, the program does not
    /// start; if the program cannot be moved there, it runs in this process's cgroup.
    pub cgroup: Option<&'a Cgroup>,
    /// Resource limits of each process.
    pub limits: Vec<(Resource, u64)>,
}

/// The result of a program.
#[derive(Debug)]
pub struct ProgramResult {
    /// The program's exit and output, or why there is no usable result.
    pub exit: Result<HookExit, ProgramFault>,
    /// The last line with text in the stored beginning of standard error, shortened; None if there
    /// is none, or if standard error was not read.
    pub complaint: Option<String>,
}

/// Why a program has no usable result.
#[derive(Debug)]
pub enum ProgramFault {
    /// The program exceeded this time limit.
    Late(Span),
    /// The program's output exceeded the limit or could not be read.
    Output(io::Error),
}

/// A program that runs, or that has been killed but can still exist.
#[derive(Debug)]
pub struct RunningProgram {
    pid: Pid,
    /// A pidfd: readable when the program has exited.
    exited: OwnedFd,
    has_group: bool,
    keeps_leftovers: bool,
    mode: OutputMode,
    /// The program's output; None if it is closed or not read.
    out: Option<File>,
    output: Vec<u8>,
    complaints: Option<StandardError>,
    timeout: Span,
    until: Span,
    /// The error because of which the output cannot be used.
    fault: Option<io::Error>,
    /// Whether the result was returned, or the program was stopped.
    is_finished: bool,
    /// Whether the program was reaped. Then its pid can belong to another process.
    is_gone: bool,
    end: Option<ProcessEnd>,
}

impl<'a> ProgramCall<'a> {
    /// A call without input, with the environment and user of this process.
    pub fn new(words: &'a [String], timeout: Span) -> ProgramCall<'a> {
        ProgramCall {
            words,
            input: b"",
            surroundings: Surroundings::Shared,
            identity: None,
            confinement: Confinement::default(),
            timeout,
            output: OutputMode::UntilExit,
        }
    }

    /// Starts the program in the directory `/`, in a new process group. The time limit begins at
    /// `now`.
    pub fn start(&self, now: Span) -> io::Result<RunningProgram> {
        let mut command = self.command()?;
        let input = process::in_memory(self.input)?;
        command.stdin(Stdio::from(input)).stderr(Stdio::null());
        let complaints = if self.output == OutputMode::UntilExit {
            let complaints = StandardError::new()?;
            command.stderr(complaints.stdio()?);
            Some(complaints)
        } else {
            None
        };
        command.stdout(if self.output == OutputMode::Discarded {
            Stdio::null()
        } else {
            Stdio::piped()
        });
        let mut child = command.spawn()?;
        let pid = Pid::from_raw(child.id() as i32);
        let out = child.stdout.take().map(OwnedFd::from);
        let exited = match without_blocking(out.as_ref()).and_then(|()| process::pidfd(pid)) {
            Ok(exited) => exited,
            Err(error) => {
                let _ = child.kill().and_then(|()| child.wait());
                return Err(error);
            }
        };
        Ok(RunningProgram {
            has_group: true,
            keeps_leftovers: matches!(self.surroundings, Surroundings::Shared),
            mode: self.output,
            complaints,
            ..RunningProgram::new(pid, exited, out.map(File::from), now, self.timeout)
        })
    }

    fn command(&self) -> io::Result<Command> {
        let (program, arguments) = self
            .words
            .split_first()
            .ok_or_else(|| io::Error::other("the command is empty"))?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir("/").process_group(0);
        let is_own = match self.surroundings {
            Surroundings::Shared => false,
            Surroundings::Own(environment) => {
                command.env_clear().env("PATH", PATH);
                command.envs(environment.iter().copied());
                true
            }
        };
        let Confinement { cgroup, limits } = self.confinement.clone();
        let members = cgroup.map(Cgroup::members).transpose()?;
        let identity = self
            .identity
            .map(|(account, groups)| (account.clone(), groups.to_vec()));
        let outlives_us = self.output == OutputMode::Discarded;
        // SAFETY: between fork and exec only system calls are made, and no memory is allocated. The
        // exception is `become_user`, which allocates if root privileges could not be dropped.
        unsafe {
            command.pre_exec(move || {
                if let Some(mut members) = members.as_ref() {
                    // 0 means the process that writes it. If the process cannot be moved to the
                    // cgroup, the resource limits still apply.
                    let _ = members.write(b"0");
                }
                limits
                    .iter()
                    .try_for_each(|&(resource, limit)| set_limit(resource, limit))?;
                if let Some((account, groups)) = &identity {
                    user::become_user(account, groups)?;
                }
                // A change of user clears the parent-death signal, so set the signal after the
                // change.
                if !outlives_us {
                    prctl::set_pdeathsig(Signal::SIGKILL)?;
                }
                if is_own {
                    // This daemon can have inherited open descriptors from its parent.
                    process::close_others_on_exec();
                    process::lower_descriptor_limit();
                }
                process::unblock_signals()
            });
        }
        Ok(command)
    }
}

fn set_limit(resource: Resource, limit: u64) -> io::Result<()> {
    let (_, hard) = getrlimit(resource)?;
    Ok(setrlimit(resource, limit.min(hard), limit.min(hard))?)
}

fn without_blocking(out: Option<&OwnedFd>) -> io::Result<()> {
    if let Some(out) = out {
        fcntl(out, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    Ok(())
}

impl RunningProgram {
    fn new(
        pid: Pid,
        exited: OwnedFd,
        out: Option<File>,
        now: Span,
        timeout: Span,
    ) -> RunningProgram {
        RunningProgram {
            pid,
            exited,
            has_group: false,
            keeps_leftovers: true,
            mode: OutputMode::UntilExit,
            out,
            output: Vec::new(),
            complaints: None,
            timeout,
            until: Span(now.0.saturating_add(timeout.0)),
            fault: None,
            is_finished: false,
            is_gone: false,
            end: None,
        }
    }

    /// Runs `work` in a worker: a fork of this process, which must be single-threaded. The worker
    /// is killed if this process ends. [`ProgramResult::work`] returns the result of `work`.
    pub fn fork(
        now: Span,
        timeout: Span,
        work: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<RunningProgram> {
        let (near, far) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        match process::fork()? {
            Fork::Child => {
                let _ = prctl::set_pdeathsig(Signal::SIGKILL);
                process::close_all_but(&[far.as_fd()]);
                let error = work().err().map(|error| error.to_string());
                let text = error.unwrap_or_default();
                let length = text.len().min(WORKER_LIMIT);
                let _ = File::from(far).write_all(&text.as_bytes()[..length]);
                process::leave(i32::from(!text.is_empty()))
            }
            Fork::Parent(pid) => {
                let exited = process::pidfd(pid).inspect_err(|_| process::end(pid.as_raw()))?;
                let out = Some(File::from(near));
                Ok(RunningProgram::new(pid, exited, out, now, timeout))
            }
        }
    }

    /// The descriptors that become readable when [`poll`](Self::poll) has work to do, or when
    /// [`is_gone`](Self::is_gone) can reap a finished program.
    pub fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let exit_counts = self.is_finished || self.ends_with_exit();
        let exited = (exit_counts && !self.is_gone).then(|| self.exited.as_fd());
        let out = self.out.as_ref().map(AsFd::as_fd);
        exited.into_iter().chain(out)
    }

    /// When the program exceeds its time limit; None if it is finished.
    pub fn next(&self) -> Option<Span> {
        (!self.is_finished).then_some(self.until)
    }

    /// Returns the program's result once, when the program has finished or has exceeded its time
    /// limit at `now`; at all other times None. With the result, also [kills](Self::kill) the
    /// program, except if it has [`Surroundings::Shared`] and has exited with usable output. The
    /// program can still exist until [`is_gone`](Self::is_gone) returns true.
    pub fn poll(&mut self, now: Span) -> Option<ProgramResult> {
        if self.is_finished {
            return None;
        }
        // Check this before reading, so that the output of an exited program is complete.
        let has_exited = process::is_over(&self.exited);
        if let Err(error) = self.read() {
            self.kill();
            self.out = None;
            self.fault = Some(error);
        }
        let is_complete = if self.ends_with_exit() {
            has_exited
        } else {
            self.out.is_none()
        };
        if !is_complete && now < self.until {
            return None;
        }
        if !(has_exited && self.keeps_leftovers) {
            self.kill();
        }
        self.finish();
        let exit = match self.fault.take() {
            Some(error) => Err(ProgramFault::Output(error)),
            None if is_complete => Ok(self.exit()),
            None => Err(ProgramFault::Late(self.timeout)),
        };
        let complaint = self.complaints.as_ref().and_then(StandardError::last);
        Some(ProgramResult { exit, complaint })
    }

    fn ends_with_exit(&self) -> bool {
        self.mode != OutputMode::UntilClosed || self.fault.is_some()
    }

    fn read(&mut self) -> io::Result<()> {
        let Some(out) = &mut self.out else {
            return Ok(());
        };
        let left = (OUTPUT_LIMIT + 1).saturating_sub(self.output.len()) as u64;
        match out.take(left).read_to_end(&mut self.output) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
            Ok(_) if self.output.len() > OUTPUT_LIMIT => {
                Err(io::Error::other("the output exceeds 1 MiB"))
            }
            Ok(_) => {
                self.out = None;
                Ok(())
            }
        }
    }

    fn exit(&mut self) -> HookExit {
        let status = match self.end {
            Some(ProcessEnd::Exited(status)) => Some(status),
            Some(ProcessEnd::Signaled(_)) | None => None,
        };
        HookExit {
            status,
            text: String::from_utf8_lossy(&std::mem::take(&mut self.output)).into_owned(),
        }
    }

    fn finish(&mut self) {
        self.is_finished = true;
        self.out = None;
        self.is_gone();
    }

    /// Whether the program has ended and was reaped. A killed program that is stuck in the kernel
    /// still exists.
    pub fn is_gone(&mut self) -> bool {
        if self.is_gone {
            return true;
        }
        match process::reap(Some(self.pid)) {
            Reaped::Living => {}
            Reaped::NoChild => self.is_gone = true,
            Reaped::Ended(_, end) => {
                self.end = Some(end);
                self.is_gone = true;
            }
        }
        self.is_gone
    }

    /// How the program ended; None until it is gone.
    pub fn end(&self) -> Option<ProcessEnd> {
        self.end
    }

    /// Kills the program like [`kill`](Self::kill), and discards its result.
    pub fn stop(&mut self) {
        self.kill();
        self.finish();
    }

    /// Kills the program's process group; for a worker, only its process.
    pub fn kill(&self) {
        if self.is_gone {
            return;
        }
        if self.has_group {
            let _ = killpg(self.pid, Signal::SIGKILL);
        } else {
            let _ = process::send_to(&self.exited, Signal::SIGKILL);
        }
    }

    /// Waits until the program has finished, and returns its result.
    pub fn wait(&mut self) -> ProgramResult {
        loop {
            if let Some(result) = self.poll(clock::monotonic()) {
                return result;
            }
            self.wait_for_news(None);
        }
    }

    /// Waits until the program is gone, for up to `limit`.
    pub fn wait_until_gone(&mut self, limit: Span) {
        let until = Span(clock::monotonic().0.saturating_add(limit.0));
        while !self.is_gone() && clock::monotonic() < until {
            self.wait_for(until, None);
        }
    }

    /// Waits until [`poll`](Self::poll) has work to do or `other` is readable. Returns whether
    /// `other` is readable.
    pub fn wait_for_news(&self, other: Option<BorrowedFd>) -> bool {
        self.wait_for(self.until, other)
    }

    fn wait_for(&self, until: Span, other: Option<BorrowedFd>) -> bool {
        let mut fds: Vec<PollFd> = other
            .into_iter()
            .chain(self.watched())
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        let left = until.0.saturating_sub(clock::monotonic().0).max(0);
        let _ = poll(
            &mut fds,
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
        );
        other.is_some() && fds[0].any() == Some(true)
    }
}

impl ProgramResult {
    /// Appends `complaint`, if any, to the text of a failure.
    pub fn blame(&self, why: String) -> String {
        match &self.complaint {
            Some(complaint) => format!("{why}; standard error: {complaint}"),
            None => why,
        }
    }

    /// The result of a [worker](RunningProgram::fork). The error is the worker's error as text, or
    /// why the worker did not finish.
    pub fn work(self) -> Result<(), String> {
        match self.exit {
            Ok(exit) if exit.status == Some(0) => Ok(()),
            Ok(exit) if exit.text.is_empty() => Err("it was killed".to_string()),
            Ok(exit) => Err(exit.text),
            Err(fault) => Err(fault.to_string()),
        }
    }
}

impl fmt::Display for ProgramFault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ProgramFault::Late(timeout) => {
                write!(f, "it took longer than {} s", timeout.as_seconds())
            }
            ProgramFault::Output(error) => error.fmt(f),
        }
    }
}

/// Starts a program with this process's input, output and terminal. The caller must reap the
/// program.
pub fn start_in_foreground<S: AsRef<OsStr>>(program: &OsStr, arguments: &[S]) -> io::Result<Pid> {
    let mut command = Command::new(program);
    command.args(arguments);
    // SAFETY: between fork and exec, only one system call is made, which changes no memory.
    unsafe {
        command.pre_exec(process::unblock_signals);
    }
    let child = command.spawn()?;
    Ok(Pid::from_raw(child.id() as i32))
}

#[cfg(test)]
mod tests;
