//! The one query function behind `qstat`, `qselect` and `pbsnodes`: run by the spool's owner in
//! the command itself, by schedd on a reader thread for everybody else.

use super::load::{self, job_of};
use super::{Reader, SpoolError};
use crate::model::job::{Job, JobId, Program, Share};
use crate::model::queue::Queue;
use crate::model::reason::Reason;
use crate::model::state::State;
use crate::model::text::Text;
use crate::model::time::{Span, Time};
use crate::wire::message::{
    Answer, Detail, Filter, History, NodeRecord, Question, QueueCounts, Record, Row, ServerFacts,
};
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use std::collections::BTreeMap;
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
        let shown = if server.history { "1" } else { "state <> 'F'" };
        each(Answer::Server(Box::new(server)))?;
        match question {
            Question::Server => Ok(()),
            Question::Queues => each(Answer::Queues(queues(&connection, shown)?)),
            Question::Nodes => each(Answer::Nodes(nodes(&connection)?)),
            Question::Trace(id) => {
                let condition = format!("id = {} AND {shown}", load::number(*id));
                let (detail, values) = (Detail::Whole, Vec::new());
                Search { connection: &connection, condition, values, detail, viewer }.run(each)?;
                super::trace::tell(&connection, *id, each)
            }
            Question::JobsById(ids, detail) => ids.chunks(PART).try_for_each(|ids| {
                let list = ids.iter().map(|id| id.number.to_string()).collect::<Vec<_>>().join(",");
                let condition = format!("id IN ({list}) AND {shown}");
                Search { connection: &connection, condition, values: Vec::new(), detail: *detail, viewer }.run(each)
            }),
            Question::Jobs(filter, detail) => {
                let (condition, values) = condition(filter);
                let condition = format!("{condition} AND {shown}");
                Search { connection: &connection, condition, values, detail: *detail, viewer }.run(each)
            }
        }
    }
}

fn server(connection: &Connection, viewer: Viewer) -> Result<ServerFacts, SpoolError> {
    let facts: Option<ServerFacts> = load::meta(connection, "server")?;
    let facts = facts.ok_or_else(|| std::io::Error::other("the spool is new: no schedd has finished its start yet"))?;
    Ok(ServerFacts { clock: load::clock(connection)?, privileged: viewer.privileged, ..facts })
}

fn condition(filter: &Filter) -> (String, Vec<String>) {
    let mut conditions = vec![match filter.history {
        History::Live => "state <> 'F'".to_string(),
        History::Finished => "state = 'F'".to_string(),
        History::All => "1".to_string(),
    }];
    let mut values = Vec::new();
    let mut one_of = |column: &str, wanted: Vec<String>| {
        if !wanted.is_empty() {
            conditions.push(format!("{column} IN ({})", vec!["?"; wanted.len()].join(",")));
            values.extend(wanted);
        }
    };
    one_of("queue", filter.queues.clone());
    one_of("owner", filter.owners.clone());
    one_of("state", filter.states.iter().map(|state| state.letter().to_string()).collect());
    (conditions.join(" AND "), values)
}

/// Which jobs, how much of each, and for whom.
struct Search<'a> {
    connection: &'a Connection,
    /// SQL over the columns of `job`, with a `?` for each of the values.
    condition: String,
    values: Vec<String>,
    detail: Detail,
    viewer: Viewer,
}

type Each<'a> = &'a mut dyn FnMut(Answer) -> Result<(), SpoolError>;

impl Search<'_> {
    fn run(&self, each: Each) -> Result<(), SpoolError> {
        match self.detail {
            Detail::Row => self.rows(each),
            Detail::Whole | Detail::Environment => self.records(each),
        }
    }

    fn rows(&self, each: Each) -> Result<(), SpoolError> {
        let condition = &self.condition;
        let sql = format!("SELECT id, name, owner, cput, state, queue FROM job WHERE {condition} ORDER BY id");
        let mut statement = self.connection.prepare(&sql)?;
        let mut found = statement.query(params_from_iter(&self.values))?;
        let mut part = Vec::new();
        while let Some(row) = found.next()? {
            part.push(Row {
                id: JobId::job(row.get(0)?),
                name: row.get(1)?,
                owner: row.get(2)?,
                cput: Span(row.get(3)?),
                state: state_of(row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?),
                queue: row.get(5)?,
            });
            if part.len() == PART {
                each(Answer::Rows(std::mem::take(&mut part)))?;
            }
        }
        each(Answer::Rows(part))
    }

    fn records(&self, each: Each) -> Result<(), SpoolError> {
        let (connection, condition) = (self.connection, &self.condition);
        let sql = format!("SELECT id, spec, life, class FROM job WHERE {condition} ORDER BY id");
        let mut statement = connection.prepare(&sql)?;
        let mut found = statement.query(params_from_iter(&self.values))?;
        let mut waits = Waits { bookings: bookings(connection)?, reasons: BTreeMap::new() };
        let (mut part, mut bytes) = (Vec::new(), 0);
        while let Some(row) = found.next()? {
            let class: Option<i64> = row.get(3)?;
            bytes += row.get_ref(1)?.as_str().map_or(0, str::len) + row.get_ref(2)?.as_str().map_or(0, str::len);
            let record = record(connection, &mut waits, job_of(row)?, class, self.detail, self.viewer)?;
            bytes += record.environ.as_ref().map_or(0, Vec::len);
            part.push(record);
            if part.len() == PART || bytes > PART_BYTES {
                each(Answer::Jobs(std::mem::take(&mut part)))?;
                bytes = 0;
            }
        }
        each(Answer::Jobs(part))
    }
}

fn state_of(letter: &str) -> State {
    letter.chars().next().and_then(State::from_letter).unwrap_or(State::Finished)
}

/// Why queued jobs wait, and until when: the former is one for all jobs of a class.
struct Waits {
    bookings: BTreeMap<u64, Time>,
    reasons: BTreeMap<i64, Option<Reason>>,
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

fn record(
    connection: &Connection,
    waits: &mut Waits,
    mut job: Job,
    class: Option<i64>,
    detail: Detail,
    viewer: Viewer,
) -> Result<Record, SpoolError> {
    let queued = job.life.state == State::Queued;
    let reason = match class.filter(|_| queued) {
        Some(class) => waits.reason(connection, class)?,
        None => None,
    };
    let booked = waits.bookings.get(&job.id.number).copied().filter(|_| queued);
    let may_see = viewer.privileged || viewer.uid == job.owner.uid;
    let environ = match detail {
        Detail::Environment if may_see => load::blob(connection, job.spec.environ)?,
        _ => None,
    };
    if !may_see {
        withhold(&mut job);
    }
    Ok(Record { job, reason, booked, environ })
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
    load::jobs_where(connection, "state <> 'F' AND state = 'R'")
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
