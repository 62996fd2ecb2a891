//! The run times of past jobs, from which forecasts predict run times.

use super::super::{SpoolError, SpoolReader};
use crate::model::account::accounting::RequestedResources;
use crate::model::report::past_job::{JobTraits, PastJob};
use crate::model::time::Span;
use rusqlite::{Connection, Row};
use serde::de::IgnoredAny;

/// Maximum number of attempts that are read, the latest first.
const MAX_ATTEMPTS: u32 = 5000;

impl SpoolReader {
    /// The latest ended jobs, in the order of their ends. Deleted jobs and requeued attempts do not
    /// count, because a user or the scheduler decided how long they ran.
    pub fn past_jobs(&self) -> Result<Vec<PastJob>, SpoolError> {
        past_jobs(&self.connection)
    }
}

fn past_jobs(connection: &Connection) -> Result<Vec<PastJob>, SpoolError> {
    let sql = "SELECT ended.user, ended.name, job.script, ended.walltime, ended.more
        FROM (SELECT * FROM accounting WHERE attempt > 0 AND status IS NOT NULL AND NOT deleted
              ORDER BY at DESC LIMIT ?1) AS ended
        LEFT JOIN job ON job.id = ended.job ORDER BY ended.at";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([MAX_ATTEMPTS])?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next()? {
        jobs.push(past_job(row)?);
    }
    Ok(jobs)
}

fn past_job(row: &Row) -> Result<PastJob, SpoolError> {
    let more = row.get_ref(4)?.as_str().map_err(rusqlite::Error::from)?;
    // The column has three or four values. Only the first one is needed.
    let asked = serde_json::from_str(more)
        .map(|(asked, _, _, _): (RequestedResources, IgnoredAny, IgnoredAny, IgnoredAny)| asked);
    let asked = match asked {
        Ok(asked) => asked,
        Err(_) => {
            let (asked, _, _): (RequestedResources, IgnoredAny, IgnoredAny) =
                serde_json::from_str(more)?;
            asked
        }
    };
    let job = JobTraits {
        user: row.get(0)?,
        name: row.get(1)?,
        program: row.get(2)?,
        processors: i64::from(asked.cores),
        walltime: asked.walltime,
    };
    Ok(PastJob {
        job,
        run_time: Span(row.get(3)?),
    })
}
