//! The tasks that a pbsdsh process has requested, and the messages between pbsdsh and the noded of
//! this host.
//!
//! noded and schedd do not store the requests. So pbsdsh repeats requests that may have been lost,
//! for instance after a restart of noded or schedd. A task that is requested twice runs once.

use super::block::deadly_signals;
use crate::cli::client::exit::Failure;
use crate::model::job::task::{MOST, TaskStage, TaskToken};
use crate::model::job::{Attempt, TaskNumber};
use crate::model::job_id::JobId;
use crate::model::time::Span;
use crate::sys::{clock, env, process, socket};
use crate::wire::frame::{FrameError, FrameSocket};
use crate::wire::peer;
use crate::wire::task::{
    LARGEST_TASK_SET, TaskClientMessage, TaskNews, TaskProgram, TaskRequestKind,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

/// The time after which a request is repeated if it has no reply, or if its task has not started.
const REPEAT_AFTER: Span = Span::seconds(2);
/// The delay between two attempts to connect to noded.
const RECONNECT_PAUSE: Span = Span(100);
/// A message is printed if there is no connection to noded for this time.
const REPORT_AFTER: Span = Span::seconds(5);

/// The job and task that this process belongs to, as its environment states.
#[derive(Clone, Debug)]
pub struct Membership {
    socket: PathBuf,
    job: JobId,
    attempt: Attempt,
    task: TaskNumber,
    cookie: String,
}

impl Membership {
    /// Reads the membership from the environment. None if a variable is missing or invalid, for
    /// instance outside of jobs.
    pub fn of_this_process() -> Option<Membership> {
        Some(Membership {
            socket: env::var("LANAI_TASKS")
                .filter(|path| !path.is_empty())?
                .into(),
            job: env::text("PBS_JOBID")?.split('.').next()?.parse().ok()?,
            attempt: env::text("LANAI_ATTEMPT")?.parse().ok()?,
            task: env::text("PBS_TASKNUM")?
                .parse::<u32>()
                .ok()?
                .checked_sub(1)?,
            cookie: env::text("PBS_JOBCOOKIE")?,
        })
    }

    fn hello(&self) -> TaskClientMessage {
        TaskClientMessage::Hello {
            job: self.job,
            attempt: self.attempt,
            task: self.task,
            cookie: self.cookie.clone(),
        }
    }
}

/// The options of pbsdsh.
#[derive(Clone, Copy, Debug)]
pub struct TaskOptions {
    /// Print a line for each start and each end, and how many tasks pbsdsh still waits for.
    pub verbose: bool,
    /// Exit as soon as all tasks have started, without waiting until they end.
    pub leave: bool,
}

/// The tasks and their states.
#[derive(Debug)]
pub struct TaskSet {
    membership: Membership,
    program: TaskProgram,
    options: TaskOptions,
    members: Vec<TaskMember>,
    connection: NodeConnection,
    signals: SignalFd,
    /// The exit status after a signal or refusal that interrupts pbsdsh, unless a task fails. None
    /// if pbsdsh was not interrupted. Before an interrupted pbsdsh exits, it ends the tasks.
    interrupted: Option<u8>,
}

#[derive(Debug)]
struct TaskMember {
    token: TaskToken,
    slot: u32,
    stage: Option<TaskStage>,
    /// True if the task needs no request, because a request about it has been sent.
    is_requested: bool,
}

impl TaskMember {
    fn is_open(&self) -> bool {
        !matches!(self.stage, Some(TaskStage::Over(_)))
    }

    fn needs_request(&self) -> bool {
        self.is_open() && !self.is_requested
    }

    fn runs(&self) -> bool {
        self.stage == Some(TaskStage::Running)
    }
}

/// The connection to noded.
#[derive(Debug)]
struct NodeConnection {
    link: Option<FrameSocket>,
    /// When to connect, if there is no connection.
    connect_at: Span,
    disconnected_since: Span,
    /// Whether the lack of a connection has been reported to the user.
    is_reported: bool,
    /// True if a request has no reply yet.
    awaits_reply: bool,
    /// When requests are repeated if they have no reply, or if their tasks have not started.
    repeat_at: Span,
}

impl TaskSet {
    /// Creates an empty set. From now on, a signal that would end this process first ends the
    /// tasks.
    pub fn new(
        membership: Membership,
        program: TaskProgram,
        options: TaskOptions,
    ) -> Result<TaskSet, Failure> {
        let deadly = deadly_signals();
        deadly.thread_block().map_err(io::Error::from)?;
        let signals = SignalFd::with_flags(&deadly, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK);
        let signals = signals.map_err(io::Error::from)?;
        let now = clock::monotonic();
        let connection = NodeConnection {
            link: None,
            connect_at: now,
            disconnected_since: now,
            is_reported: false,
            awaits_reply: false,
            repeat_at: now + REPEAT_AFTER,
        };
        Ok(TaskSet {
            membership,
            program,
            options,
            members: Vec::new(),
            connection,
            signals,
            interrupted: None,
        })
    }

    /// Starts a task for each of the `slots`. A slot is a line of the node file; lines are numbered
    /// from 0. Waits until all tasks have ended, or, with the option `leave`, until all tasks have
    /// started. Returns false if pbsdsh was interrupted; the caller must then not start further
    /// tasks.
    pub fn run(&mut self, slots: &[u32]) -> Result<bool, Failure> {
        let before = self.members.len();
        for &slot in slots {
            let random = u128::from_le_bytes(process::random()?) as TaskToken;
            self.members.push(TaskMember {
                token: random.max(1),
                slot,
                stage: None,
                is_requested: false,
            });
        }
        self.print_spawned(before);
        while !self.is_complete() {
            self.connect_if_due();
            self.send_next_request();
            self.wait();
            self.take_signals();
            self.receive()?;
        }
        self.release(before);
        Ok(self.interrupted.is_none())
    }

    /// The exit status, modulo 256, of the failed task that was requested last. If no task failed,
    /// the exit status for the signal or refusal that interrupted pbsdsh, or 0.
    pub fn status(&self) -> u8 {
        let failed = self
            .members
            .iter()
            .rev()
            .find_map(|member| match member.stage {
                Some(TaskStage::Over(status)) if status != 0 => Some(status.rem_euclid(256) as u8),
                _ => None,
            });
        failed.or(self.interrupted).unwrap_or(0)
    }

    fn is_complete(&self) -> bool {
        let leaves = self.options.leave && self.interrupted.is_none();
        self.members
            .iter()
            .all(|member| !member.is_open() || leaves && member.runs())
    }

    // ------------------------------------------------------------------------- sending

    fn connect_if_due(&mut self) {
        let now = clock::monotonic();
        if self.connection.link.is_some() || now < self.connection.connect_at {
            return;
        }
        match self.connect() {
            Ok(link) => {
                self.connection.link = Some(link);
                self.connection.is_reported = false;
                self.reset_requests(|_| true);
                self.send(&self.membership.hello());
            }
            Err(error) => {
                self.connection.connect_at = now + RECONNECT_PAUSE;
                if !self.connection.is_reported
                    && now >= self.connection.disconnected_since + REPORT_AFTER
                {
                    self.connection.is_reported = true;
                    let socket = self.membership.socket.display();
                    eprintln!(
                        "pbsdsh: noded on this host does not respond at {socket} ({error}): \
                         still trying"
                    );
                }
            }
        }
    }

    fn connect(&self) -> io::Result<FrameSocket> {
        let stream = socket::connect(&self.membership.socket)?;
        let server = peer::of(&stream)?.uid();
        if server != 0 && server != nix::unistd::geteuid().as_raw() {
            return Err(io::Error::other(format!(
                "the server at the socket has uid {server}, which is neither root's nor yours"
            )));
        }
        FrameSocket::new(stream)
    }

    /// Clears `is_requested` of the tasks that `is_selected` accepts, so that requests for these
    /// tasks are sent again.
    fn reset_requests(&mut self, is_selected: impl Fn(&TaskMember) -> bool) {
        self.connection.awaits_reply = false;
        self.connection.repeat_at = clock::monotonic() + REPEAT_AFTER;
        for member in &mut self.members {
            if is_selected(member) {
                member.is_requested = false;
            }
        }
    }

    /// Sends the next request for tasks that need a request: to start the tasks, or to report their
    /// states. After an interruption, the request is to end the tasks and to report their states.
    /// While an earlier request has no reply, sends nothing for up to `REPEAT_AFTER`.
    fn send_next_request(&mut self) {
        if self.connection.repeat_at <= clock::monotonic() {
            let unanswered = self.connection.awaits_reply;
            self.reset_requests(|member| unanswered || !member.runs());
        }
        if self.connection.link.is_none() || self.connection.awaits_reply {
            return;
        }
        let ends = self.interrupted.is_some();
        let limit = (LARGEST_TASK_SET / (self.program.size() + 1024)).clamp(1, MOST);
        let new = self
            .members
            .iter_mut()
            .filter(|member| member.needs_request() && !member.runs() && !ends);
        let tasks: Vec<(TaskToken, u32)> = new.take(limit).map(mark_requested).collect();
        if !tasks.is_empty() {
            return self.request(TaskRequestKind::Start(Box::new(TaskProgram {
                tasks,
                ..self.program.clone()
            })));
        }
        let tokens: Vec<TaskToken> = self
            .members
            .iter_mut()
            .filter(|member| member.needs_request())
            .take(MOST)
            .map(|member| mark_requested(member).0)
            .collect();
        if !tokens.is_empty() {
            if ends {
                self.request(TaskRequestKind::End(tokens.clone()));
            }
            self.request(TaskRequestKind::Ask(tokens));
        }
    }

    fn request(&mut self, request: TaskRequestKind) {
        self.connection.awaits_reply = true;
        self.send(&TaskClientMessage::Request(request));
    }

    /// Sends a message. Ignores a broken connection: [`TaskSet::receive`] detects it, after reading
    /// the reason that noded may have sent.
    fn send(&mut self, message: &TaskClientMessage) {
        if let Some(link) = &mut self.connection.link {
            let _ = link.send(message);
        }
    }

    fn disconnect(&mut self) {
        self.connection.link = None;
        self.connection.disconnected_since = clock::monotonic();
        self.connection.connect_at = self.connection.disconnected_since + RECONNECT_PAUSE;
    }

    /// Notifies noded that pbsdsh needs no more news of the tasks with index `from` or higher. A
    /// loss of the message does no harm.
    fn release(&mut self, from: usize) {
        // A second signal may have removed members, so that fewer than `from` remain.
        let tokens = self
            .members
            .iter()
            .skip(from)
            .map(|member| member.token)
            .collect();
        self.send(&TaskClientMessage::Request(TaskRequestKind::Release(
            tokens,
        )));
        self.connection.awaits_reply = false;
    }

    // ------------------------------------------------------------------------- receiving

    fn wait(&self) {
        let now = clock::monotonic();
        let link = self.connection.link.as_ref();
        let launching = self
            .members
            .iter()
            .any(|member| member.is_open() && !member.runs());
        let until = match link {
            None => Some(self.connection.connect_at),
            Some(_) => {
                if launching || self.connection.awaits_reply {
                    Some(self.connection.repeat_at)
                } else {
                    None
                }
            }
        };
        let timeout = until.map_or(PollTimeout::NONE, |until| {
            PollTimeout::try_from((until.0 - now.0).clamp(0, 60_000)).unwrap_or(PollTimeout::MAX)
        });
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let writes = link.is_some_and(FrameSocket::wants_write);
        let flags = if writes {
            PollFlags::POLLIN | PollFlags::POLLOUT
        } else {
            PollFlags::POLLIN
        };
        fds.extend(link.map(|link| PollFd::new(link.as_fd(), flags)));
        let _ = poll(&mut fds, timeout);
    }

    /// Handles signals. A signal ends the tasks. If pbsdsh was interrupted before, it does not wait
    /// for the tasks any more.
    fn take_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            if self.interrupted.is_some() {
                self.members.retain(|member| !member.is_open());
            }
            self.interrupt(128u8.saturating_add(signal.ssi_signo as u8));
        }
    }

    /// Forgets the tasks that still need a request and have no reported state, and requests the end
    /// of all other tasks. `status` becomes the exit status of pbsdsh, unless a task fails.
    fn interrupt(&mut self, status: u8) {
        self.interrupted = Some(status);
        self.members
            .retain(|member| member.is_requested || member.stage.is_some());
        self.reset_requests(|_| true);
    }

    fn receive(&mut self) -> Result<(), Failure> {
        let Some(link) = self.connection.link.as_mut() else {
            return Ok(());
        };
        let (sent, received) = (link.flush(), link.receive::<TaskNews>());
        let received = match sent {
            Err(error) if received.as_ref().is_ok_and(Vec::is_empty) => {
                Err(FrameError::from(error))
            }
            _ => received,
        };
        match received {
            Ok(news) => news.into_iter().try_for_each(|news| self.handle(news)),
            Err(error @ FrameError::Version { .. }) => {
                Err(Failure::new(1, format!("noded: {error}")))
            }
            Err(_) => {
                self.disconnect();
                Ok(())
            }
        }
    }

    fn handle(&mut self, news: TaskNews) -> Result<(), Failure> {
        match news {
            TaskNews::Welcome => {}
            TaskNews::Again => self.reset_requests(|_| true),
            TaskNews::Refused(why) => {
                if self.interrupted.is_some() || !self.members.iter().any(TaskMember::runs) {
                    return Err(Failure::new(1, why));
                }
                eprintln!("pbsdsh: {why}");
                self.interrupt(1);
            }
            TaskNews::Stages(stages) => {
                self.connection.awaits_reply = false;
                for (token, stage) in stages {
                    self.set_stage(token, stage);
                }
            }
        }
        Ok(())
    }

    fn set_stage(&mut self, token: TaskToken, stage: TaskStage) {
        let Some(index) = self.members.iter().position(|member| member.token == token) else {
            return;
        };
        let member = &mut self.members[index];
        // A repeated message may arrive late. It must not return a task to an earlier stage.
        let is_later = match (member.stage, stage) {
            (Some(TaskStage::Over(_)), _) | (Some(TaskStage::Running), TaskStage::Ordered) => false,
            (before, now) => before != Some(now),
        };
        if !is_later {
            return;
        }
        member.stage = Some(stage);
        if let TaskStage::Over(status) = stage
            && (status != 0 || self.options.verbose)
        {
            eprintln!("pbsdsh: task 0x{index:08X} exit status {status}");
        }
        if self.options.verbose {
            self.print_waiting();
        }
    }

    // ------------------------------------------------------------------------- printing

    fn print_spawned(&self, from: usize) {
        if !self.options.verbose {
            return;
        }
        for (index, member) in self.members.iter().enumerate().skip(from) {
            let slot = member.slot;
            eprintln!(
                "pbsdsh: spawned task 0x{index:08X} on logical node {slot} event {}",
                index + 2
            );
        }
        self.print_waiting();
    }

    fn print_waiting(&self) {
        let spawned = self
            .members
            .iter()
            .filter(|member| member.is_open() && !member.runs())
            .count();
        let running = self.members.iter().filter(|member| member.runs()).count();
        if spawned + running > 0 {
            eprintln!("pbsdsh: waiting on {spawned} spawned and {running} obits");
        }
    }
}

