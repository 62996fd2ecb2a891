//! The threads that answer questions: the tick never waits for a reader.
//!
//! A connection that asks is a reader's from then on. Readers see the last committed tick, are
//! bounded in number and in time, and write straight to the client.

use super::caller::Caller;
use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::spool::query::Viewer;
use crate::spool::{Reader, SpoolError};
use crate::sys::clock;
use crate::wire::frame;
use crate::wire::message::{Question, Reply, Request};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const THREADS: usize = 4;
const QUEUED: usize = 256;
/// How long a client may take to read a part of its answer, or to ask again.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one answer may take: a reader's view of the spool keeps its log from being emptied.
const LONGEST: Span = Span::seconds(60);

/// One connection with its first question.
struct Asking {
    stream: UnixStream,
    caller: Caller,
    question: Question,
}

/// The readers.
pub struct Readers {
    desk: SyncSender<Asking>,
}

impl Readers {
    /// Starts the threads.
    pub fn start(file: PathBuf) -> std::io::Result<Readers> {
        let (desk, queue) = sync_channel(QUEUED);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..THREADS {
            let (queue, file) = (queue.clone(), file.clone());
            thread::Builder::new().name("reader".into()).spawn(move || read(&queue, &file))?;
        }
        Ok(Readers { desk })
    }

    /// Hands a connection over.
    pub fn serve(&self, stream: UnixStream, caller: Caller, question: Question) {
        if let Err(TrySendError::Full(asking)) = self.desk.try_send(Asking { stream, caller, question }) {
            let busy = Reply::Refused(Refusal::spool("too many questions at once; try again in a moment"));
            let _ = frame::write(&mut &asking.stream, &busy);
        }
    }
}

fn read(queue: &Mutex<Receiver<Asking>>, file: &std::path::Path) {
    let mut reader = None;
    loop {
        let next = queue.lock().map(|queue| queue.recv());
        let Ok(Ok(asking)) = next else { return };
        if reader.is_none() {
            reader = Reader::open(file).ok().flatten();
        }
        if let Some(reader) = &mut reader
            && let Err(error) = converse(reader, asking)
        {
            tracing::debug!("a reader's client: {error}");
        }
    }
}

/// Answers questions until the client leaves.
fn converse(reader: &mut Reader, asking: Asking) -> Result<(), frame::FrameError> {
    let Asking { mut stream, caller, mut question } = asking;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let viewer = Viewer { uid: caller.owner.uid, privileged: caller.privileged };
    loop {
        let mut write = |reply: &Reply| frame::write(&mut stream, reply);
        let until = clock::monotonic() + LONGEST;
        let answered = reader.answer(&question, viewer, &mut |part| {
            if clock::monotonic() > until {
                return Err(SpoolError::Io(std::io::ErrorKind::TimedOut.into()));
            }
            write(&Reply::Part(part)).map_err(|error| SpoolError::Io(std::io::Error::other(error)))
        });
        write(&match answered {
            Ok(()) => Reply::Done,
            Err(error) => Reply::Refused(Refusal::spool(error)),
        })?;
        question = match frame::read(&mut stream)? {
            Request::Ask(question) => question,
            _ => return frame::write(&mut stream, &Reply::Refused(Refusal::invalid_request())),
        };
    }
}
