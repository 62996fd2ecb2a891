//! The jobs that `qstat` displays: all jobs, or the jobs that the operands name.

use crate::cli::client::exit::Failure;
use crate::cli::client::operand::Operand;
use crate::cli::client::query::{self, Feed};
use crate::model::job::array::Indices;
use crate::model::job::state::JobState;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::model::server_name::same_server;
use crate::wire::message::{
    Arrays, ClientAnswer, Detail, Filter, History, JobRecord, JobRow, Question, ServerFacts,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

/// The filters of a query. `owners` and `states` do not exclude jobs named by id.
#[derive(Clone, Debug)]
pub struct JobQuery {
    /// The amount of detail of each job.
    pub detail: Detail,
    /// Selection of unfinished and finished jobs.
    pub history: History,
    /// States of the jobs; empty for all states.
    pub states: Vec<JobState>,
    /// Owners of the jobs; None for all owners.
    pub owners: Option<Vec<OwnerPattern>>,
    /// Display of arrays and subjobs.
    pub arrays: Arrays,
}

/// An owner: `user[@host]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerPattern {
    user: String,
    host: Option<String>,
}

impl OwnerPattern {
    /// Parses `user[@host][,...]`.
    pub fn parse_list(text: &str) -> Vec<OwnerPattern> {
        text.split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(OwnerPattern::parse)
            .collect()
    }

    fn parse(text: &str) -> OwnerPattern {
        let (user, host) = match text.split_once('@') {
            Some((user, host)) => (user, Some(host.to_string())),
            None => (text, None),
        };
        OwnerPattern {
            user: user.to_string(),
            host,
        }
    }

    /// The user name.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// True if the job belongs to this owner: the user name is equal, and the host, if given, is
    /// the host in `Job_Owner`.
    pub fn owns(&self, record: &JobRecord) -> bool {
        let host = &record.job.spec.submit_host;
        self.user == record.job.owner.user && self.host.as_ref().is_none_or(|named| named == host)
    }
}

/// A batch of jobs that were found.
#[derive(Debug)]
pub enum FoundJobs {
    /// For queries with [`Detail::Row`].
    Rows(Vec<JobRow>),
    /// For queries with more detail.
    Jobs(Vec<JobRecord>),
}

/// Receives jobs as they are found, in the order of display.
pub trait Show {
    /// Receives the server facts; called first.
    fn server(&mut self, server: &ServerFacts);
    /// Receives the length of the longest id, without the server name, among the jobs that follow.
    /// Not called if the length is unknown, or if there are operands and none displays subjobs.
    fn longest(&mut self, characters: usize);
    /// Receives the next jobs.
    fn found(&mut self, batch: FoundJobs) -> Result<(), Failure>;
}

/// Finds the jobs and passes them to `show`. Returns a failure for each malformed operand, for each
/// unknown job or queue, for each job or queue of another server, and, without `-x` and `-H`, for
/// each finished job that is named by id. If finished jobs are requested and the server keeps no
/// history, returns one failure for each operand; if there are no operands, a single failure.
pub fn find(
    wanted: &JobQuery,
    operands: &[OsString],
    feed: &mut Feed,
    show: &mut dyn Show,
) -> Result<Vec<Failure>, Failure> {
    if operands.is_empty() {
        return all(wanted, feed, show);
    }
    let server = query::whole(feed)(&Question::Server)?.server;
    show.server(&server);
    if wanted.lacks_history(&server) {
        let failures = operands.iter().map(|word| match Operand::parse(word) {
            Ok(operand) => no_history(&operand.full(&server.name)),
            Err(_) => no_history(&word.to_string_lossy()),
        });
        return Ok(failures.collect());
    }
    let targets: Vec<OperandTarget> = operands
        .iter()
        .map(|word| OperandTarget::parse(word, &server.name))
        .collect();
    let named = NamedJobs::query(&targets, wanted.detail, feed)?;
    let shows_elements = targets.iter().any(|target| target.shows_elements(wanted));
    if shows_elements && let Some(longest) = named.longest {
        show.longest(longest as usize);
    }
    let mut search = JobSearch {
        wanted,
        named,
        feed,
        show,
        shown: ShownJobs::default(),
        queues: None,
        failures: Vec::new(),
    };
    for target in targets {
        search.visit(target)?;
    }
    Ok(search.failures)
}