fn mark_requested(member: &mut TaskMember) -> (TaskToken, u32) {
    member.is_requested = true;
    (member.token, member.slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame;
    use nix::sys::signal::{Signal, raise};
    use std::os::unix::net::UnixListener;

    fn task_set(socket: PathBuf) -> TaskSet {
        let membership = Membership {
            socket,
            job: JobId::job(1),
            attempt: 1,
            task: 0,
            cookie: String::new(),
        };
        let program = TaskProgram {
            words: Vec::new(),
            environ: Vec::new(),
            tasks: Vec::new(),
        };
        TaskSet::new(
            membership,
            program,
            TaskOptions {
                verbose: false,
                leave: true,
            },
        )
        .unwrap()
    }

    #[test]
    fn a_refusal_is_read_although_the_connection_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let refuse = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _: TaskClientMessage = frame::read(&mut stream).unwrap();
            frame::write(&mut stream, &TaskNews::Refused("refused".into())).unwrap();
        });
        let mut tasks = task_set(socket);
        tasks.members.push(TaskMember {
            token: 1,
            slot: 0,
            stage: None,
            is_requested: false,
        });
        tasks.connect_if_due();
        refuse.join().unwrap();
        tasks.send_next_request();
        assert_eq!(tasks.receive().unwrap_err().text, "refused");
    }

    #[test]
    fn after_a_second_signal_no_task_is_awaited() {
        let mut tasks = task_set("/nowhere".into());
        let member = |token, stage| TaskMember {
            token,
            slot: 0,
            stage,
            is_requested: true,
        };
        tasks.members = vec![
            member(1, Some(TaskStage::Running)),
            member(2, Some(TaskStage::Ordered)),
        ];
        for open in [2, 0] {
            raise(Signal::SIGTERM).unwrap();
            tasks.take_signals();
            assert_eq!(tasks.members.len(), open);
        }
        tasks.release(1);
        assert_eq!((tasks.is_complete(), tasks.status()), (true, 143));
    }
}
