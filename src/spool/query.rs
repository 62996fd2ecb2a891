//! The one query function behind `qstat`, `qselect` and `pbsnodes`: run by the spool's owner in
//! the command itself, by schedd on a reader thread for everybody else.

use super::load::{self, job_of};
use super::{Reader, SpoolError, ties};
use crate::model::array::Indices;
use crate::model::job::{Job, JobId, Program, Share};
use crate::model::queue::Queue;
use crate::model::reason::Reason;
use crate::model::state::State;
use crate::model::text::Text;
use crate::model::time::{Span, Time};
use crate::wire::message::{
    Answer, Arrays, Detail, Filter, History, NodeRecord, Question, QueueCounts, Record, Row, ServerFacts,
};
use rusqlite::{Connection, OptionalExtension, ToSql, params, params_from_iter};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How many jobs one part of an answer holds.
const PART: usize = 500;

/// And how many bytes, about: an answer travels in frames, which are bounded.
const PART_BYTES: usize = 1 << 20;

/// Who asks, and what they may see.
#[derive(Clone, Copy, Debug)]
pub struct Viewer {
    /// The user.
    pub uid: u32,
    /// May see everybody's environment: operator, root, or the one user of a personal system.
    pub privileged: bool,
}

impl Reader {
    /// Answers part by part, the server's facts first. What `each` says ends the answer early.
    pub fn answer(
        &mut self,
        question: &Question,
        viewer: Viewer,
        each: &mut dyn FnMut(Answer) -> Result<(), SpoolError>,
    ) -> Result<(), SpoolError> {
        // One transaction: all parts are of one moment.
        let connection = self.connection.transaction()?;
        let server = server(&connection, viewer)?;
        let history = server.history;
        let shown = if history { "1" } else { "state <> 'F'" };
        each(Answer::Server(Box::new(server)))?;
        match question {
            Question::Server => Ok(()),
            Question::Queues => each(Answer::Queues(queues(&connection, shown)?)),
            Question::Nodes => each(Answer::Nodes(nodes(&connection)?)),
            Question::JobsById(ids, detail) => {
                let mut search = Search::new(&connection, *detail, viewer)?;
                for id in ids {
                    let job = load::job(&connection, *id)?.filter(|job| history || job.life.state != State::Finished);
                    job.map_or(Ok(()), |job| search.found(job, each))?;
                }
                search.flush(each)
            }
            Question::Trace(id) => {
                let mut search = Search::new(&connection, Detail::Whole, viewer)?;
                let job = load::job(&connection, *id)?.filter(|job| history || job.life.state != State::Finished);
                job.map_or(Ok(()), |job| search.found(job, each))?;
                search.flush(each)?;
                super::trace::tell(&connection, *id, each)
            }
            Question::Jobs(filter, detail) => {
                let mut search = Search::new(&connection, *detail, viewer)?;
                search.all(filter, shown, each)?;
                search.flush(each)
            }
            Question::Elements(id, only, detail) => {
                let mut search = Search::new(&connection, *detail, viewer)?;
                if let Some(array) = load::job(&connection, *id)? {
                    search.elements(&array, *only, &[], each)?;
                }
                search.flush(each)
            }
        }
    }
}

fn server(connection: &Connection, viewer: Viewer) -> Result<ServerFacts, SpoolError> {
    let facts: Option<ServerFacts> = load::meta(connection, "server")?;
    let facts = facts.ok_or_else(|| std::io::Error::other("the spool is new: no schedd has finished its start yet"))?;
    Ok(ServerFacts { clock: load::clock(connection)?, privileged: viewer.privileged, ..facts })
}

/// SQL over the columns of `job`, and a value for each `?` in it.
fn condition(filter: &Filter) -> (String, Vec<String>) {
    let mut conditions = vec![match filter.history {
        History::Live => "state <> 'F'".to_string(),
        History::Finished => "state = 'F'".to_string(),
        History::All => "1".to_string(),
    }];
    if matches!(filter.arrays, Arrays::Only | Arrays::ElementsOnly) {
        conditions.push("is_array".to_string());
    }
    let mut values = Vec::new();
    let mut one_of = |column: &str, wanted: Vec<String>| {
        if !wanted.is_empty() {
            conditions.push(format!("{column} IN ({})", vec!["?"; wanted.len()].join(",")));
            values.extend(wanted);
        }
    };
    one_of("queue", filter.queues.clone());
    one_of("owner", filter.owners.clone());
    if !filter.arrays.shows_elements() {
        one_of("state", filter.states.iter().map(|state| state.letter().to_string()).collect());
    }
    (conditions.join(" AND "), values)
}

