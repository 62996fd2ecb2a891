//! The tasks of one pbsdsh, and its messages to the noded of its host.
//!
//! Only this process has the list of its tasks, so it repeats requests that a receiver may have
//! lost: after a restart of noded or schedd, or when a node was unreachable. A task requested twice
//! runs once.

use super::block::deadly_signals;
use crate::cli::client::exit::Failure;
use crate::model::job::task::{MOST, TaskStage, TaskToken};
use crate::model::job::{Attempt, TaskNumber};
use crate::model::job_id::JobId;
use crate::model::time::Span;
use crate::sys::{clock, env, process, socket};
use crate::wire::frame::{FrameError, FrameSocket};
use crate::wire::peer;
use crate::wire::task::{LARGEST_TASK_SET, Plea, TaskNews, TaskProgram, TaskRequestKind};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

/// The time after which a request for a task that does not run is repeated.
const AGAIN: Span = Span::seconds(2);
/// The pause between two attempts to connect to noded. After `TELL` without a connection, a message
/// is printed.
const REDIAL: Span = Span(100);
const TELL: Span = Span::seconds(5);

/// This process's membership in a job, from its environment.
#[derive(Clone, Debug)]
pub struct Membership {
    socket: PathBuf,
    job: JobId,
    attempt: Attempt,
    task: TaskNumber,
    cookie: String,
}

impl Membership {
    /// Reads the membership from the environment; None outside of jobs.
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

    fn greeting(&self) -> Plea {
        Plea::Hello {
            job: self.job,
            attempt: self.attempt,
            task: self.task,
            cookie: self.cookie.clone(),
        }
    }
}

/// How pbsdsh runs the tasks.
#[derive(Clone, Copy, Debug)]
pub struct TaskOptions {
    /// Print a line for each start and each end.
    pub verbose: bool,
    /// Exit as soon as all tasks run.
    pub leave: bool,
}

/// The tasks and their states.
#[derive(Debug)]
pub struct TaskSet {
    membership: Membership,
    program: TaskProgram,
    manner: TaskOptions,
    members: Vec<TaskMember>,
    line: NodeConnection,
    signals: SignalFd,
    /// The exit status for the signal that ends this process; its tasks end first.
    interrupted: Option<u8>,
}

#[derive(Debug)]
struct TaskMember {
    token: TaskToken,
    slot: u32,
    stage: Option<TaskStage>,
    /// A request about the task has been sent and need not be repeated yet.
    said: bool,
}

impl TaskMember {
    fn is_open(&self) -> bool {
        !matches!(self.stage, Some(TaskStage::Over(_)))
    }

    fn is_unsaid(&self) -> bool {
        self.is_open() && !self.said
    }

    fn runs(&self) -> bool {
        self.stage == Some(TaskStage::Running)
    }
}

/// The connection to noded.
#[derive(Debug)]
struct NodeConnection {
    link: Option<FrameSocket>,
    dial_at: Span,
    silent_since: Span,
    told: bool,
    /// A request is unanswered.
    asked: bool,
    again_at: Span,
}

impl TaskSet {
    /// An empty set. From now on, signals that end this process end its tasks first.
    pub fn new(
        membership: Membership,
        program: TaskProgram,
        manner: TaskOptions,
    ) -> Result<TaskSet, Failure> {
        let deadly = deadly_signals();
        deadly.thread_block().map_err(io::Error::from)?;
        let signals = SignalFd::with_flags(&deadly, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK);
        let signals = signals.map_err(io::Error::from)?;
        let now = clock::monotonic();
        let line = NodeConnection {
            link: None,
            dial_at: now,
            silent_since: now,
            told: false,
            asked: false,
            again_at: now + AGAIN,
        };
        Ok(TaskSet {
            membership,
            program,
            manner,
            members: Vec::new(),
            line,
            signals,
            interrupted: None,
        })
    }

    /// Runs tasks on these lines of the node file until they end, or until they run if pbsdsh does
    /// not wait. Returns false if a signal ended it, so that no further lines follow.
    pub fn run(&mut self, slots: &[u32]) -> Result<bool, Failure> {
        let before = self.members.len();
        for &slot in slots {
            let random = u128::from_le_bytes(process::random()?) as TaskToken;
            self.members.push(TaskMember {
                token: random.max(1),
                slot,
                stage: None,
                said: false,
            });
        }
        self.tell_spawned(before);
        while !self.settled() {
            self.dial();
            self.speak();
            self.wait();
            self.take_signals();
            self.hear()?;
        }
        self.release(before);
        Ok(self.interrupted.is_none())
    }

