//! Purges finished jobs from the history.
//!
//! The rows of a purged job in the tables `job` and `tie` are deleted immediately. The rows of
//! [`OF_A_JOB`] are deleted in portions, because an array of a million subjobs has millions of
//! them, and deleting all of them in one transaction would block the server.

use super::{Spool, SpoolError};
use crate::model::job_id::JobId;
use crate::model::time::Time;
use rusqlite::Transaction;

/// The table of purged jobs that still have rows in the tables of [`OF_A_JOB`].
pub(super) const SCHEMA: &str = "CREATE TABLE remains (job INTEGER PRIMARY KEY);";

/// The tables from which the rows of a job are deleted in portions, each with the column that
/// orders the rows.
const OF_A_JOB: [(&str, &str); 3] = [("event", "idx"), ("element", "idx"), ("standing", "first")];

/// Approximate number of rows that are deleted in one transaction.
const PORTION: usize = 20_000;

impl Spool {
    /// Tests whether rows of purged jobs are left.
    pub fn has_purged_rows(&self) -> Result<bool, SpoolError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM remains)")?;
        Ok(statement.query_row([], |row| row.get(0))?)
    }
}

/// Purges one job, or an array with its subjobs.
pub(super) fn forget(transaction: &Transaction, id: JobId) -> Result<(), SpoolError> {
    transaction
        .prepare_cached("DELETE FROM job WHERE id = ?1")?
        .execute([id.number])?;
    transaction
        .prepare_cached("DELETE FROM tie WHERE job = ?1")?
        .execute([id.number])?;
    transaction
        .prepare_cached("INSERT OR IGNORE INTO remains (job) VALUES (?1)")?
        .execute([id.number])?;
    Ok(())
}

/// Purges all jobs that finished before a time, and the scripts and environments that no other job
/// uses. Also deletes the events of deleted reservations before this time. A job or array with an
/// open attempt stays until the node has reported the end of the attempt.
pub(super) fn purge(transaction: &Transaction, before: Time) -> Result<(), SpoolError> {
    super::reservations::purge(transaction, before)?;
    let old = "INSERT OR IGNORE INTO remains SELECT id FROM job WHERE state = 'F' AND ended < ?1
        AND NOT coalesce(json_extract(life, '$[1].run.open'), 0)
        AND NOT EXISTS (SELECT 1 FROM element e WHERE e.job = job.id AND json_extract(e.life, '$.run.open'))";
    if transaction.execute(old, [before.0])? > 0 {
        transaction.execute("DELETE FROM job WHERE id IN (SELECT job FROM remains)", [])?;
        transaction.execute("DELETE FROM tie WHERE job IN (SELECT job FROM remains)", [])?;
        sweep(transaction)?;
    }
    Ok(())
}

/// Deletes from the database the scripts and environments that no job uses.
pub(super) fn sweep(transaction: &Transaction) -> Result<(), SpoolError> {
    let used = "SELECT script FROM job WHERE script IS NOT NULL UNION SELECT environ FROM job";
    transaction.execute(
        &format!("DELETE FROM blob WHERE digest NOT IN ({used})"),
        [],
    )?;
    Ok(())
}