type Each<'a> = &'a mut dyn FnMut(Answer) -> Result<(), SpoolError>;

/// Jobs being found: how much of each, for whom, and the part of the answer that fills up.
struct Search<'a> {
    connection: &'a Connection,
    detail: Detail,
    viewer: Viewer,
    waits: Waits,
    rows: Vec<Row>,
    records: Vec<Record>,
    bytes: usize,
}

impl Search<'_> {
    fn new(connection: &Connection, detail: Detail, viewer: Viewer) -> Result<Search<'_>, SpoolError> {
        let tied = ties::exist(connection)?;
        let waits = Waits { bookings: bookings(connection)?, reasons: BTreeMap::new(), tied };
        Ok(Search { connection, detail, viewer, waits, rows: Vec::new(), records: Vec::new(), bytes: 0 })
    }

    /// `shown`: SQL for the jobs that may be shown at all.
    fn all(&mut self, filter: &Filter, shown: &str, each: Each) -> Result<(), SpoolError> {
        match (self.detail, filter.arrays.shows_elements()) {
            (Detail::Row, false) => self.plain_rows(filter, shown, each),
            _ => self.jobs(filter, shown, each),
        }
    }

    /// The rows of a plain list come from columns alone.
    fn plain_rows(&mut self, filter: &Filter, shown: &str, each: Each) -> Result<(), SpoolError> {
        let (condition, values) = condition(filter);
        let sql = format!(
            "SELECT id, name, owner, cput, state, queue, is_array FROM job WHERE {condition} AND {shown} ORDER BY id"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let mut found = statement.query(params_from_iter(&values))?;
        while let Some(row) = found.next()? {
            let number = row.get(0)?;
            self.rows.push(Row {
                id: if row.get(6)? { JobId::array(number) } else { JobId::job(number) },
                name: row.get(1)?,
                owner: row.get(2)?,
                cput: Span(row.get(3)?),
                state: state_of(row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?),
                queue: row.get(5)?,
            });
            self.flush_full(each)?;
        }
        Ok(())
    }

    fn jobs(&mut self, filter: &Filter, shown: &str, each: Each) -> Result<(), SpoolError> {
        let (condition, values) = condition(filter);
        let sql = format!("SELECT id, spec, life, class FROM job WHERE {condition} AND {shown} ORDER BY id");
        let mut statement = self.connection.prepare(&sql)?;
        let mut found = statement.query(params_from_iter(&values))?;
        while let Some(row) = found.next()? {
            self.bytes += row.get_ref(1)?.as_str().map_or(0, str::len) + row.get_ref(2)?.as_str().map_or(0, str::len);
            let job = job_of(self.connection, row)?;
            let elements = job.id.is_array() && filter.arrays.shows_elements();
            let array = elements.then(|| job.clone());
            if filter.arrays != Arrays::ElementsOnly && filter.shows(job.life.state) {
                self.known(job, row.get(3)?, each)?;
            }
            if let Some(array) = array {
                self.elements(&array, None, &filter.states, each)?;
            }
        }
        Ok(())
    }

    /// The elements of an array in the order of their indices: those that have a record, and between
    /// them those that have none. `states` empty: in any state.
    fn elements(&mut self, array: &Job, only: Option<Indices>, states: &[State], each: Each) -> Result<(), SpoolError> {
        let Some(indices) = array.indices() else { return Ok(()) };
        let wanted: Box<dyn Iterator<Item = u32>> = match only {
            None => Box::new(indices.iter()),
            Some(only) => Box::new(only.iter().filter(move |&index| indices.position(index).is_some())),
        };
        let mut recorded = Recorded::of(self.connection, array);
        let class = self.class(array)?;
        for index in wanted.take_while(|&index| index <= indices.largest()) {
            let element = match recorded.at(index)? {
                Some(element) => Some(element),
                None => array.unrecorded(index),
            };
            let Some(mut element) = element else { continue };
            expire(&mut element, array);
            if states.is_empty() || states.contains(&element.life.state) {
                let own = if element.life.run.is_some() { self.class(&element)? } else { None };
                self.known(element, own.or(class), each)?;
            }
        }
        Ok(())
    }

    /// A job found by its id.
    fn found(&mut self, mut job: Job, each: Each) -> Result<(), SpoolError> {
        let mut class = self.class(&job)?;
        if let Some(array) = job.id.parent().and_then(|id| load::job(self.connection, id).transpose()).transpose()? {
            expire(&mut job, &array);
            class = class.or(self.class(&array)?);
        }
        self.known(job, class, each)
    }

    /// The class that a job is in while it waits.
    fn class(&self, job: &Job) -> Result<Option<i64>, SpoolError> {
        let number = job.id.number;
        let class = |sql: &str, values: &[&dyn ToSql]| {
            self.connection.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()
        };
        let found = match job.id.index() {
            None => class("SELECT class FROM job WHERE id = ?1", params![number]),
            Some(index) => class("SELECT class FROM element WHERE job = ?1 AND idx = ?2", params![number, index]),
        };
        Ok(found?.flatten())
    }

    fn known(&mut self, job: Job, class: Option<i64>, each: Each) -> Result<(), SpoolError> {
        match self.detail {
            Detail::Row => self.rows.push(Row {
                id: job.id,
                name: job.spec.name.clone(),
                owner: job.owner.user,
                cput: job.life.used.cput,
                state: job.life.state,
                queue: job.spec.queue.clone(),
            }),
            Detail::Whole | Detail::Environment => {
                let record = self.record(job, class)?;
                self.bytes +=
                    record.environ.as_ref().map_or(0, Vec::len) + size_of_val(&record.links[..]) + OF_A_RECORD;
                self.records.push(record);
            }
        }
        self.flush_full(each)
    }

    fn record(&mut self, mut job: Job, class: Option<i64>) -> Result<Record, SpoolError> {
        let queued = job.life.state == State::Queued;
        let reason = match class.filter(|_| queued) {
            Some(class) => self.waits.reason(self.connection, class)?,
            None => None,
        };
        let booked = self.waits.bookings.get(&job.id.number).copied().filter(|_| queued);
        let may_see = self.viewer.privileged || self.viewer.uid == job.owner.uid;
        let environ = match self.detail {
            Detail::Environment if may_see => load::blob(self.connection, job.spec.environ)?,
            _ => None,
        };
        if !may_see {
            withhold(&mut job);
        }
        let waiting_again = if job.id.is_array() { waiting_again(self.connection, job.id)? } else { 0 };
        let tied = self.waits.tied && job.id.index().is_none();
        let links = if tied { ties::links(self.connection, job.id)? } else { Vec::new() };
        Ok(Record { job, reason, booked, waiting_again, environ, links })
    }

    fn flush_full(&mut self, each: Each) -> Result<(), SpoolError> {
        let full = self.rows.len() == PART || self.records.len() == PART || self.bytes > PART_BYTES;
        if full { self.flush(each) } else { Ok(()) }
    }

    fn flush(&mut self, each: Each) -> Result<(), SpoolError> {
        self.bytes = 0;
        match self.detail {
            Detail::Row => each(Answer::Rows(std::mem::take(&mut self.rows))),
            Detail::Whole | Detail::Environment => each(Answer::Jobs(std::mem::take(&mut self.records))),
        }
    }
}