fn all(wanted: &JobQuery, feed: &mut Feed, show: &mut dyn Show) -> Result<Vec<Failure>, Failure> {
    let question = if wanted.none_can_match() {
        Question::Server
    } else {
        Question::Jobs(wanted.filter(None), wanted.detail)
    };
    let mut failures = Vec::new();
    feed(&question, &mut |part| {
        match part {
            ClientAnswer::Server(server) => {
                show.server(&server);
                if wanted.lacks_history(&server) {
                    failures.push(no_history(""));
                }
            }
            ClientAnswer::Longest(longest) => show.longest(longest as usize),
            ClientAnswer::Rows(rows) => show.found(FoundJobs::Rows(rows))?,
            ClientAnswer::Jobs(mut jobs) => {
                jobs.retain(|record| wanted.matches_owner(record));
                show.found(FoundJobs::Jobs(jobs))?;
            }
            ClientAnswer::Queues(_) | ClientAnswer::Nodes(_) | ClientAnswer::Events(_) => {}
            ClientAnswer::Reservations(_)
            | ClientAnswer::Ahead(_)
            | ClientAnswer::Objects(_)
            | ClientAnswer::Cycles(_) => {}
            ClientAnswer::Tallies(_) | ClientAnswer::Entries(_) | ClientAnswer::Offer(_) => {}
        }
        Ok(())
    })?;
    Ok(failures)
}

impl JobQuery {
    fn lacks_history(&self, server: &ServerFacts) -> bool {
        !server.history && self.history != History::Live
    }

    fn none_can_match(&self) -> bool {
        self.owners.as_ref().is_some_and(Vec::is_empty)
    }

    fn filter(&self, queue: Option<String>) -> Filter {
        let owners = self
            .owners
            .iter()
            .flatten()
            .map(|owner| owner.user.clone())
            .collect();
        Filter {
            history: self.history,
            queues: queue.into_iter().collect(),
            owners,
            states: self.states.clone(),
            arrays: self.arrays,
            after: None,
        }
    }

    fn matches_owner(&self, record: &JobRecord) -> bool {
        self.owners
            .as_ref()
            .is_none_or(|owners| owners.iter().any(|owner| owner.owns(record)))
    }
}

/// The meaning of an operand on this server.
enum OperandTarget {
    /// A job or an array, the selected subjobs of the array, and the full id.
    Job(JobId, Option<Indices>, String),
    /// A queue; None for all queues.
    Queue(Option<String>),
    /// An illegal id, or a job or queue of another server.
    Unknown(Failure),
}

impl OperandTarget {
    fn parse(word: &OsStr, server: &str) -> OperandTarget {
        if is_job_id(word) {
            OperandTarget::job(word, server)
        } else {
            OperandTarget::destination(&word.to_string_lossy(), server)
        }
    }

    fn job(word: &OsStr, server: &str) -> OperandTarget {
        let operand = match Operand::parse(word) {
            Ok(operand) => operand,
            Err(failure) => return OperandTarget::Unknown(failure),
        };
        match operand.job(server) {
            Some(id) => OperandTarget::Job(id, operand.only(), operand.full_on(server)),
            None => {
                let mut failure = operand.wrong_server(word);
                if failure.away.is_some() {
                    failure.code = 255;
                }
                OperandTarget::Unknown(failure)
            }
        }
    }

    fn destination(text: &str, server: &str) -> OperandTarget {
        let (queue, host) = text.split_once('@').unwrap_or((text, server));
        if !same_server(host, server) {
            return OperandTarget::Unknown(unknown_server(host));
        }
        OperandTarget::Queue(Some(queue.to_string()).filter(|queue| !queue.is_empty()))
    }
}

impl OperandTarget {
    fn shows_elements(&self, wanted: &JobQuery) -> bool {
        match self {
            OperandTarget::Job(id, only, _) => {
                only.is_some() || (id.is_array() && wanted.arrays.shows_elements())
            }
            OperandTarget::Queue(_) | OperandTarget::Unknown(_) => false,
        }
    }
}

