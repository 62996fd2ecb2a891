//! Queries of schedd. When schedd starts, it loads its state, such as all unfinished jobs. Later,
//! it reads single records.

use super::{Spool, SpoolError};
use crate::model::job::array::{Elements, SubjobState};
use crate::model::job::promise::PromisedStart;
use crate::model::job::{Digest, Job, Life, Owner, Spec};
use crate::model::job_id::JobId;
use crate::model::node::Node;
use crate::model::reason::Reason;
use crate::model::time::{ClockTable, Time};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use serde::de::{DeserializeOwned, IgnoredAny};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Spool {
    /// All unfinished jobs, with arrays before subjobs. Subjobs that have never started have no
    /// record; the array contains the states of all subjobs.
    pub fn live_jobs(&self) -> Result<Vec<Job>, SpoolError> {
        self.jobs("state <> 'F'", "e.state <> 'F' ORDER BY e.job, e.idx")
    }

    /// Finished jobs with an attempt that the node has not reported as ended.
    pub fn unsettled_jobs(&self) -> Result<Vec<Job>, SpoolError> {
        let open = "state = 'F' AND json_extract(life, '$[1].run.open')";
        self.jobs(open, "e.state = 'F' AND json_extract(e.life, '$.run.open')")
    }

    fn jobs(&self, of_jobs: &str, of_elements: &str) -> Result<Vec<Job>, SpoolError> {
        let mut jobs = jobs_where(&self.connection, of_jobs)?;
        jobs.extend(elements_where(&self.connection, of_elements, [])?);
        Ok(jobs)
    }

    /// One job, array or subjob, finished or not.
    pub fn job(&self, id: JobId) -> Result<Option<Job>, SpoolError> {
        job(&self.connection, id)
    }

    /// The job that a user has submitted with this token.
    pub fn submitted(&self, uid: u32, token: [u8; 16]) -> Result<Option<JobId>, SpoolError> {
        let sql = "SELECT token.job, coalesce(job.is_array, 0) FROM token LEFT JOIN job ON job.id = token.job
            WHERE token.uid = ?1 AND token.token = ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let found = statement
            .query_row((uid, token), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        Ok(found.map(|(number, is_array)| {
            if is_array {
                JobId::array(number)
            } else {
                JobId::job(number)
            }
        }))
    }

    /// The bytes stored under a digest.
    pub fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, SpoolError> {
        blob(&self.connection, digest)
    }

    /// All nodes.
    pub fn nodes(&self) -> Result<Vec<Node>, SpoolError> {
        nodes(&self.connection)
    }

    /// The clock steps: how far the wall clock is ahead of schedd's own clock, and since when.
    pub fn clock(&self) -> Result<ClockTable, SpoolError> {
        clock(&self.connection)
    }

    /// The value stored under a key in table `meta`; None if the key is not stored.
    pub fn meta<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, SpoolError> {
        meta(&self.connection, key)
    }

    /// The verdicts (reasons why jobs wait), each with the time since when its reason code has not
    /// changed. The key is a class (jobs that are equal for scheduling), a shape, or a single job.
    pub fn verdicts(&self) -> Result<BTreeMap<u64, (Reason, Time)>, SpoolError> {
        let mut statement = self
            .connection
            .prepare("SELECT class, reason, since FROM verdict")?;
        let mut rows = statement.query([])?;
        let mut verdicts = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let (class, reason): (i64, String) = (row.get(0)?, row.get(1)?);
            let verdict = (serde_json::from_str(&reason)?, Time(row.get(2)?));
            verdicts.insert(class as u64, verdict);
        }
        Ok(verdicts)
    }

    /// The planned starts.
    pub fn promises(&self) -> Result<BTreeMap<JobId, PromisedStart>, SpoolError> {
        promises(&self.connection)
    }
}