/// An element that is over is so for good only with its array.
fn expire(element: &mut Job, array: &Job) {
    if element.life.state == State::Finished && array.life.state != State::Finished {
        element.life.state = State::Expired;
    }
}

/// About what a record takes in an answer besides its texts.
const OF_A_RECORD: usize = 512;

/// The records of an array's elements, read in the order of their indices some at a time.
struct Recorded<'a> {
    connection: &'a Connection,
    array: &'a Job,
    read: VecDeque<Job>,
    /// The index to read on from; None when all have been read.
    from: Option<u32>,
}

impl Recorded<'_> {
    fn of<'a>(connection: &'a Connection, array: &'a Job) -> Recorded<'a> {
        Recorded { connection, array, read: VecDeque::new(), from: Some(0) }
    }

    /// The record of the element at this index; indices must be asked for in their order.
    fn at(&mut self, index: u32) -> Result<Option<Job>, SpoolError> {
        loop {
            match self.read.front().and_then(|job| job.id.index()) {
                Some(first) if first < index => drop(self.read.pop_front()),
                Some(first) if first == index => return Ok(self.read.pop_front()),
                Some(_) => return Ok(None),
                None if self.from.is_none() => return Ok(None),
                None => self.read_on(index)?,
            }
        }
    }

    fn read_on(&mut self, index: u32) -> Result<(), SpoolError> {
        let from = self.from.unwrap_or(0).max(index);
        let condition = "e.job = ?1 AND e.idx >= ?2 ORDER BY e.idx LIMIT ?3";
        let values = params![self.array.id.number, from, PART as i64];
        self.read = load::elements_where(self.connection, condition, values)?.into();
        let last = self.read.back().and_then(|job| job.id.index());
        self.from = last.filter(|_| self.read.len() == PART).map(|last| last + 1);
        Ok(())
    }
}

/// Elements of an array that have begun and neither run nor are over.
fn waiting_again(connection: &Connection, array: JobId) -> Result<u32, SpoolError> {
    let sql = "SELECT count(*) FROM element WHERE job = ?1 AND state <> 'F' AND state <> 'R'";
    Ok(connection.prepare_cached(sql)?.query_row([array.number], |row| row.get(0))?)
}