/// True if an operand is a job id and not a queue. Job ids start with a digit.
pub fn is_job_id(word: &OsStr) -> bool {
    word.as_encoded_bytes()
        .first()
        .is_some_and(u8::is_ascii_digit)
}

/// The failure for an unknown server, with qstat's exit status 255.
pub fn unknown_server(host: &str) -> Failure {
    Failure::unknown_host(host).with_code(255)
}

/// The jobs named by operands.
#[derive(Default)]
struct NamedJobs {
    rows: BTreeMap<JobId, JobRow>,
    jobs: BTreeMap<JobId, JobRecord>,
    states: BTreeMap<JobId, JobState>,
    longest: Option<u32>,
}

impl NamedJobs {
    fn query(
        targets: &[OperandTarget],
        detail: Detail,
        feed: &mut Feed,
    ) -> Result<NamedJobs, Failure> {
        let ids: BTreeSet<JobId> = targets
            .iter()
            .filter_map(|target| match target {
                OperandTarget::Job(id, ..) => Some(*id),
                _ => None,
            })
            .collect();
        if ids.is_empty() {
            return Ok(NamedJobs::default());
        }
        let answers = query::whole(feed)(&Question::JobsById(ids.into_iter().collect(), detail))?;
        let rows: BTreeMap<JobId, JobRow> =
            answers.rows.into_iter().map(|row| (row.id, row)).collect();
        let jobs: BTreeMap<JobId, JobRecord> = answers
            .jobs
            .into_iter()
            .map(|record| (record.job.id, record))
            .collect();
        let of_rows = rows.iter().map(|(id, row)| (*id, row.state));
        let states = of_rows
            .chain(jobs.iter().map(|(id, record)| (*id, record.job.life.state)))
            .collect();
        Ok(NamedJobs {
            rows,
            jobs,
            states,
            longest: answers.longest,
        })
    }
}

/// Jobs that have been displayed: a job named twice is displayed once.
#[derive(Default)]
struct ShownJobs {
    ids: BTreeSet<JobId>,
    /// Arrays with displayed subjobs: all subjobs if None, else the subjobs with these indices.
    elements: Vec<(JobId, Option<Indices>)>,
}

impl ShownJobs {
    fn contains(&self, id: JobId) -> bool {
        self.ids.contains(&id)
            || self.elements.iter().any(|(array, only)| {
                id.parent() == Some(*array)
                    && only.is_none_or(|only| {
                        id.index()
                            .is_some_and(|index| only.position(index).is_some())
                    })
            })
    }
}

impl FoundJobs {
    fn retain(&mut self, mut kept: impl FnMut(JobId) -> bool) {
        match self {
            FoundJobs::Rows(rows) => rows.retain(|row| kept(row.id)),
            FoundJobs::Jobs(jobs) => jobs.retain(|record| kept(record.job.id)),
        }
    }

    /// The jobs in a part of an answer; None if the part contains something else.
    fn of(part: ClientAnswer) -> Option<FoundJobs> {
        if let ClientAnswer::Rows(rows) = part {
            return Some(FoundJobs::Rows(rows));
        }
        if let ClientAnswer::Jobs(jobs) = part {
            return Some(FoundJobs::Jobs(jobs));
        }
        None
    }
}

struct JobSearch<'a, 'f> {
    wanted: &'a JobQuery,
    named: NamedJobs,
    feed: &'a mut Feed<'f>,
    show: &'a mut dyn Show,
    shown: ShownJobs,
    /// The names of the existing queues; None before the first query.
    queues: Option<Vec<String>>,
    failures: Vec<Failure>,
}

impl JobSearch<'_, '_> {
    fn visit(&mut self, target: OperandTarget) -> Result<(), Failure> {
        match target {
            OperandTarget::Job(id, only, full) => self.job(id, only, &full),
            OperandTarget::Queue(queue) => self.queue(queue),
            OperandTarget::Unknown(failure) => {
                self.failures.push(failure);
                Ok(())
            }
        }
    }

