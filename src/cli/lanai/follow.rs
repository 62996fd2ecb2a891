//! Following a job: copies its output as it is written, until the job has finished.
//!
//! schedd reports each change of the job. Output files have no such notification that works on all
//! file systems, so a running job's files are read again every [`PAUSE`].

use super::output_files;
use super::table::printable;
use crate::cli::client::exit::Failure;
use crate::cli::client::reconnect;
use crate::cli::client::source::QuerySource;
use crate::cli::session::status_line::StatusLine;
use crate::model::job::output_path::OutputStream;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::shown::comment;
use crate::sys::home::Home;
use crate::wire::client::{Client, ClientError};
use crate::wire::message::{ClientRequest, Detail, JobRecord, Question, ServerFacts, WatchedJobs};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use std::fs::File;
use std::io::{Read, Write, stderr, stdout};
use std::os::fd::AsFd;

/// The delay in milliseconds between two reads of a running job's output.
const PAUSE: u16 = 200;

/// The size of a read in bytes.
const PIECE: usize = 1 << 16;

/// How following ended.
#[derive(Debug)]
pub enum FollowEnd {
    /// The job has finished, and all its output is copied.
    Ended(Box<JobRecord>),
    /// A signal arrived; [`Follower::until_end`] can be called again.
    Signal(Signal),
}

/// A job whose output is copied to the output of this process.
pub struct Follower<'a> {
    home: Home,
    client: Client,
    job: JobId,
    streams: Vec<FollowedStream>,
    signals: Option<&'a SignalFd>,
    line: StatusLine,
    /// The number of the last change received from schedd; 0 before the first.
    seen: u64,
    /// True if schedd has a request for the next change.
    is_watching: bool,
    /// The attempt whose output is copied.
    attempt: u32,
    latest: Option<(Box<JobRecord>, ServerFacts)>,
}

struct FollowedStream {
    stream: OutputStream,
    file: Option<File>,
}