/// The planned starts of jobs and subjobs.
pub(super) fn promises(
    connection: &Connection,
) -> Result<BTreeMap<JobId, PromisedStart>, SpoolError> {
    let mut statement =
        connection.prepare("SELECT job, idx, at, first, nodes, earmark FROM promise")?;
    let (mut rows, mut promises) = (statement.query([])?, BTreeMap::new());
    while let Some(row) = rows.next()? {
        let (number, index): (u64, i64) = (row.get(0)?, row.get(1)?);
        let id =
            u32::try_from(index).map_or(JobId::job(number), |index| JobId::element(number, index));
        let nodes = serde_json::from_str(row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?)?;
        let held_until = row.get::<_, Option<i64>>(5)?.map(Time);
        promises.insert(
            id,
            PromisedStart {
                at: Time(row.get(2)?),
                first: Time(row.get(3)?),
                nodes,
                held_until,
            },
        );
    }
    Ok(promises)
}

/// A job's number as SQLite's signed integer.
pub(super) fn number(id: JobId) -> i64 {
    i64::try_from(id.number).unwrap_or(i64::MAX)
}

pub(super) fn jobs_where(connection: &Connection, condition: &str) -> Result<Vec<Job>, SpoolError> {
    let sql = format!("SELECT id, spec, life FROM job WHERE {condition} ORDER BY id");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let (mut jobs, mut specs) = (Vec::new(), Specs::default());
    while let Some(row) = rows.next()? {
        jobs.push(job_of(connection, row, &mut specs)?);
    }
    Ok(jobs)
}

/// The value of column `idx` for a job: -1 for jobs that are not subjobs.
pub(super) fn index(id: JobId) -> i64 {
    id.index().map_or(-1, i64::from)
}

/// The job, array or subjob with this id.
pub(super) fn job(connection: &Connection, id: JobId) -> Result<Option<Job>, SpoolError> {
    // SQLite's integers are signed, so no stored job has a number above `i64::MAX`.
    if i64::try_from(id.number).is_err() {
        return Ok(None);
    }
    if let Some(index) = id.index() {
        return element(connection, id.number, index);
    }
    let mut statement =
        connection.prepare_cached("SELECT id, spec, life FROM job WHERE id = ?1")?;
    let mut rows = statement.query([id.number])?;
    let found = rows
        .next()?
        .map(|row| job_of(connection, row, &mut Specs::default()))
        .transpose()?;
    Ok(found.filter(|job| job.id == id))
}

/// A subjob, whether or not the table `element` contains it.
fn element(connection: &Connection, number: u64, index: u32) -> Result<Option<Job>, SpoolError> {
    let array = job(connection, JobId::array(number))?;
    array.map_or(Ok(None), |array| element_in(connection, &array, index))
}

/// A subjob of an array that is already loaded.
pub(super) fn element_in(
    connection: &Connection,
    array: &Job,
    index: u32,
) -> Result<Option<Job>, SpoolError> {
    let recorded = elements_where(
        connection,
        "e.job = ?1 AND e.idx = ?2",
        params![array.id.number, index],
    )?;
    Ok(element_of(array, index, recorded.into_iter().next()))
}

/// A subjob of an array, from the record of the subjob if the subjob has started. The record of a
/// waiting subjob describes an earlier attempt and is ignored.
pub(super) fn element_of(array: &Job, index: u32, recorded: Option<Job>) -> Option<Job> {
    match recorded {
        Some(job) if array.subjob_state(index) != Some(SubjobState::Waiting) => Some(job),
        _ => array.subjob_without_record(index),
    }
}