    fn job(&mut self, id: JobId, only: Option<Indices>, full: &str) -> Result<(), Failure> {
        let shows_elements =
            id.is_array() && (only.is_some() || self.wanted.arrays.shows_elements());
        match self.named.states.get(&id) {
            None => self.failures.push(unknown(full)),
            Some(JobState::Finished) if self.wanted.history == History::Live => {
                self.failures.push(has_finished(full))
            }
            Some(_) => {
                if only.is_none() && self.wanted.arrays != Arrays::ElementsOnly || !shows_elements {
                    self.show_job(id)?;
                }
                if shows_elements {
                    self.elements(id, only, full)?;
                }
            }
        }
        Ok(())
    }

    fn show_job(&mut self, id: JobId) -> Result<(), Failure> {
        if self.shown.contains(id) {
            return Ok(());
        }
        self.shown.ids.insert(id);
        if let Some(row) = self.named.rows.remove(&id) {
            self.show.found(FoundJobs::Rows(vec![row]))?;
        }
        self.named.jobs.remove(&id).map_or(Ok(()), |record| {
            self.show.found(FoundJobs::Jobs(vec![record]))
        })
    }

    fn elements(&mut self, array: JobId, only: Option<Indices>, full: &str) -> Result<(), Failure> {
        let mut found = false;
        let (shown, show) = (&self.shown, &mut *self.show);
        (self.feed)(
            &Question::Elements(array, only, self.wanted.detail),
            &mut |part| {
                let Some(mut batch) = FoundJobs::of(part) else {
                    return Ok(());
                };
                batch.retain(|id| {
                    found = true;
                    !shown.contains(id)
                });
                show.found(batch)
            },
        )?;
        self.shown.elements.push((array, only));
        if !found {
            self.failures.push(unknown(full));
        }
        Ok(())
    }

    fn queue(&mut self, queue: Option<String>) -> Result<(), Failure> {
        let unknown = match &queue {
            Some(name) if !self.has_queue(name)? => Some(unknown_destination(name)),
            _ => None,
        };
        if let Some(failure) = unknown {
            self.failures.push(failure);
            return Ok(());
        }
        if self.wanted.none_can_match() {
            return Ok(());
        }
        let (wanted, shown, show) = (self.wanted, &self.shown, &mut *self.show);
        let (mut ids, mut arrays) = (Vec::new(), BTreeSet::new());
        (self.feed)(
            &Question::Jobs(wanted.filter(queue), wanted.detail),
            &mut |part| {
                let Some(mut batch) = FoundJobs::of(part) else {
                    return Ok(());
                };
                if let FoundJobs::Jobs(jobs) = &mut batch {
                    jobs.retain(|record| wanted.matches_owner(record));
                }
                batch.retain(|id| {
                    let is_new = !shown.contains(id);
                    match id.parent() {
                        Some(array) => drop(arrays.insert(array)),
                        None => ids.push(id),
                    }
                    is_new
                });
                show.found(batch)
            },
        )?;
        self.shown.ids.extend(ids);
        self.shown
            .elements
            .extend(arrays.into_iter().map(|array| (array, None)));
        Ok(())
    }

    fn has_queue(&mut self, name: &str) -> Result<bool, Failure> {
        if self.queues.is_none() {
            let queues = query::whole(self.feed)(&Question::Queues)?.queues;
            self.queues = Some(
                queues
                    .into_iter()
                    .map(|counted| counted.queue.name)
                    .collect(),
            );
        }
        Ok(self.queues.iter().flatten().any(|queue| queue == name))
    }
}

fn unknown(full: &str) -> Failure {
    Failure::of_job("qstat", &Refusal::unknown_job(), full)
}

fn unknown_destination(name: &str) -> Failure {
    let refusal = Refusal::unknown_queue();
    Failure::new(
        refusal.exit_code(),
        format!("{} destination {name}", refusal.text),
    )
}

/// The failure if finished jobs are requested but the server keeps no history. `what` is the
/// operand; empty without operands. The exit status is 0, as in PBS.
pub fn no_history(what: &str) -> Failure {
    Failure::new(0, format!("{} {what}", Refusal::no_history().text))
}

fn has_finished(full: &str) -> Failure {
    let code = Refusal::finished().exit_code();
    Failure::new(
        code,
        format!("{full} Job has finished, use -x or -H to obtain historical job information"),
    )
}
