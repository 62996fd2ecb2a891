//! Reader threads, which answer queries. Thus the event loop never waits for a query.
//!
//! A connection with a query belongs to a reader until the query is answered, and then to the event
//! loop again. Readers see the last committed state and write directly to the client. The number of
//! readers, in total and per user, and the time per answer are limited. Therefore the slow clients
//! of one user cannot block the spool queries of other users.

use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::sched::explain::run_times::RunTimeHistory;
use crate::schedd::clients::snapshot::ForecastTask;
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

/// Number of reader threads.
const THREADS: usize = 6;
/// Maximum number of reader threads that work for one user at once.
const THREADS_PER_USER: usize = 2;
/// Maximum number of waiting queries of all users together.
const MAX_QUEUED: usize = 256;
/// Maximum number of waiting queries of a user who is not privileged.
const MAX_QUEUED_PER_USER: usize = 64;
/// Maximum number of waiting forecast queries of a user who is not privileged. All readers together
/// answer only one forecast query at a time.
const MAX_FORECASTS_PER_USER: usize = 4;
/// Maximum time for a client to read a part of its answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time per answer. While a reader reads the spool, the spool's log cannot be checkpointed
/// completely.
const ANSWER_TIMEOUT: Span = Span::seconds(60);

/// The message for a query above the limits.
pub(in crate::schedd) const BUSY: &str = "too many queries at once; try again in a moment";

/// A connection with its query.
struct ReaderRequest {
    stream: UnixStream,
    caller: Caller,
    query: ReaderQuery,
}

/// A query for a reader.
enum ReaderQuery {
    /// A query that the spool answers.
    Spool(Question),
    /// A forecast query.
    Ahead(ForecastTask),
}

impl ReaderRequest {
    fn is_forecast(&self) -> bool {
        matches!(self.query, ReaderQuery::Ahead(_))
    }
}

/// The reader threads.
pub struct Readers {
    context: Arc<ReaderContext>,
    /// Becomes readable when a reader has finished a query.
    wakeup: UnixStream,
}

/// State that the readers and the loop share.
struct ReaderContext {
    queue: Mutex<ReaderQueue>,
    /// Signals a new query or a free reader.
    changed: Condvar,
    wakeup: UnixStream,
}

#[derive(Default)]
struct ReaderQueue {
    waiting: VecDeque<ReaderRequest>,
    /// Number of readers that each user occupies.
    occupied: BTreeMap<u32, usize>,
    /// Whether a forecast query is being answered.
    is_forecasting: bool,
    /// Connections with answered queries, to be returned to the event loop.
    answered: Vec<(UnixStream, Caller)>,
}

impl Readers {
    /// Starts the threads, which read the spool `file`.
    pub fn start(file: PathBuf) -> io::Result<Readers> {
        let (wakeup, far) = UnixStream::pair()?;
        wakeup.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        let context = Arc::new(ReaderContext {
            queue: Mutex::default(),
            changed: Condvar::new(),
            wakeup: far,
        });
        for _ in 0..THREADS {
            let (context, file) = (context.clone(), file.clone());
            thread::Builder::new()
                .name("reader".into())
                .spawn(move || read(&context, &file))?;
        }
        Ok(Readers { context, wakeup })
    }

    /// Passes a connection with a spool query to a reader. Above the limits, refuses the query and
    /// closes the connection.
    pub fn serve(&self, stream: UnixStream, caller: Caller, question: Question) {
        self.enqueue(ReaderRequest {
            stream,
            caller,
            query: ReaderQuery::Spool(question),
        });
    }

    /// Passes a connection with a forecast query to a reader, like [`Readers::serve`].
    pub fn forecast(&self, stream: UnixStream, caller: Caller, task: ForecastTask) {
        self.enqueue(ReaderRequest {
            stream,
            caller,
            query: ReaderQuery::Ahead(task),
        });
    }

    fn enqueue(&self, request: ReaderRequest) {
        let mut queue = self.context.queue();
        let uid = request.caller.owner.uid;
        let (mut own, mut own_forecasts) = (0, 0);
        for other in &queue.waiting {
            if other.caller.owner.uid == uid {
                own += 1;
                own_forecasts += usize::from(other.is_forecast());
            }
        }
        let exceeds_limit = own >= MAX_QUEUED_PER_USER
            || (request.is_forecast() && own_forecasts >= MAX_FORECASTS_PER_USER);
        if queue.waiting.len() >= MAX_QUEUED || (exceeds_limit && !request.caller.privileged) {
            let busy = Reply::Refused(Refusal::spool(BUSY));
            let _ = frame::write(&mut &request.stream, &busy);
            return;
        }
        queue.waiting.push_back(request);
        self.context.changed.notify_one();
    }