/// Subjobs with a record, by an SQL condition on the columns of `element e` and `job j`.
pub(super) fn elements_where(
    connection: &Connection,
    condition: &str,
    values: impl Params,
) -> Result<Vec<Job>, SpoolError> {
    let sql = format!(
        "SELECT e.job, e.idx, coalesce(e.spec, j.spec), e.life, j.life FROM element e JOIN job j ON j.id = e.job
        WHERE {condition}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(values)?;
    let (mut elements, mut specs) = (Vec::new(), Specs::default());
    while let Some(row) = rows.next()? {
        let spec = specs.read(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?)?;
        let life: Life =
            serde_json::from_str(row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?)?;
        let (owner, _): (Owner, IgnoredAny) =
            serde_json::from_str(row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?)?;
        elements.push(Job {
            id: JobId::element(row.get(0)?, row.get(1)?),
            owner,
            spec,
            life,
            elements: None,
        });
    }
    Ok(elements)
}

/// Cache of the options that were read last, because consecutive jobs, such as subjobs, often have
/// equal options.
#[derive(Default)]
pub(super) struct Specs(Option<(String, Arc<Spec>)>);

impl Specs {
    fn read(&mut self, text: &str) -> Result<Arc<Spec>, SpoolError> {
        match &self.0 {
            Some((known, spec)) if known == text => Ok(spec.clone()),
            _ => Ok(self
                .0
                .insert((text.to_string(), Arc::new(serde_json::from_str(text)?)))
                .1
                .clone()),
        }
    }
}

/// Reads a job or array from a row with the columns id, spec and life.
pub(super) fn job_of(
    connection: &Connection,
    row: &Row,
    specs: &mut Specs,
) -> Result<Job, SpoolError> {
    let spec = specs.read(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)?;
    let (owner, life): (Owner, Life) =
        serde_json::from_str(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?)?;
    let number = row.get(0)?;
    let job = Job {
        id: JobId::job(number),
        owner,
        spec,
        life,
        elements: None,
    };
    match job.spec.array {
        None => Ok(job),
        Some(_) => {
            let elements = Some(Arc::new(subjob_states(connection, number)?));
            Ok(Job {
                id: JobId::array(number),
                elements,
                ..job
            })
        }
    }
}

/// The subjob states of an array.
fn subjob_states(connection: &Connection, number: u64) -> Result<Elements, SpoolError> {
    let mut statement =
        connection.prepare_cached("SELECT first, last, standing FROM standing WHERE job = ?1")?;
    let mut rows = statement.query([number])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        let word: String = row.get(2)?;
        let Some(state) = subjob_state(&word) else {
            let text = format!("the spool contains damaged subjob states of array {number}[]");
            return Err(SpoolError::Io(std::io::Error::other(text)));
        };
        runs.push((row.get(0)?, row.get(1)?, state));
    }
    Ok(Elements::of_runs(runs))
}

fn subjob_state(word: &str) -> Option<SubjobState> {
    match word {
        "Q" => Some(SubjobState::Waiting),
        "R" => Some(SubjobState::Begun),
        status => status.parse().ok().map(SubjobState::Ended),
    }
}

pub(super) fn blob(connection: &Connection, digest: Digest) -> Result<Option<Vec<u8>>, SpoolError> {
    let mut statement = connection.prepare_cached("SELECT bytes FROM blob WHERE digest = ?1")?;
    Ok(statement
        .query_row([digest.0], |row| row.get(0))
        .optional()?)
}

pub(super) fn nodes(connection: &Connection) -> Result<Vec<Node>, SpoolError> {
    records(connection, "SELECT node FROM node ORDER BY name")
}

/// All values of a query for one JSON column.
pub(super) fn records<T: DeserializeOwned>(
    connection: &Connection,
    sql: &str,
) -> Result<Vec<T>, SpoolError> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        let text = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        records.push(serde_json::from_str(text)?);
    }
    Ok(records)
}

pub(super) fn clock(connection: &Connection) -> Result<ClockTable, SpoolError> {
    let mut statement =
        connection.prepare("SELECT since, ahead FROM clock ORDER BY since, rowid")?;
    let steps = statement
        .query_map([], |row| Ok((Time(row.get(0)?), row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    Ok(ClockTable::new(steps))
}

pub(super) fn meta<T: DeserializeOwned>(
    connection: &Connection,
    key: &str,
) -> Result<Option<T>, SpoolError> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    let text: Option<String> = statement.query_row([key], |row| row.get(0)).optional()?;
    Ok(text.map(|text| serde_json::from_str(&text)).transpose()?)
}