    /// The exit status of the last failed task, or the one for the signal that ended this process.
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

    fn settled(&self) -> bool {
        let leaves = self.manner.leave && self.interrupted.is_none();
        self.members
            .iter()
            .all(|member| !member.is_open() || leaves && member.runs())
    }

    // ------------------------------------------------------------------------- sending

    fn dial(&mut self) {
        let now = clock::monotonic();
        if self.line.link.is_some() || now < self.line.dial_at {
            return;
        }
        match self.connect() {
            Ok(link) => {
                self.line.link = Some(link);
                self.line.told = false;
                self.forget_what_was_said(|_| true);
                self.send(&self.membership.greeting());
            }
            Err(error) => {
                self.line.dial_at = now + REDIAL;
                if !self.line.told && now >= self.line.silent_since + TELL {
                    self.line.told = true;
                    let socket = self.membership.socket.display();
                    eprintln!(
                        "pbsdsh: the noded of this host does not answer at {socket} ({error}): waiting for it"
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
                "it is served by user {server}, who is not trusted"
            )));
        }
        FrameSocket::new(stream)
    }

    fn forget_what_was_said(&mut self, of: impl Fn(&TaskMember) -> bool) {
        self.line.asked = false;
        self.line.again_at = clock::monotonic() + AGAIN;
        for member in &mut self.members {
            if of(member) {
                member.said = false;
            }
        }
    }

    /// Sends the next request (start, end or status) for tasks without one. Only one request is
    /// unanswered at a time.
    fn speak(&mut self) {
        if self.line.again_at <= clock::monotonic() {
            let unanswered = self.line.asked;
            self.forget_what_was_said(|member| unanswered || !member.runs());
        }
        if self.line.link.is_none() || self.line.asked {
            return;
        }
        let ends = self.interrupted.is_some();
        let most = (LARGEST_TASK_SET / (self.program.size() + 1024)).clamp(1, MOST);
        let new = self
            .members
            .iter_mut()
            .filter(|member| member.is_unsaid() && !member.runs() && !ends);
        let tasks: Vec<(TaskToken, u32)> = new.take(most).map(said).collect();
        if !tasks.is_empty() {
            return self.request(TaskRequestKind::Start(Box::new(TaskProgram {
                tasks,
                ..self.program.clone()
            })));
        }
        let tokens: Vec<TaskToken> = self
            .members
            .iter_mut()
            .filter(|member| member.is_unsaid())
            .take(MOST)
            .map(|member| said(member).0)
            .collect();
        if !tokens.is_empty() {
            if ends {
                self.request(TaskRequestKind::End(tokens.clone()));
            }
            self.request(TaskRequestKind::Ask(tokens));
        }
    }

    fn request(&mut self, request: TaskRequestKind) {
        self.line.asked = true;
        self.send(&Plea::Request(request));
    }

    /// Sends a message. A broken connection is detected on reading, because noded may have sent the
    /// reason.
    fn send(&mut self, plea: &Plea) {
        if let Some(link) = &mut self.line.link {
            let _ = link.send(plea);
        }
    }

    fn hang_up(&mut self) {
        self.line.link = None;
        self.line.silent_since = clock::monotonic();
        self.line.dial_at = self.line.silent_since + REDIAL;
    }

    /// Releases the tasks from index `from`. If the message is lost, noded removes them at the end
    /// of the job.
    fn release(&mut self, from: usize) {
        // A second signal may have removed members, so that fewer than `from` remain.
        let tokens = self
            .members
            .iter()
            .skip(from)
            .map(|member| member.token)
            .collect();
        self.send(&Plea::Request(TaskRequestKind::Release(tokens)));
        self.line.asked = false;
    }

    // ------------------------------------------------------------------------- receiving

