//! Which jobs `qstat` shows: all, or those its operands name.

use super::ask::Ask;
use super::exit::Failure;
use super::operand::Operand;
use crate::model::attribute::same_server;
use crate::model::job::JobId;
use crate::model::refusal::Refusal;
use crate::model::state::State;
use crate::wire::message::{Arrays, Detail, Filter, History, Question, Record, Row, ServerFacts};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

/// What is asked for beside the operands. It filters lists; a job named by its id is shown anyway.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// How much of each job.
    pub detail: Detail,
    /// Whether finished jobs are shown.
    pub history: History,
    /// In these states; any if empty.
    pub states: Vec<State>,
    /// Of these owners; anybody's if None.
    pub owners: Option<Vec<Owner>>,
    /// How arrays are shown.
    pub arrays: Arrays,
}

/// `user[@host]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    user: String,
    host: Option<String>,
}

impl Owner {
    /// Reads `user[@host][,...]`.
    pub fn parse_list(text: &str) -> Vec<Owner> {
        let owner = |name: &str| match name.split_once('@') {
            Some((user, host)) => Owner { user: user.to_string(), host: Some(host.to_string()) },
            None => Owner { user: name.to_string(), host: None },
        };
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(owner).collect()
    }

    /// The user's name.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Whether the job is this owner's: exact names, the host as in `Job_Owner`.
    pub fn owns(&self, record: &Record) -> bool {
        let host = &record.job.spec.submit_host;
        self.user == record.job.owner.user && self.host.as_ref().is_none_or(|named| named == host)
    }
}

/// What was found, in the order of the operands.
#[derive(Debug)]
pub struct Found {
    /// How to show ids and times.
    pub server: ServerFacts,
    /// With [`Detail::Row`].
    pub rows: Vec<Row>,
    /// With more detail.
    pub jobs: Vec<Record>,
    /// What was not found.
    pub failures: Vec<Failure>,
}

/// Finds the jobs.
pub fn find(wanted: &Wanted, operands: &[OsString], ask: &mut Ask) -> Result<Found, Failure> {
    if operands.is_empty() {
        return all(wanted, ask);
    }
    let server = ask(&Question::Server)?.server;
    if wanted.lacks_history(&server) {
        let named = |word: &OsString| {
            Operand::parse(word).map_or(word.to_string_lossy().into_owned(), |o| o.full(&server.name))
        };
        let failures = operands.iter().map(|word| no_history(&named(word))).collect();
        return Ok(Found { server, rows: Vec::new(), jobs: Vec::new(), failures });
    }
    let places: Vec<Place> = operands.iter().map(|word| Place::parse(word, &server.name)).collect();
    let named = Named::ask(&places, wanted.detail, ask)?;
    let found = Found { server, rows: Vec::new(), jobs: Vec::new(), failures: Vec::new() };
    let mut search = Search { wanted, named, found, shown: BTreeSet::new(), queues: None };
    for place in places {
        search.visit(place, ask)?;
    }
    Ok(search.found)
}

fn all(wanted: &Wanted, ask: &mut Ask) -> Result<Found, Failure> {
    let question = match wanted.none_can_match() {
        true => Question::Server,
        false => Question::Jobs(wanted.filter(None), wanted.detail),
    };
    let answers = ask(&question)?;
    if wanted.lacks_history(&answers.server) {
        let failures = vec![no_history("")];
        return Ok(Found { server: answers.server, rows: Vec::new(), jobs: Vec::new(), failures });
    }
    let jobs = answers.jobs.into_iter().filter(|record| wanted.keeps(record)).collect();
    Ok(Found { server: answers.server, rows: answers.rows, jobs, failures: Vec::new() })
}

impl Wanted {
    fn lacks_history(&self, server: &ServerFacts) -> bool {
        !server.history && self.history != History::Live
    }

    fn none_can_match(&self) -> bool {
        self.owners.as_ref().is_some_and(Vec::is_empty)
    }

    fn filter(&self, queue: Option<String>) -> Filter {
        let owners = self.owners.iter().flatten().map(|owner| owner.user.clone()).collect();
        Filter {
            history: self.history,
            queues: queue.into_iter().collect(),
            owners,
            states: self.states.clone(),
            arrays: self.arrays,
        }
    }

    fn keeps(&self, record: &Record) -> bool {
        self.owners.as_ref().is_none_or(|owners| owners.iter().any(|owner| owner.owns(record)))
    }
}

/// What an operand means at this server.
enum Place {
    Job(JobId, String),
    /// A queue, or None for all.
    Queue(Option<String>),
    Nowhere(Failure),
}

impl Place {
    fn parse(word: &OsStr, server: &str) -> Place {
        if is_job_id(word) { Place::job(word, server) } else { Place::destination(&word.to_string_lossy(), server) }
    }

    fn job(word: &OsStr, server: &str) -> Place {
        let operand = match Operand::parse(word) {
            Ok(operand) => operand,
            Err(failure) => return Place::Nowhere(failure),
        };
        let full = operand.full(server);
        match operand.job(server) {
            Some(id) => Place::Job(id, id.full(server)),
            None => Place::Nowhere(Failure::of_job("qstat", &Refusal::unknown_job(), &full)),
        }
    }

