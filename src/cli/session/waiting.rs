//! Waiting until `qsub -I` can connect to the job's terminal. A status line shows why the job
//! waits. Signals can end the wait.

use super::block;
use super::status_line::{self, StatusLine};
use crate::cli::client::exit::{self, Failure};
use crate::cli::client::installation;
use crate::cli::client::reconnect;
use crate::cli::client::source::QuerySource;
use crate::model::job::Exit;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::shown::comment;
use crate::shown::timestamp;
use crate::sys::clock::wall;
use crate::sys::home::Home;
use crate::wire::client::{Client, ClientError};
use crate::wire::message::{
    ClientRequest, Detail, JobRecord, Question, Reply, ServerFacts, WatchedJobs,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use std::io::stdin;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// The exit status if SIGINT ended the wait, or if the job was deleted, does not exist any more, or
/// ended with status 0 before its terminal was connected.
const GONE: u8 = 1;

/// The exit status if a signal other than SIGINT ended the wait.
const INTERRUPTED: u8 = 2;

/// How the wait ended.
#[derive(Debug)]
pub enum WaitEnd {
    /// The connection leads to the job's terminal.
    Connected(UnixStream),
    /// SIGINT ended the wait; qsub exits with this status.
    Exited(u8),
}

/// A `qsub -I` that waits for the terminal of its job.
pub struct WaitingQsub<'a> {
    home: &'a Home,
    id: &'a str,
    job: JobId,
    client: Client,
    signals: &'a SignalFd,
    line: StatusLine,
    /// The number of the last change received from schedd.
    seen: u64,
}

/// The state of the job.
enum WaitStage {
    /// The job waits or is starting. The text gives the reason.
    Waits(String),
    /// The job has started, so that qsub can connect to its terminal.
    Runs,
    /// The job has ended with this exit status and comment. None if the job has no exit status, or
    /// does not exist any more.
    Ended(Option<(Exit, String)>),
}