fn state_of(letter: &str) -> State {
    letter.chars().next().and_then(State::from_letter).unwrap_or(State::Finished)
}

/// Why queued jobs wait, and until when: the former is one for all jobs of a class.
struct Waits {
    bookings: BTreeMap<u64, Time>,
    reasons: BTreeMap<i64, Option<Reason>>,
    /// Whether any job is bound to another.
    tied: bool,
}

impl Waits {
    fn reason(&mut self, connection: &Connection, class: i64) -> Result<Option<Reason>, SpoolError> {
        if let Some(known) = self.reasons.get(&class) {
            return Ok(known.clone());
        }
        let reason = verdict(connection, class)?;
        self.reasons.insert(class, reason.clone());
        Ok(reason)
    }
}

/// Takes out what is its owner's business alone: the words of the command line hold variables
/// (`-v`) and arguments. The command's own name stays, as it does for the name of a script.
fn withhold(job: &mut Job) {
    let spec = Arc::make_mut(&mut job.spec);
    spec.arguments = Text::default();
    if let Program::Command(words) = &mut spec.program {
        words.truncate(1);
    }
}

fn verdict(connection: &Connection, class: i64) -> Result<Option<Reason>, SpoolError> {
    let mut statement = connection.prepare_cached("SELECT reason FROM verdict WHERE class = ?1")?;
    let text: Option<String> = statement.query_row([class], |row| row.get(0)).optional()?;
    Ok(text.map(|text| serde_json::from_str(&text)).transpose()?)
}

fn bookings(connection: &Connection) -> Result<BTreeMap<u64, Time>, SpoolError> {
    let mut statement = connection.prepare("SELECT job, at FROM booking")?;
    let bookings = statement.query_map([], |row| Ok((row.get(0)?, Time(row.get(1)?))))?;
    Ok(bookings.collect::<Result<_, _>>()?)
}

fn queues(connection: &Connection, shown: &str) -> Result<Vec<QueueCounts>, SpoolError> {
    let mut statement = connection.prepare("SELECT queue FROM queue ORDER BY name")?;
    let texts: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut counts: BTreeMap<String, BTreeMap<State, u64>> = BTreeMap::new();
    let counted = format!("SELECT queue, state, count(*) FROM job WHERE {shown} GROUP BY queue, state");
    let mut statement = connection.prepare(&counted)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let state = state_of(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?);
        counts.entry(row.get(0)?).or_default().insert(state, row.get(2)?);
    }
    let mut assigned = assigned_by_queue(connection)?;
    let one = |text: &String| {
        let queue: Queue = serde_json::from_str(text)?;
        let jobs = counts.remove(&queue.name).unwrap_or_default().into_iter().collect();
        let assigned = assigned.remove(&queue.name).unwrap_or_default().into_iter().collect();
        Ok(QueueCounts { queue, jobs, assigned })
    };
    texts.iter().map(one).collect()
}

fn assigned_by_queue(connection: &Connection) -> Result<BTreeMap<String, BTreeMap<String, i64>>, SpoolError> {
    let mut sums: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
    for job in running(connection)? {
        let sum = sums.entry(job.spec.queue.clone()).or_default();
        for share in shares(&job) {
            for (name, value) in &share.taken {
                *sum.entry(name.clone()).or_default() += value.amount().unwrap_or(0);
            }
        }
    }
    Ok(sums)
}

fn running(connection: &Connection) -> Result<Vec<Job>, SpoolError> {
    let mut jobs = load::jobs_where(connection, "state <> 'F' AND state = 'R'")?;
    jobs.extend(load::elements_where(connection, "e.state <> 'F' AND e.state = 'R'", [])?);
    Ok(jobs)
}

fn shares(job: &Job) -> &[Share] {
    job.life.run.as_ref().map_or(&[], |run| &run.shares)
}

fn nodes(connection: &Connection) -> Result<Vec<NodeRecord>, SpoolError> {
    let record = |node| NodeRecord { node, jobs: Vec::new(), exclusive: false };
    let mut records: BTreeMap<String, NodeRecord> =
        load::nodes(connection)?.into_iter().map(|node| (node.facts.name.clone(), record(node))).collect();
    for job in running(connection)? {
        for share in shares(&job) {
            let Some(record) = records.get_mut(&share.node) else { continue };
            record.jobs.push((job.id, share.clone()));
            record.exclusive |= job.spec.request.place.sharing.is_exclusive();
        }
    }
    Ok(records.into_values().collect())
}
