//! Threads that answer queries, so that the tick never waits for one.
//!
//! A connection with a query belongs to a reader until it is answered, then to the loop again.
//! Readers see the last committed tick and write directly to the client. Their number, time and use
//! per user are limited, so a slow client delays only its own user.

use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::schedd::clients::snapshot::Study;
use crate::server::caller::Caller;
use crate::spool::query::Viewer;
use crate::spool::{SpoolError, SpoolReader};
use crate::sys::clock;
use crate::wire::frame::{self, FrameError};
use crate::wire::message::{ClientAnswer, Question, Reply};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Number of readers, in total and per user.
const THREADS: usize = 6;
const THREADS_OF_ONE: usize = 2;
/// Maximum number of waiting queries, in total and per user.
const QUEUED: usize = 256;
const QUEUED_OF_ONE: usize = 64;
/// Maximum number of a user's waiting forecast queries. Only one is answered at a time.
const STUDIES_OF_ONE: usize = 4;
/// Maximum time for a client to read a part of its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum time per answer: a reader's snapshot of the spool blocks its checkpoint.
const LONGEST: Span = Span::seconds(60);

/// The message for a query above the limits.
pub(in crate::schedd) const BUSY: &str = "too many questions at once; try again in a moment";

/// A connection with its query.
struct Asking {
    stream: UnixStream,
    caller: Caller,
    asked: ReaderQuestion,
}

/// A query for a reader.
enum ReaderQuestion {
    /// A query that the spool answers.
    Spool(Question),
    /// A forecast query.
    Ahead(Study),
}

impl Asking {
    fn is_study(&self) -> bool {
        matches!(self.asked, ReaderQuestion::Ahead(_))
    }
}

/// The reader threads.
pub struct Readers {
    context: Arc<ReaderContext>,
    /// Becomes readable when a connection is returned.
    bell: UnixStream,
}

/// Shared by readers and loop.
struct ReaderContext {
    queue: Mutex<ReaderQueue>,
    /// Signals a new query or a free reader.
    changed: Condvar,
    bell: UnixStream,
}

#[derive(Default)]
struct ReaderQueue {
    waiting: VecDeque<Asking>,
    /// Number of readers that each user occupies.
    occupied: BTreeMap<u32, usize>,
    /// Whether a forecast query is being answered.
    studies: bool,
    /// Answered connections, to be returned to the loop.
    answered: Vec<(UnixStream, Caller)>,
}

impl Readers {
    /// Starts the threads.
    pub fn start(file: PathBuf) -> io::Result<Readers> {
        let (bell, far) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        let context = Arc::new(ReaderContext {
            queue: Mutex::default(),
            changed: Condvar::new(),
            bell: far,
        });
        for _ in 0..THREADS {
            let (context, file) = (context.clone(), file.clone());
            thread::Builder::new()
                .name("reader".into())
                .spawn(move || read(&context, &file))?;
        }
        Ok(Readers { context, bell })
    }

    /// Passes a connection with a spool query to a reader.
    pub fn serve(&self, stream: UnixStream, caller: Caller, question: Question) {
        self.take_in(Asking {
            stream,
            caller,
            asked: ReaderQuestion::Spool(question),
        });
    }

    /// Passes a connection with a forecast query to a reader.
    pub fn study(&self, stream: UnixStream, caller: Caller, study: Study) {
        self.take_in(Asking {
            stream,
            caller,
            asked: ReaderQuestion::Ahead(study),
        });
    }

    fn take_in(&self, asking: Asking) {
        let mut queue = self.context.queue();
        let uid = asking.caller.owner.uid;
        let (mut own, mut studies) = (0, 0);
        for other in &queue.waiting {
            if other.caller.owner.uid == uid {
                own += 1;
                studies += usize::from(other.is_study());
            }
        }
        let is_too_much = own >= QUEUED_OF_ONE || (asking.is_study() && studies >= STUDIES_OF_ONE);
        if queue.waiting.len() >= QUEUED || (is_too_much && !asking.caller.privileged) {
            let busy = Reply::Refused(Refusal::spool(BUSY));
            let _ = frame::write(&mut &asking.stream, &busy);
            return;
        }
        queue.waiting.push_back(asking);
        self.context.changed.notify_one();
    }

