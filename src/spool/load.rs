//! What schedd reads: everything unfinished at its start, and single records later on.

use super::{Spool, SpoolError};
use crate::model::job::{Digest, Job, JobId, Life, Owner, Spec};
use crate::model::node::Node;
use crate::model::time::{ClockTable, Time};
use rusqlite::{Connection, OptionalExtension, Row};
use serde::de::DeserializeOwned;
use std::sync::Arc;

impl Spool {
    /// All jobs that are not finished, in the order of their numbers.
    pub fn live_jobs(&self) -> Result<Vec<Job>, SpoolError> {
        self.jobs("state <> 'F'")
    }

    /// Finished jobs whose node has still to report the end of an attempt.
    pub fn unsettled_jobs(&self) -> Result<Vec<Job>, SpoolError> {
        self.jobs("state = 'F' AND json_extract(life, '$[1].run.open')")
    }

    fn jobs(&self, condition: &str) -> Result<Vec<Job>, SpoolError> {
        jobs_where(&self.connection, condition)
    }

    /// One job, finished or not.
    pub fn job(&self, id: JobId) -> Result<Option<Job>, SpoolError> {
        let mut statement = self.connection.prepare_cached("SELECT id, spec, life FROM job WHERE id = ?1")?;
        let mut rows = statement.query([id.number])?;
        rows.next()?.map(job_of).transpose()
    }

    /// The job that a user has submitted by this token.
    pub fn submitted(&self, uid: u32, token: [u8; 16]) -> Result<Option<JobId>, SpoolError> {
        let mut statement = self.connection.prepare_cached("SELECT job FROM token WHERE uid = ?1 AND token = ?2")?;
        Ok(statement.query_row((uid, token), |row| row.get(0)).optional()?.map(JobId::job))
    }

    /// The bytes stored under a digest.
    pub fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, SpoolError> {
        blob(&self.connection, digest)
    }

    /// All nodes.
    pub fn nodes(&self) -> Result<Vec<Node>, SpoolError> {
        nodes(&self.connection)
    }

    /// How the wall clock stood when.
    pub fn clock(&self) -> Result<ClockTable, SpoolError> {
        clock(&self.connection)
    }

    /// A single fact by name.
    pub fn meta<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, SpoolError> {
        meta(&self.connection, key)
    }

    /// The classes that have a verdict.
    pub fn verdicts(&self) -> Result<Vec<u64>, SpoolError> {
        let mut statement = self.connection.prepare("SELECT class FROM verdict")?;
        let classes = statement.query_map([], |row| row.get::<_, i64>(0))?.collect::<Result<Vec<_>, _>>()?;
        Ok(classes.into_iter().map(|class| class as u64).collect())
    }
}

/// A job's number as the spool has it: SQLite's integers are signed.
pub(super) fn number(id: JobId) -> i64 {
    i64::try_from(id.number).unwrap_or(i64::MAX)
}

pub(super) fn jobs_where(connection: &Connection, condition: &str) -> Result<Vec<Job>, SpoolError> {
    let sql = format!("SELECT id, spec, life FROM job WHERE {condition} ORDER BY id");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next()? {
        jobs.push(job_of(row)?);
    }
    Ok(jobs)
}

/// A job from a row that begins with id, spec, life.
pub(super) fn job_of(row: &Row) -> Result<Job, SpoolError> {
    let spec: Spec = serde_json::from_str(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)?;
    let (owner, life): (Owner, Life) = serde_json::from_str(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?)?;
    Ok(Job { id: JobId::job(row.get(0)?), owner, spec: Arc::new(spec), life })
}

pub(super) fn blob(connection: &Connection, digest: Digest) -> Result<Option<Vec<u8>>, SpoolError> {
    let mut statement = connection.prepare_cached("SELECT bytes FROM blob WHERE digest = ?1")?;
    Ok(statement.query_row([digest.0], |row| row.get(0)).optional()?)
}

pub(super) fn nodes(connection: &Connection) -> Result<Vec<Node>, SpoolError> {
    let mut statement = connection.prepare("SELECT node FROM node ORDER BY name")?;
    let texts: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    texts.iter().map(|text| Ok(serde_json::from_str(text)?)).collect()
}

pub(super) fn clock(connection: &Connection) -> Result<ClockTable, SpoolError> {
    let mut statement = connection.prepare("SELECT since, ahead FROM clock ORDER BY since, rowid")?;
    let steps = statement.query_map([], |row| Ok((Time(row.get(0)?), row.get(1)?)))?.collect::<Result<_, _>>()?;
    Ok(ClockTable::new(steps))
}

pub(super) fn meta<T: DeserializeOwned>(connection: &Connection, key: &str) -> Result<Option<T>, SpoolError> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    let text: Option<String> = statement.query_row([key], |row| row.get(0)).optional()?;
    Ok(text.map(|text| serde_json::from_str(&text)).transpose()?)
}
