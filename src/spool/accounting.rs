//! The accounting table. It has a row for each ended attempt (start of a job), and for each job
//! that ended without a start. These rows are kept longer than the row of the job.

use super::{Spool, SpoolError, load};
use crate::model::account::accounting::{
    AccountingEntry, AttemptCredentials, AttemptTimes, JobEnd, RequestedResources,
};
use crate::model::job::Usage;
use crate::model::job::held::Held;
use crate::model::job::preemption::JobPreemption;
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use rusqlite::{Row, Transaction, params};

/// The table. `idx` is -1 for jobs that are not subjobs. `submitted`, `eligible`, `began` and
/// `ended` are milliseconds of the wall clock. `at` is the end of the attempt, or of a job without
/// a start, by schedd's own clock, which is never stepped; `at` decides how long the row is kept.
/// `more` is JSON.
pub(super) const SCHEMA: &str = "CREATE TABLE accounting (
         job INTEGER NOT NULL, idx INTEGER NOT NULL, attempt INTEGER NOT NULL,
         at INTEGER NOT NULL, name TEXT NOT NULL,
         user TEXT NOT NULL, gid INTEGER NOT NULL, account TEXT NOT NULL, project TEXT NOT NULL,
         queue TEXT NOT NULL, qos TEXT NOT NULL,
         submitted INTEGER NOT NULL, eligible INTEGER, began INTEGER, ended INTEGER NOT NULL,
         status INTEGER, deleted INTEGER NOT NULL,
         walltime INTEGER NOT NULL, cput INTEGER NOT NULL, mem_kb INTEGER NOT NULL, vmem_kb INTEGER NOT NULL,
         ncpus INTEGER NOT NULL,
         asked_mem_kb INTEGER, gpus INTEGER NOT NULL, core_ms INTEGER NOT NULL, factor REAL NOT NULL,
         more TEXT NOT NULL,
         PRIMARY KEY (job, idx, attempt)) WITHOUT ROWID;
     CREATE INDEX accounting_at ON accounting (at);
     CREATE INDEX accounting_ended ON accounting (ended);";

/// The columns that [`entry`] reads, in this order.
pub(super) const COLUMNS: &str = "job, idx, attempt, name, user, gid, account, project, queue, qos,
     submitted, eligible, began, ended, status, deleted, walltime, cput, mem_kb, vmem_kb, ncpus, core_ms, factor, more";

/// Maximum number of rows that one call of [`forget`] deletes.
const PORTION: usize = 20_000;

/// Maximum of the stored durations (`walltime`, `cput`, `core_ms`), in milliseconds: 279 years. A
/// million values of this size can be summed without overflow.
const MOST: i64 = (1 << 43) - 1;

impl Spool {
    /// Tests whether there are records with an end (`at`) before a time.
    pub fn has_entries_before(&self, before: Time) -> Result<bool, SpoolError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM accounting WHERE at < ?1)")?;
        Ok(statement.query_row([before.0], |row| row.get(0))?)
    }
}

/// Writes the record of an attempt with the end `at`. If the table already has a record of this
/// attempt, does nothing. The stored `eligible`, if any, is not earlier than the end of the job's
/// previous attempt.
pub(super) fn write(
    transaction: &Transaction,
    at: Time,
    entry: &AccountingEntry,
) -> Result<(), SpoolError> {
    let sql = "INSERT OR IGNORE INTO accounting (job, idx, attempt, at, name, user, gid, account, project, queue, qos,
        submitted, eligible, began, ended, status, deleted, walltime, cput, mem_kb, vmem_kb, ncpus,
        asked_mem_kb, gpus, core_ms, factor, more)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
        max(?13, coalesce((SELECT max(ended) FROM accounting WHERE job = ?1 AND idx = ?2), ?13)),
        ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27)";
    let AccountingEntry {
        job,
        attempt,
        name,
        of,
        stamps,
        end,
        places,
        asked,
        held,
        used,
        core_ms,
        factor,
        made_way,
    } = entry;
    transaction.prepare_cached(sql)?.execute(params![
        load::number(*job),
        load::index(*job),
        attempt,
        at.0,
        name,
        of.user,
        of.gid,
        of.account,
        of.project,
        of.queue,
        of.qos,
        stamps.submitted,
        stamps.eligible,
        stamps.began,
        stamps.ended,
        end.map(|end| end.status),
        end.is_some_and(|end| end.deleted),
        used.walltime.0.min(MOST),
        used.cput.0.min(MOST),
        signed(used.mem_kb),
        signed(used.vmem_kb),
        used.ncpus,
        asked.mem_kb.map(signed),
        held.gpus,
        core_ms.min(&MOST),
        factor,
        serde_json::to_string(&(asked, held, places, made_way))?,
    ])?;
    Ok(())
}

