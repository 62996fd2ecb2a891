//! Runs the site's notification program (`[server] notify`) for notices about jobs, one after the
//! other, in a thread that starts with the first notice. Notices above a user's rate limit are
//! combined into a summary. Notices above the queue limits are dropped; schedd logs this once until
//! it can queue notices again.

use crate::model::time::Span;
use crate::schedd::programs::notice_digest::NoticeDigest;
use crate::schedd::programs::rate_limit::PERIOD;
use crate::schedd::programs::rate_limit::RateLimit;
use crate::server::notices::Notice;
use crate::sys::program::{ProgramCall, ProgramFault, ProgramPool, RunningProgram, Surroundings};
use crate::sys::{clock, pipe};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// Maximum number of notices that wait for the thread.
const MAX_QUEUED: usize = 4096;
/// Maximum number of notices that wait for the program.
const MAX_WAITING: usize = 64;
/// Time limit of the program for one notice.
const PROGRAM_TIMEOUT: Span = Span::seconds(30);
/// Maximum time by which waiting notices delay the exit of schedd.
const EXIT_DELAY: Duration = Duration::from_secs(2);

/// Controls the thread that runs the site's notification program.
#[derive(Debug, Default)]
pub struct Notifier {
    working: Option<NotifierState>,
    dropped: u64,
}

#[derive(Debug)]
struct NotifierState {
    notices: SyncSender<Notice>,
    wakeup_sender: pipe::WakeupSender,
    /// Disconnected when all notices are handled.
    done: Receiver<()>,
}

impl Notifier {
    /// Queues notices. Never blocks.
    pub fn queue(&mut self, notices: Vec<Notice>) {
        for notice in notices {
            let Some(working) = self.working() else {
                return;
            };
            match working.notices.try_send(notice) {
                Ok(()) => {
                    working.wakeup_sender.ring();
                    self.dropped = 0;
                }
                Err(TrySendError::Full(_)) => {
                    if self.dropped == 0 {
                        tracing::warn!(
                            "too many notifications wait for the site's program: schedd drops some"
                        );
                    }
                    self.dropped += 1;
                }
                Err(TrySendError::Disconnected(_)) => self.working = None,
            }
        }
    }

    fn working(&mut self) -> Option<&NotifierState> {
        if self.working.is_none() {
            let ((notices, inbox), (finished, done)) = (sync_channel(MAX_QUEUED), channel());
            let begun = pipe::bell().and_then(|(wakeup_sender, wakeup_receiver)| {
                let thread = thread::Builder::new().name("notifier".into());
                thread.spawn(move || {
                    NotifierContext::new(inbox, wakeup_receiver).work();
                    drop(finished);
                })?;
                Ok(wakeup_sender)
            });
            match begun {
                Ok(wakeup_sender) => {
                    self.working = Some(NotifierState {
                        notices,
                        wakeup_sender,
                        done,
                    })
                }
                Err(e) => tracing::warn!("cannot start the notifier thread: {e}"),
            }
        }
        self.working.as_ref()
    }

    /// Waits a limited time for queued notices to be handled.
    pub fn shut_down(&mut self) {
        if let Some(NotifierState {
            notices,
            wakeup_sender,
            done,
        }) = self.working.take()
        {
            drop(notices);
            wakeup_sender.ring();
            let _ = done.recv_timeout(EXIT_DELAY);
        }
    }
}

/// The state of the thread.
struct NotifierContext {
    inbox: Receiver<Notice>,
    wakeup_receiver: pipe::WakeupReceiver,
    rate_limit: RateLimit<NoticeDigest>,
    waiting: VecDeque<Notice>,
    /// The running program, if any: its path.
    running: ProgramPool<String>,
    /// Whether the last notice was dropped. Only the first of consecutive dropped notices is
    /// logged.
    is_flooded: bool,
    is_stopping: bool,
}

impl NotifierContext {
    fn new(inbox: Receiver<Notice>, wakeup_receiver: pipe::WakeupReceiver) -> NotifierContext {
        NotifierContext {
            inbox,
            wakeup_receiver,
            rate_limit: RateLimit::default(),
            waiting: VecDeque::new(),
            running: ProgramPool::new(1),
            is_flooded: false,
            is_stopping: false,
        }
    }

    fn work(mut self) {
        while !(self.is_stopping && self.waiting.is_empty() && self.running.is_empty()) {
            self.receive_notices();
            self.end();
            self.begin();
            self.wait();
        }
    }

    fn receive_notices(&mut self) {
        self.wakeup_receiver.clear_wakeups();
        let now = clock::monotonic();
        loop {
            match self.inbox.try_recv() {
                Ok(notice) => {
                    let user = notice.user.clone();
                    let due = self.rate_limit.allow(&user, notice, now);
                    due.into_iter().for_each(|notice| self.enqueue(notice));
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.is_stopping = true;
                    break;
                }
            }
        }
        let end = if self.is_stopping {
            Span(i64::MAX)
        } else {
            now
        };
        self.rate_limit
            .due(end)
            .into_iter()
            .for_each(|notice| self.enqueue(notice));
    }

    fn enqueue(&mut self, notice: Notice) {
        if self.waiting.len() < MAX_WAITING {
            self.is_flooded = false;
            return self.waiting.push_back(notice);
        }
        if !std::mem::replace(&mut self.is_flooded, true) {
            tracing::warn!(
                "{} is too slow: schedd drops notifications",
                notice.program.display()
            );
        }
    }

    /// Starts the program for the next notice, unless a program is running.
    fn begin(&mut self) {
        while self.running.is_empty()
            && let Some(notice) = self.waiting.pop_front()
        {
            let program = notice.program.display().to_string();
            match start(&notice) {
                Ok(running) => self.running.add(program, None, running),
                Err(e) => tracing::warn!("cannot run {program}: {e}"),
            }
        }
    }

    /// Logs the failure of a program that has ended. A program that exceeds its time limit is
    /// killed.
    fn end(&mut self) {
        for (program, result) in self.running.finished(clock::monotonic()) {
            match &result.exit {
                Ok(exit) if exit.status == Some(0) => {}
                Ok(exit) => {
                    let status = exit
                        .status
                        .map_or("a signal".to_string(), |status| format!("status {status}"));
                    tracing::warn!("{program} ended with {}", result.blame(status));
                }
                Err(ProgramFault::Late(timeout)) => {
                    tracing::warn!("{program} took longer than {} s", timeout.as_seconds());
                }
                Err(ProgramFault::Output(error)) => tracing::warn!("{program}: {error}"),
            }
        }
    }

    fn wait(&self) {
        let now = clock::monotonic();
        let next = self
            .running
            .next()
            .into_iter()
            .chain(self.rate_limit.next());
        let next = next.min().unwrap_or(now + PERIOD);
        let left = (next.0 - now.0).clamp(0, PERIOD.0);
        let mut fds: Vec<PollFd> = self
            .running
            .watched()
            // When schedd exits, the pipe is closed and always readable, so it is not polled then.
            .chain((!self.is_stopping).then(|| self.wakeup_receiver.as_fd()))
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        let _ = poll(
            &mut fds,
            PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO),
        );
    }
}

fn start(notice: &Notice) -> io::Result<RunningProgram> {
    let words = [notice.program.display().to_string()];
    let call = ProgramCall {
        input: &notice.document(),
        surroundings: Surroundings::Own(&[]),
        ..ProgramCall::new(&words, PROGRAM_TIMEOUT)
    };
    call.start(clock::monotonic())
}