/// Deletes a portion of the rows of purged jobs.
pub(super) fn clear(transaction: &Transaction) -> Result<(), SpoolError> {
    let mut statement = transaction.prepare_cached("SELECT job FROM remains LIMIT ?1")?;
    let jobs: Vec<i64> = statement
        .query_map([PORTION], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut left = PORTION;
    for job in jobs {
        for (table, key) in OF_A_JOB {
            let first = format!("SELECT {key} FROM {table} WHERE job = ?1 ORDER BY {key} LIMIT ?2");
            let portion = format!(
                "DELETE FROM {table} WHERE job = ?1 AND {key} <= (SELECT max({key}) FROM ({first}))"
            );
            let gone = transaction.prepare_cached(&portion)?.execute((job, left))?;
            left = left.saturating_sub(gone);
            if left == 0 {
                return Ok(());
            }
        }
        transaction
            .prepare_cached("DELETE FROM remains WHERE job = ?1")?
            .execute([job])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::array::SubjobState;
    use crate::model::job::event::Event;
    use crate::model::job::life::EventContext;
    use crate::model::job::state::JobState;
    use crate::model::job::{Job, Run};
    use crate::sched::fixture::{self, cluster};
    use crate::update::Update;
    use std::sync::Arc;

    const ID: JobId = JobId::array(7);

    /// A spool with a finished array of `count` subjobs, and the last of these subjobs.
    fn spool(folder: &tempfile::TempDir, count: u32) -> (Spool, Job) {
        let mut spool = Spool::open(&folder.path().join("spool.db")).unwrap();
        let moment = EventContext {
            now: Time(5),
            ..fixture::moment(0)
        };
        let mut array = cluster("1 x ncpus=1").job(7, &format!("array=1-{count}"));
        let mut changes = Vec::new();
        let mut last = None;
        for index in 1..=count {
            let mut element = array.subjob_without_record(index).unwrap();
            element.life.run = Some(Run {
                open: false,
                ..Run::new(1, Vec::new(), Time(1))
            });
            element.life.state = JobState::Finished;
            array.set_subjob_state(index, SubjobState::Ended(0), moment);
            changes.push(Update::Event(Time(1), element.id, Event::Submitted));
            changes.push(Update::Life(Arc::new(element.clone()), None));
            last = Some(element);
        }
        assert_eq!(array.life.state, JobState::Finished);
        let rewrite = Arc::make_mut(array.elements.as_mut().unwrap())
            .take_unwritten()
            .unwrap();
        changes.extend([
            Update::Job(Arc::new(array), None),
            Update::Elements(ID, rewrite),
        ]);
        spool.commit(&changes).unwrap();
        (spool, last.unwrap())
    }

    fn rows(spool: &Spool) -> usize {
        let count = |table: &str| format!("SELECT count(*) FROM {table}");
        let of = |table: &str| -> usize {
            spool
                .connection
                .query_row(&count(table), [], |row| row.get(0))
                .unwrap()
        };
        OF_A_JOB.iter().map(|(table, _)| of(table)).sum()
    }

    #[test]
    fn a_purged_array_disappears_immediately_and_the_rows_of_subjobs_in_portions() {
        let folder = tempfile::tempdir().unwrap();
        let count = PORTION as u32 + 10;
        let (mut spool, _) = spool(&folder, count);
        assert_eq!(
            (rows(&spool), spool.has_purged_rows().unwrap()),
            (2 * count as usize + 1, false)
        );
        spool.commit(&[Update::Purge(Time(6))]).unwrap();
        assert!(
            spool.job(ID).unwrap().is_none() && spool.job(JobId::element(7, 1)).unwrap().is_none()
        );
        assert_eq!(rows(&spool), 2 * count as usize + 1);
        for left in [count as usize + 11, 21, 0] {
            assert!(spool.has_purged_rows().unwrap());
            spool.commit(&[Update::Clear]).unwrap();
            assert_eq!(rows(&spool), left);
        }
        assert!(!spool.has_purged_rows().unwrap());
    }

    #[test]
    fn a_finished_array_stays_until_the_end_of_each_attempt_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let (mut spool, mut last) = spool(&folder, 3);
        last.life.run = Some(Run::new(2, Vec::new(), Time(1)));
        spool
            .commit(&[Update::Life(Arc::new(last.clone()), None)])
            .unwrap();
        spool.commit(&[Update::Purge(Time(6))]).unwrap();
        assert!(spool.job(ID).unwrap().is_some());
        last.life.run = None;
        spool
            .commit(&[Update::Life(Arc::new(last), None), Update::Purge(Time(6))])
            .unwrap();
        assert!(spool.job(ID).unwrap().is_none());
    }
}
