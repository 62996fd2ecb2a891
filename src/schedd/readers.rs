//! The threads that answer questions: the tick never waits for a reader.
//!
//! A connection that asks is a reader's until it has its answer. Readers see the last committed
//! tick and write straight to the client. They are few, so one user gets only some of them: whoever
//! takes an answer slowly is waited for by nobody else.

use super::caller::Caller;
use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::spool::query::Viewer;
use crate::spool::{Reader, SpoolError};
use crate::sys::clock;
use crate::wire::frame;
use crate::wire::message::{Question, Reply};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const THREADS: usize = 4;
/// How many of them answer one user (root and operators excepted).
const THREADS_OF_ONE: usize = 2;
/// Questions that wait for a thread, in all and of one user.
const WAITING: usize = 1000;
const WAITING_OF_ONE: usize = 100;
/// How long a client may take to read a part of its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one answer may take: a reader's view of the spool keeps its log from being emptied.
const LONGEST: Span = Span::seconds(60);

/// One connection with its question.
struct Asking {
    stream: UnixStream,
    caller: Caller,
    question: Question,
}

/// A question that has been dealt with, and the connection, if it still stands.
struct Answered {
    uid: u32,
    back: Option<(UnixStream, Caller)>,
}

/// The readers.
pub struct Readers {
    desk: SyncSender<Asking>,
    answered: Receiver<Answered>,
    /// Rung when something has been answered.
    bell: Arc<EventFd>,
    waiting: VecDeque<Asking>,
    /// Questions being answered, by user.
    busy: BTreeMap<u32, usize>,
}

impl Readers {
    /// Starts the threads.
    pub fn start(file: PathBuf) -> std::io::Result<Readers> {
        let (desk, queue) = sync_channel(THREADS);
        let (done, answered) = channel();
        let bell = Arc::new(EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..THREADS {
            let (queue, file, done, bell) = (queue.clone(), file.clone(), done.clone(), bell.clone());
            thread::Builder::new().name("reader".into()).spawn(move || read(&queue, &file, &done, &bell))?;
        }
        Ok(Readers { desk, answered, bell, waiting: VecDeque::new(), busy: BTreeMap::new() })
    }

    /// Takes a connection over until its question is answered.
    pub fn serve(&mut self, stream: UnixStream, caller: Caller, question: Question) {
        let same = self.waiting.iter().filter(|other| other.caller.owner.uid == caller.owner.uid).count();
        if self.waiting.len() >= WAITING || (same >= WAITING_OF_ONE && !caller.privileged) {
            let busy = Reply::Refused(Refusal::spool("too many questions at once; try again in a moment"));
            let _ = frame::write(&mut &stream, &busy);
            return;
        }
        self.waiting.push_back(Asking { stream, caller, question });
        self.hand_out();
    }

    /// The connections whose questions have been answered since the last call.
    pub fn take_answered(&mut self) -> Vec<(UnixStream, Caller)> {
        let _ = self.bell.read();
        let mut back = Vec::new();
        while let Ok(answered) = self.answered.try_recv() {
            self.end_one(answered.uid);
            back.extend(answered.back);
        }
        self.hand_out();
        back
    }

    /// Gives the threads what they have time for.
    fn hand_out(&mut self) {
        while let Some(at) = self.waiting.iter().position(|asking| self.has_time_for(&asking.caller)) {
            let Some(asking) = self.waiting.remove(at) else { return };
            let uid = asking.caller.owner.uid;
            *self.busy.entry(uid).or_default() += 1;
            // There is room for as many as there are threads.
            if self.desk.try_send(asking).is_err() {
                self.end_one(uid);
            }
        }
    }

    fn has_time_for(&self, caller: &Caller) -> bool {
        let same = self.busy.get(&caller.owner.uid).copied().unwrap_or(0);
        self.busy.values().sum::<usize>() < THREADS && (caller.privileged || same < THREADS_OF_ONE)
    }

    fn end_one(&mut self, uid: u32) {
        if let Some(count) = self.busy.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                self.busy.remove(&uid);
            }
        }
    }
}

impl AsFd for Readers {
    /// Readable when something has been answered.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

fn read(queue: &Mutex<Receiver<Asking>>, file: &Path, done: &Sender<Answered>, bell: &EventFd) {
    let mut reader = None;
    loop {
        let next = queue.lock().map(|queue| queue.recv());
        let Ok(Ok(Asking { stream, caller, question })) = next else { return };
        let answered = open(&mut reader, file).map_or_else(
            |error| frame::write(&mut &stream, &Reply::Refused(Refusal::spool(error))),
            |reader| answer(reader, &stream, &caller, &question),
        );
        if let Err(error) = &answered {
            tracing::debug!("a reader's client: {error}");
        }
        let uid = caller.owner.uid;
        let back = answered.is_ok().then_some((stream, caller));
        if done.send(Answered { uid, back }).is_err() || bell.write(1).is_err() {
            return;
        }
    }
}

/// This thread's view of the spool, opened at the first question.
fn open<'a>(reader: &'a mut Option<Reader>, file: &Path) -> Result<&'a mut Reader, SpoolError> {
    if reader.is_none() {
        *reader = Reader::open(file)?;
    }
    reader.as_mut().ok_or_else(|| SpoolError::Io(std::io::ErrorKind::NotFound.into()))
}

fn answer(
    reader: &mut Reader,
    mut stream: &UnixStream,
    caller: &Caller,
    question: &Question,
) -> Result<(), frame::FrameError> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let viewer = Viewer { uid: caller.owner.uid, privileged: caller.privileged };
    let until = clock::monotonic() + LONGEST;
    let answered = reader.answer(question, viewer, &mut |part| {
        if clock::monotonic() > until {
            return Err(SpoolError::Io(std::io::ErrorKind::TimedOut.into()));
        }
        let sent = frame::write(&mut stream, &Reply::Part(part));
        sent.map_err(|error| SpoolError::Io(std::io::Error::other(error)))
    });
    frame::write(
        &mut stream,
        &match answered {
            Ok(()) => Reply::Done,
            Err(error) => Reply::Refused(Refusal::spool(error)),
        },
    )
}