    /// Takes the answered connections back.
    pub fn answered(&mut self) -> Vec<(UnixStream, Caller)> {
        let mut rings = [0; 64];
        while self.bell.read(&mut rings).is_ok_and(|count| count > 0) {}
        std::mem::take(&mut self.context.queue().answered)
    }

    /// Whether any query waits or is being answered.
    pub fn are_busy(&self) -> bool {
        let queue = self.context.queue();
        !queue.waiting.is_empty() || !queue.occupied.is_empty() || !queue.answered.is_empty()
    }
}

impl AsFd for Readers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl ReaderContext {
    /// A panicked reader leaves the queue consistent, so a poisoned lock is safe to use.
    fn queue(&self) -> MutexGuard<'_, ReaderQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a query of a user below the reader limit.
    fn next(&self) -> Asking {
        let mut queue = self.queue();
        loop {
            if let Some(asking) = queue.take() {
                return asking;
            }
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Frees a reader, and returns its connection to the loop unless it is broken.
    fn finish(&self, uid: u32, was_study: bool, connection: Option<(UnixStream, Caller)>) {
        let mut queue = self.queue();
        queue.studies &= !was_study;
        match queue.occupied.get_mut(&uid) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(queue.occupied.remove(&uid)),
        }
        queue.answered.extend(connection);
        self.changed.notify_one();
        // If the buffer is full, the loop is notified already.
        let _ = (&self.bell).write(&[1]);
    }
}

impl ReaderQueue {
    fn take(&mut self) -> Option<Asking> {
        let at = self.waiting.iter().position(|asking| {
            let occupied = self.occupied.get(&asking.caller.owner.uid);
            occupied.is_none_or(|&count| count < THREADS_OF_ONE)
                && !(self.studies && asking.is_study())
        })?;
        let asking = self.waiting.remove(at)?;
        self.studies |= asking.is_study();
        *self.occupied.entry(asking.caller.owner.uid).or_default() += 1;
        Some(asking)
    }
}

fn read(context: &ReaderContext, file: &Path) {
    let mut reader = None;
    loop {
        let asking = context.next();
        let (uid, is_study) = (asking.caller.owner.uid, asking.is_study());
        if reader.is_none() {
            reader = SpoolReader::open(file)
                .inspect_err(|error| tracing::error!("the spool cannot be read: {error}"))
                .ok()
                .flatten();
        }
        // A panic costs only this client its answer.
        let answered = panic::catch_unwind(AssertUnwindSafe(|| match &mut reader {
            Some(reader) => answer(reader, asking),
            None => refuse(asking),
        }));
        if answered.is_err() {
            reader = None;
        }
        context.finish(
            uid,
            is_study,
            answered
                .ok()
                .and_then(|answered| answered.inspect_err(log).ok()),
        );
    }
}

fn log(error: &FrameError) {
    tracing::debug!("a reader's client: {error}");
}

fn refuse(asking: Asking) -> Result<(UnixStream, Caller), FrameError> {
    let Asking {
        mut stream, caller, ..
    } = asking;
    frame::write(
        &mut stream,
        &Reply::Refused(Refusal::spool("the spool cannot be read now")),
    )?;
    Ok((stream, caller))
}

fn answer(reader: &mut SpoolReader, asking: Asking) -> Result<(UnixStream, Caller), FrameError> {
    let Asking {
        mut stream,
        caller,
        asked,
    } = asking;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let viewer = Viewer {
        owner: caller.owner.clone(),
        privileged: caller.privileged,
    };
    let until = clock::monotonic() + LONGEST;
    let each = &mut |part| {
        if clock::monotonic() > until {
            return Err(SpoolError::Io(ErrorKind::TimedOut.into()));
        }
        frame::write(&mut stream, &Reply::Part(part))
            .map_err(|error| SpoolError::Io(io::Error::other(error)))
    };
    let answered = match asked {
        ReaderQuestion::Spool(question) => reader.answer(&question, viewer, each),
        ReaderQuestion::Ahead(study) => {
            let server = reader.answer(&Question::Server, viewer, each);
            server.and_then(|()| study.tell(&mut |told| each(ClientAnswer::Ahead(told))))
        }
    };
    let last = match answered {
        Ok(()) => Reply::Done,
        Err(error) => Reply::Refused(Refusal::spool(error)),
    };
    frame::write(&mut stream, &last)?;
    Ok((stream, caller))
}
