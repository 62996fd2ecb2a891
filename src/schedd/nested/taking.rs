//! Moves jobs from a queue of the parent server to a nested installation. For each job: creates a
//! held copy in the nested installation, claims the job from the parent, and releases the copy.
//!
//! The moves run in a separate thread, so that neither schedd waits for the other. All requests can
//! be repeated. If the schedd that gets a request was killed, the request is sent again once that
//! schedd runs again. A parent schedd that does not run is not started, because its user has
//! possibly stopped it.

use crate::model::job::state::{Holds, JobState};
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::time::Span;
use crate::spool;
use crate::spool::SpoolReader;
use crate::spool::query::Viewer;
use crate::sys::home::Home;
use crate::sys::{clock, fault, process};
use crate::wire::client::{Client, ClientError, Continue};
use crate::wire::message::{
    Adoption, ClientAnswer, ClientRequest, Detail, Filter, NestedClaim, Offered, Question, Reply,
};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Interval at which the parent server is queried for jobs.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum time for the answer to a request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Delay before a job is claimed again after the parent has refused the claim.
const RETRY_DELAY: Span = Span::seconds(5);
/// How long a request is still repeated after the nested installation has begun to end.
const STOP_TIMEOUT: Span = Span::seconds(20);

/// Controls the thread that moves jobs. When this value is dropped, the thread sends no more
/// requests.
pub struct Taker {
    end: Arc<StopFlags>,
    thread: Option<JoinHandle<()>>,
}

/// How the thread is to end.
#[derive(Debug, Default)]
struct StopFlags {
    /// Finish the current move, and take no further job.
    stop: AtomicBool,
    /// The nested installation is being killed: send no more requests.
    abort: AtomicBool,
}

/// Refuses a queue that the parent server does not have, or that does not offer jobs to nested
/// installations.
pub fn check(parent: &Home, queue: &str) -> Result<()> {
    match offer(parent, queue, BTreeSet::new()) {
        Ok((_, Err(refusal))) => bail!("--queue {queue}: {refusal}"),
        // A parent that does not respond now may respond later.
        _ => Ok(()),
    }
}

impl Taker {
    /// Starts to take jobs.
    pub fn start(parent: Home, child: Home, queue: &str) -> Result<Taker> {
        let end = Arc::new(StopFlags::default());
        let (queue, deferred) = (queue.to_string(), BTreeMap::new());
        let mut taker = TakerThread {
            parent,
            child,
            queue,
            deferred,
            last_problem: None,
            end: end.clone(),
        };
        let thread = thread::Builder::new()
            .name("taker".into())
            .spawn(move || taker.run())?;
        Ok(Taker {
            end,
            thread: Some(thread),
        })
    }

    /// Stops the thread after the current move, and waits for its end.
    pub fn stop(mut self) {
        self.end.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.end.stop.store(true, Ordering::Relaxed);
        self.end.abort.store(true, Ordering::Relaxed);
        self.thread
            .iter()
            .for_each(|thread| thread.thread().unpark());
    }
}

struct TakerThread {
    parent: Home,
    child: Home,
    queue: String,
    /// Jobs that are not taken before the given time, because the nested installation cannot run
    /// them or the parent has refused the claim.
    deferred: BTreeMap<JobId, Span>,
    /// The last printed message. It is not repeated until jobs can be taken again.
    last_problem: Option<String>,
    end: Arc<StopFlags>,
}

impl TakerThread {
    fn run(&mut self) {
        while !self.is_stopping() {
            match self.move_next_job() {
                Ok(has_more) => {
                    self.last_problem = None;
                    if has_more {
                        continue;
                    }
                }
                Err(error) => self.report_problem(&format!("{error:#}")),
            }
            thread::park_timeout(POLL_INTERVAL);
        }
    }

    fn report_problem(&mut self, why: &str) {
        if self.last_problem.as_deref() != Some(why) && !self.is_stopping() {
            eprintln!(
                "schedd: cannot take jobs from queue {} now: {why}",
                self.queue
            );
            self.last_problem = Some(why.to_string());
        }
    }

    fn is_stopping(&self) -> bool {
        self.end.stop.load(Ordering::Relaxed)
    }

    fn is_aborted(&self) -> bool {
        self.end.abort.load(Ordering::Relaxed)
    }

    /// Takes the first available job, if no job waits in the nested installation. Returns whether
    /// to look for another job at once.
    fn move_next_job(&mut self) -> Result<bool> {
        if !self.is_queue_empty()? || self.is_stopping() {
            return Ok(false);
        }
        let now = clock::monotonic();
        self.deferred.retain(|_, until| *until > now);
        let (server, found) = offer(
            &self.parent,
            &self.queue,
            self.deferred.keys().copied().collect(),
        )?;
        match found {
            Ok(Some(offered)) => self.move_job(&server, offered),
            Ok(None) => Ok(false),
            Err(refusal) => bail!("{refusal}"),
        }
    }

    /// Whether no job waits in the nested installation. Reads the spool of the nested schedd
    /// instead of sending a query, because the nested schedd exits when it is idle.
    fn is_queue_empty(&self) -> Result<bool> {
        let Some(mut reader) = SpoolReader::open(&spool::file(&self.child))? else {
            return Ok(false);
        };
        let queued = Filter {
            states: vec![JobState::Queued],
            ..Filter::default()
        };
        let mut is_queue_empty = true;
        reader.answer(
            &Question::Jobs(queued, Detail::Row),
            Viewer::own(),
            &mut |part| {
                is_queue_empty &= !matches!(part, ClientAnswer::Rows(rows) if !rows.is_empty());
                Ok(())
            },
        )?;
        Ok(is_queue_empty)
    }

