//! Takes jobs of the parent's queue into a nested instance: a held copy first, then the claim, then the release.
//!
//! It is a thread of its own, so that neither schedd waits for the other. A daemon that was killed is asked again once
//! it is back. Each request can be repeated. The parent is never started from here: its user may have stopped it.

use crate::model::job::JobId;
use crate::model::refusal::Refusal;
use crate::model::state::{Holds, State};
use crate::model::time::Span;
use crate::spool;
use crate::spool::Reader;
use crate::spool::query::Viewer;
use crate::sys::home::Home;
use crate::sys::{clock, fault, process};
use crate::wire::client::{Client, ClientError};
use crate::wire::message::{Adoption, Answer, Detail, Filter, Offered, Question, Reply, Request};
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

/// The thread that takes jobs. When this value is dropped, the thread moves no more jobs.
pub struct Taker {
    end: Arc<Ends>,
    thread: Option<JoinHandle<()>>,
}

/// How the thread is to end.
#[derive(Debug, Default)]
struct Ends {
    /// No other job is taken. The job that is being moved is moved.
    leave: AtomicBool,
    /// The nested instance is being killed: nothing is asked any more.
    give_up: AtomicBool,
}

/// Refuses a queue that the parent does not have, or that is not for nested instances.
pub fn check(parent: &Home, queue: &str) -> Result<()> {
    let offer = Request::Offer { queue: queue.to_string(), after: None };
    match reach(parent).and_then(|mut client| client.call(&offer)) {
        Ok(Reply::Refused(refusal)) => bail!("--queue {queue}: {refusal}"),
        // A parent that cannot be reached now is asked later.
        _ => Ok(()),
    }
}

impl Taker {
    /// Begins to take jobs.
    pub fn start(parent: Home, child: Home, queue: &str) -> Result<Taker> {
        let end = Arc::new(Ends::default());
        let (queue, refused) = (queue.to_string(), BTreeSet::new());
        let mut taking = Taking { parent, child, queue, refused, complaint: None, end: end.clone() };
        let thread = thread::Builder::new().name("taker".into()).spawn(move || taking.run())?;
        Ok(Taker { end, thread: Some(thread) })
    }

    /// Takes no more jobs. Waits for the job that is being moved.
    pub fn stop(mut self) {
        self.end.leave.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.end.leave.store(true, Ordering::Relaxed);
        self.end.give_up.store(true, Ordering::Relaxed);
        self.thread.iter().for_each(|thread| thread.thread().unpark());
    }
}

struct Taking {
    parent: Home,
    child: Home,
    queue: String,
    /// Jobs that the nested instance could not run.
    refused: BTreeSet<JobId>,
    /// What was last said to be wrong, so that it is said once.
    complaint: Option<String>,
    end: Arc<Ends>,
}

impl Taking {
    fn run(&mut self) {
        while !self.is_leaving() {
            match self.take_next() {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => self.complain(&format!("{error:#}")),
            }
            thread::park_timeout(PAUSE);
        }
    }

    fn complain(&mut self, why: &str) {
        if self.complaint.as_deref() != Some(why) && !self.is_leaving() {
            eprintln!("schedd: no jobs can be taken from queue {} now: {why}", self.queue);
            self.complaint = Some(why.to_string());
        }
    }

    fn is_leaving(&self) -> bool {
        self.end.leave.load(Ordering::Relaxed)
    }

    fn has_given_up(&self) -> bool {
        self.end.give_up.load(Ordering::Relaxed)
    }

    /// Takes the first job that can be had, if no job waits in the nested instance; whether there was one.
    fn take_next(&mut self) -> Result<bool> {
        if !self.has_room()? {
            return Ok(false);
        }
        let mut after = None;
        loop {
            let offered = self.offered(after)?;
            let Some(last) = offered.last() else { return Ok(false) };
            after = Some(last.job);
            for offered in offered {
                if self.refused.contains(&offered.job) {
                    continue;
                }
                if self.is_leaving() {
                    return Ok(false);
                }
                if self.take(offered)? {
                    return Ok(true);
                }
            }
        }
    }

    fn offered(&self, after: Option<JobId>) -> Result<Vec<Offered>> {
        match self.ask(&self.parent, &Request::Offer { queue: self.queue.clone(), after })? {
            Reply::Offered(offered) => Ok(offered),
            other => bail!("the parent schedd: an unexpected answer: {other:?}"),
        }
    }

    /// Whether no job waits in the nested instance. The answer comes from the spool, so it neither starts the nested
    /// schedd nor keeps it from leaving when it is idle.
    fn has_room(&self) -> Result<bool> {
        let Some(mut reader) = Reader::open(&spool::file(&self.child))? else { return Ok(false) };
        let queued = Filter { states: vec![State::Queued], ..Filter::default() };
        let mut has_room = true;
        reader.answer(&Question::Jobs(queued, Detail::Row), Viewer::own(), &mut |part| {
            has_room &= !matches!(part, Answer::Rows(rows) if !rows.is_empty());
            Ok(())
        })?;
        Ok(has_room)
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
        let granted = !self.is_leaving() && matches!(self.insist(&self.parent, &claim)?, Reply::Done);
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

    /// Asks until there is an answer, because a claim may have been granted although its answer was lost. Returns an
    /// error once the nested instance is being killed, or if there is no answer long after it was to end.
    fn insist(&self, home: &Home, request: &Request) -> Result<Reply, ClientError> {
        let mut until = None;
        while !self.has_given_up() {
            let error = match self.ask(home, request) {
                Err(error) => error,
                answer => return answer,
            };
            if self.is_leaving() && clock::monotonic() > *until.get_or_insert(clock::monotonic() + FAREWELL) {
                return Err(error);
            }
            thread::park_timeout(PAUSE);
        }
        Err(ClientError::Unreachable("the nested instance ends".into()))
    }

    /// Each claim can fail on demand, for tests: the copy then stays held.
    fn ask(&self, home: &Home, request: &Request) -> Result<Reply, ClientError> {
        if matches!(request, Request::Claim { .. }) {
            fault::point("nested.claim").map_err(|error| ClientError::Unreachable(error.to_string()))?;
        }
        let mut client = if *home == self.parent { reach(home)? } else { Client::connect(home)? };
        client.be_impatient(ANSWER);
        client.call(request)
    }
}

fn reach(parent: &Home) -> Result<Client, ClientError> {
    let mut client = Client::reach(parent)?;
    client.be_impatient(ANSWER);
    Ok(client)
}
