//! Jobs that are offered to nested installations (`schedd --nested --queue`) of their owners.

use super::super::load::{self, Specs, job_of};
use super::super::{SpoolError, dependencies, scripts};
use super::{Each, Viewer};
use crate::model::job::{Job, JobProgram};
use crate::model::job_id::JobId;
use crate::model::queue::Queue;
use crate::model::refusal::Refusal;
use crate::wire::message::{ClientAnswer, Offered};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// A request of a nested installation for a job.
pub(super) struct OfferRequest<'a> {
    /// The directory of the spool.
    pub(super) folder: &'a Path,
    /// The queue of the job.
    pub(super) queue: &'a str,
    /// Jobs to skip.
    pub(super) except: &'a BTreeSet<JobId>,
}

/// Passes to `each` the viewer's first available job in the queue, None if no job is available, or
/// the reason why the queue offers no jobs.
pub(super) fn answer(
    connection: &Connection,
    wanted: &OfferRequest,
    viewer: &Viewer,
    each: Each,
) -> Result<(), SpoolError> {
    let offer = match queue(connection, wanted.queue)? {
        None => Err(Refusal::unknown_queue()),
        Some(queue) if !queue.nested => Err(Refusal::not_nested(&queue.name)),
        Some(queue) => Ok(first(connection, wanted, &queue, viewer)?),
    };
    each(ClientAnswer::Offer(Box::new(offer)))
}

fn queue(connection: &Connection, name: &str) -> Result<Option<Queue>, SpoolError> {
    let mut statement = connection.prepare_cached("SELECT queue FROM queue WHERE name = ?1")?;
    let text: Option<String> = statement.query_row([name], |row| row.get(0)).optional()?;
    Ok(text.map(|text| serde_json::from_str(&text)).transpose()?)
}

fn first(
    connection: &Connection,
    wanted: &OfferRequest,
    queue: &Queue,
    viewer: &Viewer,
) -> Result<Option<Offered>, SpoolError> {
    let sql = "SELECT id, spec, life FROM job
        WHERE state <> 'F' AND state = 'Q' AND queue = ?1 AND uid = ?2 AND NOT is_array ORDER BY id";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![queue.name, viewer.owner.uid])?;
    let mut specs = Specs::default();
    while let Some(row) = rows.next()? {
        let job = job_of(connection, row, &mut specs)?;
        let is_own = viewer.owner.is_same_account(&job.owner) && !wanted.except.contains(&job.id);
        if is_own && queue.passes_on(&job) && dependencies::links(connection, job.id)?.is_empty() {
            return offered(connection, wanted.folder, job).map(Some);
        }
    }
    Ok(None)
}

fn offered(connection: &Connection, folder: &Path, job: Job) -> Result<Offered, SpoolError> {
    let script = match job.spec.program {
        JobProgram::Script(digest) => scripts::script(connection, folder, digest)?,
        JobProgram::Command(_) => Some(Vec::new()),
    };
    let (Some(script), Some(environ)) = (script, load::blob(connection, job.spec.environ)?) else {
        let text = format!("the script or environment of job {} is missing", job.id);
        return Err(SpoolError::Io(io::Error::other(text)));
    };
    Ok(Offered {
        job: job.id,
        revision: job.spec.revision()?,
        spec: job.spec,
        script,
        environ,
    })
}