    fn destination(text: &str, server: &str) -> Place {
        let (queue, host) = text.split_once('@').unwrap_or((text, server));
        if !same_server(host, server) {
            return Place::Nowhere(unknown_host(host));
        }
        Place::Queue(Some(queue.to_string()).filter(|queue| !queue.is_empty()))
    }
}

/// Whether an operand is meant as a job id: it starts with a digit.
pub fn is_job_id(word: &OsStr) -> bool {
    word.as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)
}

/// No server of that name is known here.
pub fn unknown_host(host: &str) -> Failure {
    Failure::new(255, format!("cannot connect to server {host} (errno=15008): Unknown Host."))
}

/// The jobs that operands name.
struct Named {
    rows: BTreeMap<JobId, Row>,
    jobs: BTreeMap<JobId, Record>,
}

impl Named {
    fn ask(places: &[Place], detail: Detail, ask: &mut Ask) -> Result<Named, Failure> {
        let id = |place: &Place| match place {
            Place::Job(id, _) => Some(*id),
            _ => None,
        };
        let ids: BTreeSet<JobId> = places.iter().filter_map(id).collect();
        if ids.is_empty() {
            return Ok(Named { rows: BTreeMap::new(), jobs: BTreeMap::new() });
        }
        let answers = ask(&Question::JobsById(ids.into_iter().collect(), detail))?;
        let rows = answers.rows.into_iter().map(|row| (row.id, row)).collect();
        Ok(Named { rows, jobs: answers.jobs.into_iter().map(|record| (record.job.id, record)).collect() })
    }

    fn state(&self, id: JobId) -> Option<State> {
        let row = self.rows.get(&id).map(|row| row.state);
        row.or_else(|| self.jobs.get(&id).map(|record| record.job.life.state))
    }
}

struct Search<'a> {
    wanted: &'a Wanted,
    named: Named,
    found: Found,
    /// What has been found already: a job named twice is shown once.
    shown: BTreeSet<JobId>,
    /// The queues there are, once asked for.
    queues: Option<Vec<String>>,
}

impl Search<'_> {
    fn visit(&mut self, place: Place, ask: &mut Ask) -> Result<(), Failure> {
        match place {
            Place::Job(id, full) => self.job(id, &full),
            Place::Queue(queue) => self.queue(queue, ask)?,
            Place::Nowhere(failure) => self.found.failures.push(failure),
        }
        Ok(())
    }

    fn job(&mut self, id: JobId, full: &str) {
        if self.shown.contains(&id) {
            return;
        }
        match self.named.state(id) {
            None => self.fail(Failure::of_job("qstat", &Refusal::unknown_job(), full)),
            Some(State::Finished) if self.wanted.history == History::Live => self.fail(has_finished(full)),
            Some(_) => {
                self.shown.insert(id);
                self.found.rows.extend(self.named.rows.remove(&id));
                self.found.jobs.extend(self.named.jobs.remove(&id));
            }
        }
    }

    fn queue(&mut self, queue: Option<String>, ask: &mut Ask) -> Result<(), Failure> {
        let unknown = match &queue {
            Some(name) if !self.has_queue(name, ask)? => Some(unknown_destination(name)),
            _ => None,
        };
        if let Some(failure) = unknown {
            self.fail(failure);
            return Ok(());
        }
        if self.wanted.none_can_match() {
            return Ok(());
        }
        let answers = ask(&Question::Jobs(self.wanted.filter(queue), self.wanted.detail))?;
        let rows = answers.rows.into_iter().filter(|row| self.shown.insert(row.id));
        self.found.rows.extend(rows);
        let kept = answers.jobs.into_iter().filter(|record| self.wanted.keeps(record));
        self.found.jobs.extend(kept.filter(|record| self.shown.insert(record.job.id)));
        Ok(())
    }

    fn has_queue(&mut self, name: &str, ask: &mut Ask) -> Result<bool, Failure> {
        if self.queues.is_none() {
            let queues = ask(&Question::Queues)?.queues;
            self.queues = Some(queues.into_iter().map(|counted| counted.queue.name).collect());
        }
        Ok(self.queues.iter().flatten().any(|queue| queue == name))
    }

    fn fail(&mut self, failure: Failure) {
        self.found.failures.push(failure);
    }
}

fn unknown_destination(name: &str) -> Failure {
    let refusal = Refusal::unknown_queue();
    Failure::new(refusal.exit_code(), format!("{} destination {name}", refusal.text))
}

/// Finished jobs are asked for, and none are kept; `what` was named. As in PBS this is no failure.
pub fn no_history(what: &str) -> Failure {
    Failure::new(0, format!("{} {what}", Refusal::no_history().text))
}

fn has_finished(full: &str) -> Failure {
    let code = Refusal::finished().exit_code();
    Failure::new(code, format!("{full} Job has finished, use -x or -H to obtain historical job information"))
}
