//! Telling programs what happens to jobs: beside the loop, in a thread that begins with the first
//! message. One program at a time for the site and for each user, so that one that hangs keeps up
//! nobody else; what comes faster than they take it is dropped beyond a bound, and that is logged.

use super::notices::{Folded, Notice, Whom};
use super::rounds::{ROUND, Rounds};
use crate::model::time::Span;
use crate::sys::call::{Call, Called};
use crate::sys::user::{self, Account};
use crate::sys::{clock, pipe};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Gid;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// Messages that wait for the thread.
const QUEUED: usize = 4096;
/// Messages that wait for one user's program, or for the site's.
const WAITING: usize = 64;
/// Programs that run at once.
const RUNNING: usize = 16;
/// How long one may take.
const PATIENCE: Span = Span::seconds(30);
/// How long what is still to be told may keep schedd from leaving.
const LAST: Duration = Duration::from_secs(2);

/// The way to those who are told.
#[derive(Debug, Default)]
pub struct Herald {
    working: Option<Working>,
    dropped: u64,
}

#[derive(Debug)]
struct Working {
    notices: SyncSender<Notice>,
    bell: pipe::Bell,
    /// Hung up when all is told.
    done: Receiver<()>,
}

impl Herald {
    /// Takes messages to be told; never waits.
    pub fn tell(&mut self, notices: Vec<Notice>) {
        for notice in notices {
            let Some(working) = self.working() else { return };
            match working.notices.try_send(notice) {
                Ok(()) => {
                    working.bell.ring();
                    self.dropped = 0;
                }
                Err(TrySendError::Full(_)) => {
                    if self.dropped == 0 {
                        tracing::warn!("notifications come too fast: some are dropped");
                    }
                    self.dropped += 1;
                }
                Err(TrySendError::Disconnected(_)) => self.working = None,
            }
        }
    }

    fn working(&mut self) -> Option<&Working> {
        if self.working.is_none() {
            let ((notices, inbox), (finished, done)) = (sync_channel(QUEUED), channel());
            let begun = pipe::bell().and_then(|(bell, ear)| {
                let work = move || {
                    Desk::new(inbox, ear).work();
                    drop(finished);
                };
                thread::Builder::new().name("herald".into()).spawn(work)?;
                Ok(bell)
            });
            match begun {
                Ok(bell) => self.working = Some(Working { notices, bell, done }),
                Err(e) => tracing::warn!("nobody can be notified: {e}"),
            }
        }
        self.working.as_ref()
    }

    /// Lets what is under way be told, unless that takes long.
    pub fn leave(&mut self) {
        if let Some(Working { notices, bell, done }) = self.working.take() {
            drop(notices);
            bell.ring();
            let _ = done.recv_timeout(LAST);
        }
    }
}

/// What the thread has before it.
struct Desk {
    inbox: Receiver<Notice>,
    ear: pipe::Ear,
    rounds: Rounds<Folded>,
    waiting: BTreeMap<Whom, VecDeque<Notice>>,
    running: BTreeMap<Whom, Running>,
    /// Whose messages were dropped last, so that a flood is logged once.
    flooded: Option<Whom>,
    is_leaving: bool,
}

struct Running {
    called: Called,
    program: String,
    until: Span,
    is_late: bool,
}

impl Desk {
    fn new(inbox: Receiver<Notice>, ear: pipe::Ear) -> Desk {
        let (waiting, running) = (BTreeMap::new(), BTreeMap::new());
        Desk { inbox, ear, rounds: Rounds::default(), waiting, running, flooded: None, is_leaving: false }
    }

    fn work(mut self) {
        while !(self.is_leaving && self.waiting.is_empty() && self.running.is_empty()) {
            self.take_in();
            self.end();
            self.begin();
            self.wait();
        }
    }

    fn take_in(&mut self) {
        self.ear.hush();
        let now = clock::monotonic();
        loop {
            match self.inbox.try_recv() {
                Ok(notice) => {
                    let whose = whose(&notice);
                    let told = self.rounds.take(&whose, notice, now);
                    told.into_iter().for_each(|notice| self.line_up(notice));
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.is_leaving = true;
                    break;
                }
            }
        }
        let end = if self.is_leaving { Span(i64::MAX) } else { now };
        self.rounds.due(end).into_iter().for_each(|notice| self.line_up(notice));
    }

