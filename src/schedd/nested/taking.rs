//! Takes jobs of the parent's queue into a nested instance: a held copy first, then the claim, then the release.
//!
//! It is a thread of its own, so that neither schedd waits for the other. A daemon that was killed is asked again once
//! it is back. Each request can be repeated.

use crate::model::job::JobId;
use crate::model::refusal::Refusal;
use crate::model::state::{Holds, State};
use crate::model::time::Span;
use crate::sys::home::Home;
use crate::sys::{clock, fault, process};
use crate::wire::client::{Client, ClientError};
use crate::wire::message::{Adoption, Offered, Reply, Request, Status};
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the parent is asked for jobs.
const PAUSE: Duration = Duration::from_millis(500);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(20);
/// How long a request is repeated once the nested instance is to end.
const FAREWELL: Span = Span::seconds(20);

/// The thread that takes jobs.
pub struct Taker {
    leave: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Refuses a queue that the parent has not, or that is not for nested instances.
pub fn check(parent: &Home, queue: &str) -> Result<()> {
    let offer = Request::Offer { queue: queue.to_string(), after: None };
    match Client::reach(parent).and_then(|mut client| client.call(&offer)) {
        Ok(Reply::Refused(refusal)) => bail!("--queue {queue}: {refusal}"),
        // A parent that is away for a moment is asked later.
        _ => Ok(()),
    }
}

impl Taker {
    /// Begins to take jobs.
    pub fn start(parent: Home, child: Home, queue: &str) -> Result<Taker> {
        let leave = Arc::new(AtomicBool::new(false));
        let mut taking =
            Taking { parent, child, queue: queue.to_string(), refused: BTreeSet::new(), leave: leave.clone() };
        let thread = thread::Builder::new().name("taker".into()).spawn(move || taking.run())?;
        Ok(Taker { leave, thread })
    }

    /// Takes no more jobs. One that is being moved is first moved whole, or not at all.
    pub fn stop(self) {
        self.leave.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}

struct Taking {
    parent: Home,
    child: Home,
    queue: String,
    /// Jobs that the nested instance could not run.
    refused: BTreeSet<JobId>,
    leave: Arc<AtomicBool>,
}

impl Taking {
    fn run(&mut self) {
        while !self.is_leaving() {
            if !self.take_next().unwrap_or(false) {
                thread::park_timeout(PAUSE);
            }
        }
    }

    fn is_leaving(&self) -> bool {
        self.leave.load(Ordering::Relaxed)
    }

    /// Takes the first job that can be had, if no job waits in the nested instance; whether there was one.
    fn take_next(&mut self) -> Result<bool> {
        let mut after = None;
        loop {
            let offered = self.offered(after)?;
            let Some(last) = offered.last() else { return Ok(false) };
            after = Some(last.job);
            for offered in offered {
                if self.refused.contains(&offered.job) {
                    continue;
                }
                if !self.has_room()? || self.is_leaving() {
                    return Ok(false);
                }
                if self.take(offered)? {
                    return Ok(true);
                }
            }
        }
    }

    fn offered(&self, after: Option<JobId>) -> Result<Vec<Offered>> {
        match ask(&self.parent, &Request::Offer { queue: self.queue.clone(), after })? {
            Reply::Offered(offered) => Ok(offered),
            other => bail!("the parent schedd: an unexpected answer: {other:?}"),
        }
    }

    fn has_room(&self) -> Result<bool> {
        let Reply::Status(status) = ask(&self.child, &Request::Status)? else { return Ok(false) };
        let Status { jobs, .. } = *status;
        Ok(!jobs.iter().any(|&(state, count)| state == State::Queued && count > 0))
    }

    /// Whether the job was moved.
    fn take(&mut self, offered: Offered) -> Result<bool> {
        let job = offered.job;
        let adoption = Adoption { token: process::random()?, offered };
        let to = match self.insist(&self.child, &Request::Adopt(Box::new(adoption)))? {
            Reply::Accepted { id, .. } => id,
            Reply::Refused(refusal) => {
                self.refuse(job, &refusal);
                return Ok(false);
            }
            other => bail!("schedd: an unexpected answer: {other:?}"),
        };
        let copy: JobId = to.split('.').next().unwrap_or_default().parse()?;
        let claim = Request::Claim { job, to, token: process::random()? };
        let granted = matches!(self.insist(&self.parent, &claim)?, Reply::Done);
        let request = match granted {
            true => Request::Release(copy, Holds::SYSTEM),
            false => Request::Delete { job: copy, only: None, force: true, purge: false },
        };
        self.insist(&self.child, &request)?;
        Ok(granted)
    }

    fn refuse(&mut self, job: JobId, refusal: &Refusal) {
        eprintln!("schedd: job {} of queue {} cannot run here: {refusal}", job.number, self.queue);
        self.refused.insert(job);
    }

    /// Asks until there is an answer: what has begun must come to its end.
    fn insist(&self, home: &Home, request: &Request) -> Result<Reply, ClientError> {
        let mut until = None;
        loop {
            let error = match reach(home, request) {
                Err(error) => error,
                answer => return answer,
            };
            if self.is_leaving() && clock::monotonic() > *until.get_or_insert(clock::monotonic() + FAREWELL) {
                return Err(error);
            }
            clock::sleep(PAUSE);
        }
    }
}

/// Each claim can fail on demand, for tests: the copy then stays held.
fn reach(home: &Home, request: &Request) -> Result<Reply, ClientError> {
    if matches!(request, Request::Claim { .. }) {
        fault::point("nested.claim").map_err(|error| ClientError::Unreachable(error.to_string()))?;
    }
    ask(home, request)
}

fn ask(home: &Home, request: &Request) -> Result<Reply, ClientError> {
    let mut client = Client::connect(home)?;
    client.be_impatient(ANSWER);
    client.call(request)
}