    /// Takes the answered connections back.
    pub fn answered(&mut self) -> Vec<(UnixStream, Caller)> {
        let mut bytes = [0; 64];
        while self.wakeup.read(&mut bytes).is_ok_and(|count| count > 0) {}
        std::mem::take(&mut self.context.queue().answered)
    }

    /// Whether a query waits or is being answered, or an answered connection has not been taken
    /// back.
    pub fn are_busy(&self) -> bool {
        let queue = self.context.queue();
        !queue.waiting.is_empty() || !queue.occupied.is_empty() || !queue.answered.is_empty()
    }
}

impl AsFd for Readers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}

impl ReaderContext {
    /// Locks the queue. A panicked reader leaves the queue consistent, so a poisoned lock is safe
    /// to use.
    fn queue(&self) -> MutexGuard<'_, ReaderQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a query that the limits on readers and on forecasts allow now.
    fn next(&self) -> ReaderRequest {
        let mut queue = self.queue();
        loop {
            if let Some(request) = queue.take() {
                return request;
            }
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Frees a reader, and returns the answered connection, unless it is broken, to the event loop.
    fn finish(&self, uid: u32, was_forecast: bool, connection: Option<(UnixStream, Caller)>) {
        let mut queue = self.queue();
        queue.is_forecasting &= !was_forecast;
        match queue.occupied.get_mut(&uid) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(queue.occupied.remove(&uid)),
        }
        queue.answered.extend(connection);
        self.changed.notify_one();
        // If the socket's buffer is full, the event loop will wake up anyway.
        let _ = (&self.wakeup).write(&[1]);
    }
}

impl ReaderQueue {
    fn take(&mut self) -> Option<ReaderRequest> {
        let at = self.waiting.iter().position(|request| {
            let occupied = self.occupied.get(&request.caller.owner.uid);
            occupied.is_none_or(|&count| count < THREADS_PER_USER)
                && !(self.is_forecasting && request.is_forecast())
        })?;
        let request = self.waiting.remove(at)?;
        self.is_forecasting |= request.is_forecast();
        *self.occupied.entry(request.caller.owner.uid).or_default() += 1;
        Some(request)
    }
}

fn read(context: &ReaderContext, file: &Path) {
    let mut reader = None;
    loop {
        let request = context.next();
        let (uid, is_forecast) = (request.caller.owner.uid, request.is_forecast());
        if reader.is_none() {
            reader = SpoolReader::open(file)
                .inspect_err(|error| tracing::error!("the spool cannot be read: {error}"))
                .ok()
                .flatten();
        }
        // After a panic, only this client gets no answer.
        let answered = panic::catch_unwind(AssertUnwindSafe(|| match &mut reader {
            Some(reader) => answer(reader, request),
            None => refuse(request),
        }));
        if answered.is_err() {
            reader = None;
        }
        context.finish(
            uid,
            is_forecast,
            answered
                .ok()
                .and_then(|answered| answered.inspect_err(log).ok()),
        );
    }
}

fn log(error: &FrameError) {
    tracing::debug!("cannot send an answer to a client: {error}");
}

fn refuse(request: ReaderRequest) -> Result<(UnixStream, Caller), FrameError> {
    let ReaderRequest {
        mut stream, caller, ..
    } = request;
    frame::write(
        &mut stream,
        &Reply::Refused(Refusal::spool("the spool cannot be read now")),
    )?;
    Ok((stream, caller))
}

fn answer(
    reader: &mut SpoolReader,
    request: ReaderRequest,
) -> Result<(UnixStream, Caller), FrameError> {
    let ReaderRequest {
        mut stream,
        caller,
        query,
    } = request;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let viewer = Viewer {
        owner: caller.owner.clone(),
        privileged: caller.privileged,
    };
    let until = clock::monotonic() + ANSWER_TIMEOUT;
    let each = &mut |part| {
        if clock::monotonic() > until {
            return Err(SpoolError::Io(ErrorKind::TimedOut.into()));
        }
        frame::write(&mut stream, &Reply::Part(part))
            .map_err(|error| SpoolError::Io(io::Error::other(error)))
    };
    let answered = match query {
        ReaderQuery::Spool(question) => reader.answer(&question, viewer, each),
        ReaderQuery::Ahead(task) => {
            let server = reader.answer(&Question::Server, viewer, each);
            let past_jobs = if task.uses_past_jobs() {
                server.and_then(|()| reader.past_jobs())
            } else {
                server.map(|()| Vec::new())
            };
            past_jobs.and_then(|jobs| {
                let history = RunTimeHistory::new(&jobs);
                task.answer(&history, &mut |part| each(ClientAnswer::Ahead(part)))
            })
        }
    };
    let last = match answered {
        Ok(()) => Reply::Done,
        Err(error) => Reply::Refused(Refusal::spool(error)),
    };
    frame::write(&mut stream, &last)?;
    Ok((stream, caller))
}