impl<'a> WaitingQsub<'a> {
    /// Starts to wait for the job with the full id `id`.
    pub fn new(
        home: &'a Home,
        id: &'a str,
        job: JobId,
        client: Client,
        signals: &'a SignalFd,
    ) -> WaitingQsub<'a> {
        WaitingQsub {
            home,
            id,
            job,
            client,
            signals,
            line: StatusLine::new(),
            seen: 0,
        }
    }

    /// Waits until the job's terminal is connected, or SIGINT ends the wait. Fails if another
    /// signal ends the wait, or if the job ends before its terminal is connected.
    pub fn until_connected(mut self) -> Result<WaitEnd, Failure> {
        loop {
            let end = match self.wait_for_change()? {
                Some(code) => Some(WaitEnd::Exited(code)),
                None => self.try_connecting()?,
            };
            if let Some(end) = end {
                self.line.clear();
                return Ok(end);
            }
        }
    }

    /// Waits for a change of the job, and reconnects to schedd if necessary. Returns the exit
    /// status if SIGINT ends the wait; fails if another signal ends it.
    fn wait_for_change(&mut self) -> Result<Option<u8>, Failure> {
        let jobs = WatchedJobs::Jobs(vec![self.job]);
        let request = self.client.begin(&ClientRequest::Watch {
            of: jobs,
            since: self.seen,
        });
        loop {
            let Ok(()) = request else {
                return self.reconnect();
            };
            if let Some(code) = self.handle_signals()? {
                return Ok(Some(code));
            }
            let timeout = if self.line.is_due {
                PollTimeout::from(status_line::DELAY)
            } else {
                PollTimeout::NONE
            };
            if self.is_ready(self.client.stream().as_fd(), timeout) {
                match self.client.changed() {
                    Ok(now) => self.seen = now,
                    Err(ClientError::Unreachable(_)) => return self.reconnect(),
                    Err(error) => return Err(error.into()),
                }
                return Ok(None);
            }
            if self.line.is_due {
                self.line.show_again();
            }
        }
    }

    /// Waits until `fd` is readable, a signal arrives or `timeout` has passed. Returns whether `fd`
    /// is readable.
    fn is_ready(&self, fd: BorrowedFd, timeout: PollTimeout) -> bool {
        let mut fds = [
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(fd, PollFlags::POLLIN),
        ];
        poll(&mut fds, timeout).is_ok() && fds[1].any() == Some(true)
    }

    /// Tries to connect until schedd responds again. Returns the exit status if SIGINT ends the
    /// wait; fails if another signal ends it.
    fn reconnect(&mut self) -> Result<Option<u8>, Failure> {
        let mut hint = installation::other();
        loop {
            match Client::connect(self.home) {
                Ok(client) => {
                    (self.client, self.seen) = (client, 0);
                    return Ok(None);
                }
                Err(ClientError::Unreachable(why)) => {
                    self.line.clear();
                    if let Some(hint) = hint.take() {
                        eprintln!("qsub: {hint}");
                    }
                    self.line.show(&format!("waiting for schedd: {why}"));
                }
                Err(error) => return Err(error.into()),
            }
            if let Some(code) = self.pause()? {
                return Ok(Some(code));
            }
        }
    }

    /// Waits before the next attempt to reach schedd or a node. Returns the exit status if SIGINT
    /// ends the wait; fails if another signal ends it.
    fn pause(&mut self) -> Result<Option<u8>, Failure> {
        let mut fds = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let _ = poll(
            &mut fds,
            PollTimeout::try_from(reconnect::PAUSE).unwrap_or(PollTimeout::MAX),
        );
        self.handle_signals()
    }

    /// Connects to the job's terminal if the job has started. Returns None if the job still waits,
    /// or if qsub had to reconnect to schedd.
    fn try_connecting(&mut self) -> Result<Option<WaitEnd>, Failure> {
        loop {
            match self.stage() {
                Ok(WaitStage::Waits(reason)) => {
                    self.line.show_soon(&reason);
                    return Ok(None);
                }
                Ok(WaitStage::Ended(end)) => return Err(self.early_end(end)),
                Ok(WaitStage::Runs) => {}
                // schedd may have shut down before it replied.
                Err(_) => {
                    let code = match self.pause()? {
                        Some(code) => Some(code),
                        None => self.reconnect()?,
                    };
                    return Ok(code.map(WaitEnd::Exited));
                }
            }
            match self
                .client
                .call_for_descriptor(&ClientRequest::Attach(self.job))
            {
                Ok((Reply::Attached, Some(connection))) => {
                    return Ok(Some(WaitEnd::Connected(connection.into())));
                }
                Ok((Reply::Refused(refusal), _)) if !is_transient(&refusal) => {
                    return Err(refusal.into());
                }
                Ok((Reply::Refused(refusal), _)) => self.line.show(&refusal.text),
                Err(ClientError::Unreachable(_)) => {
                    return Ok(self.reconnect()?.map(WaitEnd::Exited));
                }
                Ok(_) => return Err(exit::protocol_error()),
                Err(error) => return Err(error.into()),
            }
            if let Some(code) = self.pause()? {
                return Ok(Some(WaitEnd::Exited(code)));
            }
        }
    }

    fn stage(&self) -> anyhow::Result<WaitStage> {
        let question = Question::JobsById(vec![self.job], Detail::Whole);
        let answers = QuerySource::open(self.home).and_then(|mut source| source.ask(&question))?;
        let Some(record) = answers.jobs.into_iter().next() else {
            return Ok(WaitStage::Ended(None));
        };
        Ok(match record.job.life.state {
            state
                if state.is_under_way()
                    && record
                        .job
                        .life
                        .open_run()
                        .is_some_and(|run| run.session.is_some()) =>
            {
                WaitStage::Runs
            }
            JobState::Finished => {
                let comment = comment::of(&record, &answers.server).into_owned();
                WaitStage::Ended(record.job.life.exit.map(|exit| (exit, comment)))
            }
            _ => WaitStage::Waits(wait_reason(&record, &answers.server)),
        })
    }

    /// The failure for a job that ended before its terminal was connected.
    fn early_end(&self, end: Option<(Exit, String)>) -> Failure {
        match end {
            Some((exit, comment)) if !exit.deleted => Failure::new(
                u8::try_from(exit.status.rem_euclid(256))
                    .unwrap_or(GONE)
                    .max(GONE),
                comment,
            ),
            _ => Failure::new(GONE, format!("job {} apparently deleted", self.id)),
        }
    }

    /// Handles signals. Returns the exit status if SIGINT ends the wait; fails if another signal
    /// ends it.
    fn handle_signals(&mut self) -> Result<Option<u8>, Failure> {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            match Signal::try_from(signal.ssi_signo as i32) {
                Ok(Signal::SIGWINCH | Signal::SIGCONT) => self.line.show_again(),
                Ok(Signal::SIGTTOU) => {}
                Ok(Signal::SIGINT) if !self.confirms_end()? => self.line.show_again(),
                Ok(Signal::SIGINT) => {
                    self.delete()?;
                    return Ok(Some(GONE));
                }
                _ => {
                    self.delete()?;
                    let text = format!(
                        "wait for job {} interrupted by signal {}",
                        self.id, signal.ssi_signo
                    );
                    return Err(Failure::new(INTERRUPTED, text));
                }
            }
        }
        Ok(None)
    }

    /// Deletes the job, then prints a message. Ignores errors of printing, because the terminal can
    /// be closed.
    fn delete(&mut self) -> Result<(), Failure> {
        self.line.clear();
        let reply = block::delete(self.home, self.job)?;
        if let Reply::Refused(refusal) = reply {
            return Err(Failure::of_job("qsub", &refusal, self.id));
        }
        let _ = exit::print(format!("Job {} is being deleted\n", self.id));
        Ok(())
    }

    /// Asks the user whether to delete the job. A closed terminal, the end of the input, SIGHUP,
    /// SIGTERM and SIGQUIT count as yes. After any other signal, qsub repeats the question.
    fn confirms_end(&mut self) -> Result<bool, Failure> {
        self.line.clear();
        loop {
            if exit::print("Do you wish to terminate the job and exit (y|[n])? ").is_err() {
                return Ok(true);
            }
            let mut answer = [0; 256];
            if !self.is_ready(stdin().as_fd(), PollTimeout::NONE) {
                match self.signals.read_signal() {
                    Ok(Some(signal)) if signal.ssi_signo == Signal::SIGINT as u32 => continue,
                    Ok(Some(signal)) if is_deadly(signal.ssi_signo) => return Ok(true),
                    _ => continue,
                }
            }
            let length = nix::unistd::read(stdin(), &mut answer).unwrap_or(0);
            match answer[..length].trim_ascii() {
                [b'y' | b'Y', ..] => return Ok(true),
                _ if length == 0 => return Ok(true),
                [] | [b'n' | b'N', ..] => return Ok(false),
                _ if exit::print("yes or no please\n").is_err() => return Ok(true),
                _ => (),
            }
        }
    }
}

fn is_deadly(signal: u32) -> bool {
    [Signal::SIGHUP, Signal::SIGTERM, Signal::SIGQUIT]
        .iter()
        .any(|&deadly| deadly as u32 == signal)
}

/// Whether a refusal may be temporary, because the node is unreachable or the job has just changed.
fn is_transient(refusal: &Refusal) -> bool {
    refusal.code == Refusal::no_terminal("").code || *refusal == Refusal::bad_state()
}

/// The reason why the job waits. For a queued job with a planned start in the future, the text
/// includes this start.
fn wait_reason(record: &JobRecord, server: &ServerFacts) -> String {
    let comment = comment::of(record, server);
    let promise = if record.job.life.state == JobState::Queued {
        record.promise.as_ref()
    } else {
        None
    };
    let planned = promise.map(|promise| server.clock.wall(promise.at));
    match planned.and_then(|start| timestamp::start_column(start, wall())) {
        Some(start) => format!(
            "{}; planned start: {start}",
            comment.trim_start_matches("Not Running: ")
        ),
        None => comment.into_owned(),
    }
}
