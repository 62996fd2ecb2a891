//! The events of a job, oldest first.

use super::{SpoolError, load};
use crate::model::job::event::Event;
use crate::model::job_id::JobId;
use crate::model::time::Time;
use crate::wire::message::ClientAnswer;
use rusqlite::Connection;

/// Maximum number of events in one part of an answer.
const PART: usize = 500;

/// Passes the events of a job to `each`, in parts of at most [`PART`] events. Passes nothing for an
/// unknown job.
pub(super) fn answer(
    connection: &Connection,
    id: JobId,
    each: &mut dyn FnMut(ClientAnswer) -> Result<(), SpoolError>,
) -> Result<(), SpoolError> {
    if load::job(connection, id)?.is_none() {
        return Ok(());
    }
    let mut part = Vec::new();
    of_job(connection, id, &mut |at, event| {
        part.push((at, event));
        if part.len() < PART {
            Ok(())
        } else {
            each(ClientAnswer::Events(std::mem::take(&mut part)))
        }
    })?;
    each(ClientAnswer::Events(part))
}

/// Passes each event of a job to `each`.
fn of_job(
    connection: &Connection,
    id: JobId,
    each: &mut dyn FnMut(Time, Event) -> Result<(), SpoolError>,
) -> Result<(), SpoolError> {
    let mut statement = connection
        .prepare("SELECT at, event FROM event WHERE job = ?1 AND idx = ?2 ORDER BY seq")?;
    let mut rows = statement.query((load::number(id), load::index(id)))?;
    while let Some(row) = rows.next()? {
        let event = serde_json::from_str(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)?;
        each(Time(row.get(0)?), event)?;
    }
    Ok(())
}
