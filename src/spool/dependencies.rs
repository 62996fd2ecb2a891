//! The table of dependencies between jobs, with indexes for both jobs; and the labels of jobs
//! (Q29), by which dependencies can refer to jobs.
//!
//! A row is deleted with the waiting job. A dependency that is met keeps its row, because the job
//! that was waited for still displays the dependency.

use super::{Spool, SpoolError};
use crate::model::job::dependency::effects::TieState;
use crate::model::job::dependency::label::Mark;
use crate::model::job::dependency::{DependencyKind, DependencyView, Edge, Tie};
use crate::model::job::state::JobState;
use crate::model::job_id::{IdPart, JobId};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

/// Maximum number of rows that each query of [`links()`] returns, because the size of answers to
/// clients is limited.
const SHOWN: u64 = 100_000;

/// The table with its indexes.
pub(super) const SCHEMA: &str = "CREATE TABLE tie (
         job INTEGER NOT NULL, job_is_array INTEGER NOT NULL,
         kind TEXT NOT NULL,
         other INTEGER NOT NULL, other_is_array INTEGER NOT NULL,
         standing INTEGER NOT NULL);
     CREATE UNIQUE INDEX tie_other ON tie (other, kind, job);
     CREATE INDEX tie_job ON tie (job);";

/// The column for the label of a job, as `group:label`, and its index. Only jobs with a label are
/// in the index.
pub(super) const LABELS: &str = "ALTER TABLE job ADD COLUMN label TEXT;
    CREATE INDEX job_label ON job (uid, label, id) WHERE label IS NOT NULL;";

impl Spool {
    /// The undecided dependencies of unfinished jobs.
    pub fn open_dependencies(&self) -> Result<Vec<Tie>, SpoolError> {
        let sql = "SELECT tie.job, job_is_array, kind, other, other_is_array
            FROM tie JOIN job ON job.id = tie.job WHERE standing = 0 AND job.state <> 'F'";
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut dependencies = Vec::new();
        while let Some(row) = rows.next()? {
            let kind =
                DependencyKind::from_name(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?);
            let Some(kind) = kind else { continue };
            let job = named(row.get(0)?, row.get(1)?);
            dependencies.push(Tie {
                job,
                edge: Edge {
                    kind,
                    job: named(row.get(3)?, row.get(4)?),
                },
            });
        }
        Ok(dependencies)
    }

    /// The user's most recently submitted job with a label, including finished jobs but not
    /// `except`.
    pub fn labelled(
        &self,
        mark: &Mark,
        except: Option<JobId>,
    ) -> Result<Option<JobId>, SpoolError> {
        let sql = "SELECT id, is_array FROM job \
                   WHERE uid = ?1 AND label = ?2 AND id <> ?3 ORDER BY id DESC LIMIT 1";
        let except = except.map_or(-1, super::load::number);
        let mut statement = self.connection.prepare_cached(sql)?;
        let found = statement.query_row((mark.uid, &mark.text, except), |row| {
            Ok(named(row.get(0)?, row.get(1)?))
        });
        Ok(found.optional()?)
    }

    /// The dependencies that a job displays.
    pub fn links(&self, id: JobId) -> Result<Vec<DependencyView>, SpoolError> {
        links(&self.connection, id)
    }
}

fn named(number: u64, is_array: bool) -> JobId {
    JobId {
        number,
        part: if is_array {
            IdPart::Array
        } else {
            IdPart::Whole
        },
    }
}

/// Adds a dependency, or changes its state.
pub(super) fn write(
    transaction: &Transaction,
    tie: &Tie,
    state: TieState,
) -> Result<(), SpoolError> {
    let sql =
        "INSERT INTO tie (job, job_is_array, kind, other, other_is_array, standing) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (other, kind, job) DO UPDATE SET standing = excluded.standing";
    let (job, other) = (tie.job, tie.edge.job);
    transaction.prepare_cached(sql)?.execute(params![
        job.number,
        job.is_array(),
        tie.edge.kind.name(),
        other.number,
        other.is_array(),
        state as u8,
    ])?;
    Ok(())
}

/// Tests whether the table contains any dependency.
pub(super) fn exist(connection: &Connection) -> Result<bool, SpoolError> {
    Ok(connection.query_row("SELECT EXISTS (SELECT 1 FROM tie)", [], |row| row.get(0))?)
}

/// The dependencies that a job displays: its dependencies on other jobs, the dependencies of other
/// jobs on it, and the other jobs of its `runone` set.
pub(super) fn links(connection: &Connection, id: JobId) -> Result<Vec<DependencyView>, SpoolError> {
    let waits_for =
        "SELECT kind, other, other_is_array, state FROM tie LEFT JOIN job ON job.id = other
        WHERE tie.job = ?1 AND standing <> 1 AND kind <> 'runone' ORDER BY tie.rowid LIMIT ?2";
    let waited_for = "SELECT kind, job, job_is_array, NULL FROM tie
        WHERE other = ?1 AND kind <> 'runone' ORDER BY tie.rowid LIMIT ?2";
    let rivals = "SELECT mate.kind, mate.job, mate.job_is_array, NULL FROM tie AS own
        JOIN tie AS mate ON mate.other = own.other AND mate.kind = 'runone'
        WHERE own.job = ?1 AND own.kind = 'runone' AND own.standing <> 1 AND mate.standing <> 1 AND mate.job <> ?1
        ORDER BY mate.rowid LIMIT ?2";
    let mut links = found(connection, waits_for, id)?;
    for mut link in found(connection, waited_for, id)? {
        link.edge.kind = link.edge.kind.mirrored();
        links.push(link);
    }
    links.extend(found(connection, rivals, id)?);
    Ok(links)
}

fn found(connection: &Connection, sql: &str, id: JobId) -> Result<Vec<DependencyView>, SpoolError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([id.number, SHOWN])?;
    let mut links = Vec::new();
    while let Some(row) = rows.next()? {
        let Some(kind) =
            DependencyKind::from_name(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)
        else {
            continue;
        };
        let letter: Option<String> = row.get(3)?;
        let state = letter.and_then(|letter| JobState::from_letter(letter.chars().next()?));
        links.push(DependencyView {
            edge: Edge {
                kind,
                job: named(row.get(1)?, row.get(2)?),
            },
            state,
        });
    }
    Ok(links)
}