impl<'a> Follower<'a> {
    /// Follows these streams of a job. Output goes to standard output, errors to standard error.
    /// `signals` can interrupt.
    pub fn new(
        home: &Home,
        job: JobId,
        streams: &[OutputStream],
        signals: Option<&'a SignalFd>,
    ) -> Result<Follower<'a>, Failure> {
        Ok(Follower {
            home: home.clone(),
            client: Client::connect(home)?,
            job,
            streams: streams
                .iter()
                .map(|&stream| FollowedStream { stream, file: None })
                .collect(),
            signals,
            line: StatusLine::new(),
            seen: 0,
            is_watching: false,
            attempt: 0,
            latest: None,
        })
    }

    /// Copies output until the job has finished or a signal arrives.
    pub fn until_end(&mut self) -> Result<FollowEnd, Failure> {
        loop {
            if self.latest.is_none() {
                self.query()?;
            }
            let copied = self.copy()?;
            let is_finished = self.state() == Some(JobState::Finished);
            if is_finished && !copied {
                self.line.clear();
                if let Some((record, _)) = self.latest.take() {
                    return Ok(FollowEnd::Ended(record));
                }
            }
            if !is_finished && let Some(signal) = self.wait()? {
                self.line.clear();
                return Ok(FollowEnd::Signal(signal));
            }
        }
    }

    fn state(&self) -> Option<JobState> {
        self.latest
            .as_ref()
            .map(|(record, _)| match record.job.life.state {
                JobState::Expired => JobState::Finished,
                state => state,
            })
    }

    /// Queries the job, and shows in the status line why it waits.
    fn query(&mut self) -> Result<(), Failure> {
        let question = Question::JobsById(vec![self.job], Detail::Whole);
        let answers = QuerySource::open(&self.home)?.ask(&question)?;
        let Some(record) = answers.jobs.into_iter().next() else {
            let id = self.job.full(&answers.server.name);
            return Err(Failure::of_job("lanai", &Refusal::unknown_job(), &id));
        };
        if record.job.life.attempt != self.attempt {
            if self.streams.iter().any(|followed| followed.file.is_some()) {
                self.line.clear();
                let _ = writeln!(stderr(), "lanai: job {} starts again", self.job);
            }
            for followed in &mut self.streams {
                followed.file = None;
            }
            self.attempt = record.job.life.attempt;
        }
        match record.job.life.state {
            JobState::Queued | JobState::Held | JobState::Waiting => {
                let reason = comment::of(&record, &answers.server);
                let line = format!("job {}: {}", self.job, printable(&reason));
                self.line.show_soon(&line);
            }
            _ => self.line.clear(),
        }
        self.latest = Some((Box::new(record), answers.server));
        Ok(())
    }

    /// Copies the output written since the last call. Returns whether there was any.
    fn copy(&mut self) -> Result<bool, Failure> {
        let Some((record, server)) = &self.latest else {
            return Ok(false);
        };
        let job = &record.job;
        let has_started = job.life.run.is_some() && self.state() != Some(JobState::Queued);
        let mut copied = false;
        for followed in &mut self.streams {
            // A joined stream has no file of its own.
            let is_own = output_files::stream_of(job, followed.stream) == followed.stream;
            if followed.file.is_none() && has_started && is_own {
                followed.file = output_files::open(job, followed.stream, &server.name).ok();
            }
            if let Some(file) = &mut followed.file {
                copied |= copy(file, followed.stream)?;
            }
        }
        Ok(copied)
    }

    /// Waits for a change of the job, for further output or for a signal. Returns the signal.
    fn wait(&mut self) -> Result<Option<Signal>, Failure> {
        if !self.is_watching {
            let request = ClientRequest::Watch {
                of: WatchedJobs::Jobs(vec![self.job]),
                since: self.seen,
            };
            if self.client.begin(&request).is_err() {
                return self.reconnect().map(|()| None);
            }
            self.is_watching = true;
        }
        let timeout = match self.state() {
            Some(JobState::Running | JobState::Suspended) => PollTimeout::from(PAUSE),
            _ if self.line.is_due => PollTimeout::from(PAUSE),
            _ => PollTimeout::NONE,
        };
        let (changed, signaled) = ready(&self.client, self.signals, timeout);
        if signaled && let Some(signal) = self.next_signal() {
            return Ok(Some(signal));
        }
        if changed {
            self.is_watching = false;
            self.latest = None;
            match self.client.changed() {
                Ok(seen) => self.seen = seen,
                Err(ClientError::Unreachable(_)) => self.reconnect()?,
                Err(error) => return Err(error.into()),
            }
        } else if self.line.is_due {
            self.line.show_again();
        }
        Ok(None)
    }

    fn next_signal(&self) -> Option<Signal> {
        let received = self.signals?.read_signal().ok()??;
        Signal::try_from(received.ssi_signo as i32).ok()
    }

    fn reconnect(&mut self) -> Result<(), Failure> {
        self.line.clear();
        self.client = reconnect::connect("lanai", &self.home)?;
        (self.seen, self.is_watching, self.latest) = (0, false, None);
        Ok(())
    }
}

/// Waits until schedd has sent something, a signal has arrived or the time is over. Returns which
/// of the first two happened.
fn ready(client: &Client, signals: Option<&SignalFd>, timeout: PollTimeout) -> (bool, bool) {
    let mut fds = vec![PollFd::new(client.stream().as_fd(), PollFlags::POLLIN)];
    fds.extend(signals.map(|signals| PollFd::new(signals.as_fd(), PollFlags::POLLIN)));
    match poll(&mut fds, timeout) {
        Err(Errno::EINTR) | Ok(0) => (false, false),
        _ => {
            let mut any = fds.iter().map(|fd| fd.any() == Some(true));
            (any.next() == Some(true), any.next() == Some(true))
        }
    }
}

/// Copies a file from its current position to its end. Returns whether there was anything.
fn copy(file: &mut File, stream: OutputStream) -> Result<bool, Failure> {
    let mut piece = vec![0; PIECE];
    let mut copied = false;
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            break;
        }
        copied = true;
        match stream {
            OutputStream::Output => stdout().write_all(&piece[..length])?,
            OutputStream::Error => stderr().write_all(&piece[..length])?,
        }
    }
    if copied {
        stdout().flush()?;
    }
    Ok(copied)
}