    /// Moves a job to the nested installation, or defers it. Returns whether to look for another
    /// job at once.
    fn move_job(&mut self, server: &str, offered: Offered) -> Result<bool> {
        let (job, revision) = (offered.job, offered.revision);
        let adoption = Adoption {
            token: process::random()?,
            offered,
        };
        let to = match self
            .repeat_until_answered(Side::Child, &ClientRequest::Adopt(Box::new(adoption)))?
        {
            Reply::Accepted { id, .. } => id,
            Reply::Refused(refusal) => {
                eprintln!(
                    "schedd: job {} of queue {} cannot run in the nested installation: {refusal}",
                    job.number, self.queue
                );
                self.deferred.insert(job, Span(i64::MAX));
                return Ok(true);
            }
            other => bail!("unexpected reply of the nested schedd: {other:?}"),
        };
        let copy: JobId = to.split('.').next().unwrap_or_default().parse()?;
        let claim = ClientRequest::Claim(NestedClaim {
            job,
            revision,
            to,
            token: process::random()?,
        });
        let is_granted = !self.is_stopping()
            && matches!(
                self.repeat_until_answered(Side::Parent, &claim)?,
                Reply::Done
            );
        let request = if is_granted {
            ClientRequest::Release(copy, Holds::SYSTEM)
        } else {
            ClientRequest::GiveBack {
                copy,
                to: job.full(server),
            }
        };
        match self.repeat_until_answered(Side::Child, &request)? {
            Reply::Refused(refusal) if !refusal.is_of_past_job() => {
                bail!("nested job {}: {refusal}", copy.number)
            }
            _ => {}
        }
        if !is_granted {
            self.deferred.insert(job, clock::monotonic() + RETRY_DELAY);
        }
        Ok(is_granted)
    }

    /// Repeats a request until it is answered, because a claim can be granted although its answer
    /// was lost. A temporary refusal does not count as an answer. Fails once the nested
    /// installation is being killed. Once the nested installation begins to end, a request to adopt
    /// a job is no longer repeated, and any other request is repeated only for [`STOP_TIMEOUT`].
    fn repeat_until_answered(
        &mut self,
        side: Side,
        request: &ClientRequest,
    ) -> Result<Reply, ClientError> {
        let mut until = None;
        while !self.is_aborted() {
            let error = match self.send(side, request) {
                Ok(Reply::Refused(refusal)) if refusal.is_temporary() => {
                    ClientError::Unreachable(refusal.text)
                }
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if self.is_stopping() {
                let until = *until.get_or_insert(clock::monotonic() + STOP_TIMEOUT);
                // Before the job is claimed, the move can simply be abandoned.
                if matches!(request, ClientRequest::Adopt(_)) || clock::monotonic() > until {
                    return Err(error);
                }
            }
            self.report_problem(&error.to_string());
            thread::park_timeout(POLL_INTERVAL);
        }
        Err(ClientError::Unreachable(
            "the nested installation is ending".into(),
        ))
    }

    /// Sends a request to one of the two servers. In tests, claims can fail at the fault points.
    fn send(&self, side: Side, request: &ClientRequest) -> Result<Reply, ClientError> {
        if matches!(request, ClientRequest::Claim(_)) {
            fault::point("nested.claim")
                .map_err(|error| ClientError::Unreachable(error.to_string()))?;
        }
        let mut client = match side {
            Side::Parent => reach(&self.parent)?,
            Side::Child => Client::connect(&self.child)?,
        };
        client.set_timeout(ANSWER_TIMEOUT);
        let reply = client.call(request)?;
        if matches!(request, ClientRequest::Claim(_)) {
            fault::point("nested.claimed")
                .map_err(|error| ClientError::Unreachable(error.to_string()))?;
        }
        Ok(reply)
    }
}

/// The server that receives a request: the parent or the nested installation (child).
#[derive(Clone, Copy, Debug)]
enum Side {
    Parent,
    Child,
}

/// The job that a queue offers, if any; the error is the reason why the queue offers no jobs.
type Offer = Result<Option<Offered>, Refusal>;

/// The parent's server name, and the job that its queue offers. The jobs in `except` are not
/// offered.
fn offer(parent: &Home, queue: &str, except: BTreeSet<JobId>) -> Result<(String, Offer)> {
    let question = Question::Offer {
        queue: queue.to_string(),
        except,
    };
    let (mut server, mut offer) = (String::new(), None);
    reach(parent)?.ask(&question, |part| {
        match part {
            ClientAnswer::Server(facts) => server = facts.name,
            ClientAnswer::Offer(found) => offer = Some(*found),
            _ => {}
        }
        Continue::Wanted
    })?;
    Ok((
        server,
        offer.context("the parent schedd did not answer the query")?,
    ))
}

fn reach(parent: &Home) -> Result<Client, ClientError> {
    let mut client = Client::reach(parent)?;
    client.set_timeout(ANSWER_TIMEOUT);
    Ok(client)
}