    fn wait(&self) {
        let now = clock::monotonic();
        let link = self.line.link.as_ref();
        let launching = self
            .members
            .iter()
            .any(|member| member.is_open() && !member.runs());
        let until = match link {
            None => Some(self.line.dial_at),
            Some(_) => {
                if launching || self.line.asked {
                    Some(self.line.again_at)
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

    /// Handles signals: the first ends the tasks, the second exits without waiting for them.
    fn take_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            if self.interrupted.is_some() {
                self.members.retain(|member| !member.is_open());
            }
            self.interrupt(128u8.saturating_add(signal.ssi_signo as u8));
        }
    }

    /// Drops tasks that were never sent and ends the others.
    fn interrupt(&mut self, status: u8) {
        self.interrupted = Some(status);
        self.members
            .retain(|member| member.said || member.stage.is_some());
        self.forget_what_was_said(|_| true);
    }

    fn hear(&mut self) -> Result<(), Failure> {
        let Some(link) = self.line.link.as_mut() else {
            return Ok(());
        };
        let (sent, heard) = (link.flush(), link.receive::<TaskNews>());
        let heard = match sent {
            Err(cut) if heard.as_ref().is_ok_and(Vec::is_empty) => Err(FrameError::from(cut)),
            _ => heard,
        };
        match heard {
            Ok(news) => news.into_iter().try_for_each(|news| self.take(news)),
            Err(error @ FrameError::Version { .. }) => {
                Err(Failure::new(1, format!("noded: {error}")))
            }
            Err(_) => {
                self.hang_up();
                Ok(())
            }
        }
    }

    fn take(&mut self, news: TaskNews) -> Result<(), Failure> {
        match news {
            TaskNews::Welcome => {}
            TaskNews::Again => self.forget_what_was_said(|_| true),
            TaskNews::Refused(why) => {
                if self.interrupted.is_some() || !self.members.iter().any(TaskMember::runs) {
                    return Err(Failure::new(1, why));
                }
                eprintln!("pbsdsh: {why}");
                self.interrupt(1);
            }
            TaskNews::Stages(stages) => {
                self.line.asked = false;
                for (token, stage) in stages {
                    self.stands(token, stage);
                }
            }
        }
        Ok(())
    }

    fn stands(&mut self, token: TaskToken, stage: TaskStage) {
        let Some(index) = self.members.iter().position(|member| member.token == token) else {
            return;
        };
        let member = &mut self.members[index];
        // A late, repeated message does not return a task to an earlier stage.
        let later = match (member.stage, stage) {
            (Some(TaskStage::Over(_)), _) | (Some(TaskStage::Running), TaskStage::Ordered) => false,
            (before, now) => before != Some(now),
        };
        if !later {
            return;
        }
        member.stage = Some(stage);
        if let TaskStage::Over(status) = stage
            && (status != 0 || self.manner.verbose)
        {
            eprintln!("pbsdsh: task 0x{index:08X} exit status {status}");
        }
        if self.manner.verbose {
            self.tell_waiting();
        }
    }

    // ------------------------------------------------------------------------- printing

    fn tell_spawned(&self, from: usize) {
        if !self.manner.verbose {
            return;
        }
        for (index, member) in self.members.iter().enumerate().skip(from) {
            let slot = member.slot;
            eprintln!(
                "pbsdsh: spawned task 0x{index:08X} on logical node {slot} event {}",
                index + 2
            );
        }
        self.tell_waiting();
    }

    fn tell_waiting(&self) {
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

fn said(member: &mut TaskMember) -> (TaskToken, u32) {
    member.said = true;
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
    fn the_last_word_of_one_who_hangs_up_is_heard_though_more_was_to_be_said() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let refuse = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _: Plea = frame::read(&mut stream).unwrap();
            frame::write(&mut stream, &TaskNews::Refused("go away".into())).unwrap();
        });
        let mut tasks = task_set(socket);
        tasks.members.push(TaskMember {
            token: 1,
            slot: 0,
            stage: None,
            said: false,
        });
        tasks.dial();
        refuse.join().unwrap();
        tasks.speak();
        assert_eq!(tasks.hear().unwrap_err().text, "go away");
    }

    #[test]
    fn whoever_interrupts_twice_waits_for_none_of_those_that_were_left_to_themselves() {
        let mut tasks = task_set("/nowhere".into());
        let member = |token, stage| TaskMember {
            token,
            slot: 0,
            stage,
            said: true,
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
        assert_eq!((tasks.settled(), tasks.status()), (true, 143));
    }
}