/// The values in the JSON column `more`.
type ExtraColumns = (
    RequestedResources,
    Held,
    Vec<(String, u32)>,
    Option<Box<JobPreemption>>,
);

/// Parses the column `more`. Records of earlier versions lack the preemption.
fn extra_columns(more: &str) -> Result<ExtraColumns, serde_json::Error> {
    serde_json::from_str(more).or_else(|_| {
        let (asked, held, places) = serde_json::from_str(more)?;
        Ok((asked, held, places, None))
    })
}

/// Converts kilobytes to SQLite's signed integers.
fn signed(kb: u64) -> i64 {
    i64::try_from(kb).unwrap_or(i64::MAX)
}

/// Deletes the oldest records with an end (`at`) before a time, at most [`PORTION`].
pub(super) fn forget(transaction: &Transaction, before: Time) -> Result<(), SpoolError> {
    let sql = "DELETE FROM accounting WHERE (job, idx, attempt) IN
        (SELECT job, idx, attempt FROM accounting WHERE at < ?1 ORDER BY at LIMIT ?2)";
    transaction
        .prepare_cached(sql)?
        .execute((before.0, PORTION))?;
    Ok(())
}

/// Reads the record in a row with the columns [`COLUMNS`].
pub(super) fn entry(row: &Row) -> Result<AccountingEntry, SpoolError> {
    let (number, index): (u64, i64) = (row.get(0)?, row.get(1)?);
    let more = row.get_ref(23)?.as_str().map_err(rusqlite::Error::from)?;
    let (asked, held, places, made_way) = extra_columns(more)?;
    let (status, deleted) = (row.get::<_, Option<i32>>(14)?, row.get(15)?);
    Ok(AccountingEntry {
        job: u32::try_from(index).map_or(JobId::job(number), |index| JobId::element(number, index)),
        attempt: row.get(2)?,
        name: row.get(3)?,
        of: credentials(row)?,
        stamps: AttemptTimes {
            submitted: row.get(10)?,
            eligible: row.get(11)?,
            began: row.get(12)?,
            ended: row.get(13)?,
        },
        end: status.map(|status| JobEnd { status, deleted }),
        places,
        made_way,
        asked,
        held,
        used: Usage {
            walltime: Span(row.get(16)?),
            cput: Span(row.get(17)?),
            mem_kb: row.get(18)?,
            vmem_kb: row.get(19)?,
            ncpus: row.get(20)?,
        },
        core_ms: row.get(21)?,
        factor: row.get(22)?,
    })
}

fn credentials(row: &Row) -> Result<AttemptCredentials, SpoolError> {
    Ok(AttemptCredentials {
        user: row.get(4)?,
        gid: row.get(5)?,
        account: row.get(6)?,
        project: row.get(7)?,
        queue: row.get(8)?,
        qos: row.get(9)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::preemption::{PreemptAction, PreemptCause};

    #[test]
    fn records_of_earlier_versions_are_read() {
        let (asked, held, places) = (
            RequestedResources::default(),
            Held::default(),
            vec![("n1".to_string(), 2)],
        );
        let before = serde_json::to_string(&(&asked, &held, &places)).unwrap();
        assert_eq!(extra_columns(&before).unwrap().3, None);
        let preemption = JobPreemption {
            attempt: None,
            to: None,
            cause: PreemptCause::Limit,
            action: PreemptAction::Requeue,
            at: Time(5),
        };
        let now = serde_json::to_string(&(asked, held, &places, Some(&preemption))).unwrap();
        assert_eq!(extra_columns(&now).unwrap().3.as_deref(), Some(&preemption));
        assert_eq!(extra_columns(&now).unwrap().2, places);
    }
}