    fn line_up(&mut self, notice: Notice) {
        let whom = notice.whom.clone();
        let line = self.waiting.entry(whom.clone()).or_default();
        if line.len() < WAITING {
            return line.push_back(notice);
        }
        if self.flooded.as_ref() != Some(&whom) {
            tracing::warn!("{} takes too long: notifications are dropped", notice.program.display());
            self.flooded = Some(whom);
        }
    }

    /// Starts what can be started.
    fn begin(&mut self) {
        let free = self.waiting.keys().filter(|whom| !self.running.contains_key(whom)).cloned();
        let free: Vec<Whom> = free.take(RUNNING.saturating_sub(self.running.len())).collect();
        for whom in free {
            let Some(notice) = self.waiting.get_mut(&whom).and_then(VecDeque::pop_front) else { continue };
            self.waiting.retain(|_, line| !line.is_empty());
            let program = notice.program.display().to_string();
            match start(&notice) {
                Ok(called) => {
                    let until = clock::monotonic() + PATIENCE;
                    self.running.insert(whom, Running { called, program, until, is_late: false });
                }
                Err(e) => tracing::warn!("{program} cannot be run for {}: {e}", notice.user),
            }
        }
    }

    /// Takes leave of what has ended, and ends what takes too long.
    fn end(&mut self) {
        let now = clock::monotonic();
        self.running.retain(|_, running| {
            if now >= running.until && !running.is_late {
                running.is_late = true;
                running.called.kill();
            }
            let Some(heard) = running.called.hear() else { return true };
            let program = &running.program;
            match heard {
                _ if running.is_late => tracing::warn!("{program} took longer than {} s", PATIENCE.as_seconds()),
                Ok(said) if said.status == Some(0) => {}
                Ok(said) => {
                    let status = said.status.map_or("a signal".to_string(), |status| format!("status {status}"));
                    tracing::warn!("{program} ended with {}", running.called.blame(status));
                }
                Err(e) => tracing::warn!("{program}: {e}"),
            }
            false
        });
    }

    fn wait(&self) {
        let now = clock::monotonic();
        let lates = self.running.values().filter(|running| !running.is_late).map(|running| running.until);
        let next = lates.chain(self.rounds.next()).min().unwrap_or(now + ROUND);
        let can_begin =
            self.running.len() < RUNNING && self.waiting.keys().any(|whom| !self.running.contains_key(whom));
        let left = if can_begin { 0 } else { (next.0 - now.0).clamp(0, ROUND.0) };
        let mut fds: Vec<PollFd> = self
            .running
            .values()
            .flat_map(|running| running.called.watched())
            // Hung up for good when schedd leaves, and no news any more.
            .chain((!self.is_leaving).then(|| self.ear.as_fd()))
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        let _ = poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO));
    }
}

/// Whose round a message counts in: the site hears of each user's jobs so often.
fn whose(notice: &Notice) -> String {
    match &notice.whom {
        Whom::Site => format!("/{}", notice.user),
        Whom::User(name, _) => name.clone(),
    }
}

fn start(notice: &Notice) -> io::Result<Called> {
    let identity = match &notice.whom {
        Whom::User(name, uid) if *uid != user::effective() => Some(identity(name, *uid)?),
        _ => None,
    };
    let call = Call {
        words: &[notice.program.display().to_string()],
        environment: &[],
        input: &notice.document(),
        identity: identity.as_ref().map(|(account, groups)| (account, groups.as_slice())),
    };
    call.start()
}

fn identity(name: &str, uid: u32) -> io::Result<(Account, Vec<Gid>)> {
    let account = user::named(name)?.filter(|account| account.uid == uid);
    let account = account.ok_or_else(|| io::Error::other(format!("user {name} is not known here by number {uid}")))?;
    let groups = user::groups(&account)?;
    Ok((account, groups))
}
