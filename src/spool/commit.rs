//! Writes changes to the spool. All changes of one turn of schedd's loop (a tick) are one
//! transaction.

use super::{
    Spool, SpoolError, accounting, actions, charges, cycles, dependencies, history_purge,
    license_reports, load, overrides, reservations,
};
use crate::model::job::array::{Rewrite, SubjobState};
use crate::model::job::dependency::label::Mark;
use crate::model::job::event::Event;
use crate::model::job::promise::PromisedStart;
use crate::model::job::{Job, JobProgram};
use crate::model::job_id::JobId;
use crate::model::queue::Queue;
use crate::model::reason::Reason;
use crate::model::time::Time;
use crate::sys::fault;
use crate::update::{Update, VerdictClasses};
use rusqlite::{Transaction, params};
use serde::Serialize;

impl Spool {
    /// Writes all changes or none, and waits until they are on disk.
    pub fn commit(&mut self, changes: &[Update]) -> Result<(), SpoolError> {
        self.write_all(changes)
            .map_err(|error| error.explained(&self.folder))
    }

    fn write_all(&mut self, changes: &[Update]) -> Result<(), SpoolError> {
        fault::point("spool.begin")?;
        let transaction = self.connection.transaction()?;
        for change in changes {
            fault::point("spool.write")?;
            write(&transaction, change)?;
        }
        fault::point("spool.commit")?;
        transaction.commit()?;
        // The changes are on disk, so an injected fault must not report a failure.
        let _ = fault::point("spool.committed");
        Ok(())
    }
}

fn write(transaction: &Transaction, change: &Update) -> Result<(), SpoolError> {
    match change {
        Update::Job(job, classes) => match job.id.index() {
            None => write_job(transaction, job, *classes)?,
            Some(index) => {
                write_element(transaction, job, index, *classes)?;
                let sql = "UPDATE element SET spec = ?3 WHERE job = ?1 AND idx = ?2";
                transaction.prepare_cached(sql)?.execute(params![
                    job.id.number,
                    index,
                    json(&job.spec)?
                ])?;
            }
        },
        Update::Token(uid, token, job, at) => {
            let sql = "INSERT OR IGNORE INTO token (uid, token, job, at) VALUES (?1, ?2, ?3, ?4)";
            transaction
                .prepare_cached(sql)?
                .execute(params![uid, token, job.number, at.0])?;
        }
        Update::Life(job, classes) => match job.id.index() {
            None => write_life(transaction, job, *classes)?,
            Some(index) => write_element(transaction, job, index, *classes)?,
        },
        Update::Elements(id, rewrite) => write_subjob_states(transaction, *id, rewrite)?,
        Update::Forget(id) => history_purge::forget(transaction, *id)?,
        Update::Sweep => history_purge::sweep(transaction)?,
        Update::Clear => history_purge::clear(transaction)?,
        Update::Blob(digest, bytes) => {
            let sql = "INSERT OR IGNORE INTO blob (digest, bytes) VALUES (?1, ?2)";
            transaction
                .prepare_cached(sql)?
                .execute(params![digest.0, &bytes[..]])?;
        }
        Update::Event(at, job, event) => write_event(transaction, *at, *job, event)?,
        Update::Tie(tie, state) => dependencies::write(transaction, tie, *state)?,
        Update::Verdict(class, reason) => write_verdict(transaction, *class, reason.as_ref())?,
        Update::Promise(job, promise) => write_promise(transaction, *job, promise.as_ref())?,
        Update::Charge(part, charge) => charges::write(transaction, *part, charge)?,
        Update::ForgetCharges(before) => charges::forget(transaction, *before)?,
        Update::Entry(at, entry) => accounting::write(transaction, *at, entry)?,
        Update::ForgetEntries(before) => accounting::forget(transaction, *before)?,
        Update::Cycle(record) => cycles::write(transaction, record)?,
        Update::ReportedCount(resource, reported) => {
            license_reports::write(transaction, resource, reported.as_ref())?
        }
        Update::Node(node) => {
            let sql = "INSERT OR REPLACE INTO node (name, node) VALUES (?1, ?2)";
            transaction
                .prepare_cached(sql)?
                .execute(params![node.facts.name, json(node)?])?;
        }
        Update::NodeGone(name) => {
            transaction
                .prepare_cached("DELETE FROM node WHERE name = ?1")?
                .execute([name])?;
        }
        Update::Queues(queues) => write_queues(transaction, queues)?,
        Update::QmgrOverrides(all) => overrides::write(transaction, all)?,
        Update::Reservation(reservation) => reservations::write(transaction, reservation)?,
        Update::ReservationGone(id) => reservations::remove(transaction, id)?,
        Update::ReservationEvent(at, id, event) => {
            reservations::write_event(transaction, *at, id, event)?
        }
        Update::ClockStep(since, ahead) => {
            transaction.execute(
                "INSERT INTO clock (since, ahead) VALUES (?1, ?2)",
                params![since.0, ahead],
            )?;
        }
        Update::Meta(key, value) => {
            let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
            transaction
                .prepare_cached(sql)?
                .execute(params![key, value])?;
        }
        Update::UserAction(uid, action, first) => {
            actions::write(transaction, *uid, action.as_deref(), *first)?
        }
        Update::ForgetTokens(before) => {
            transaction.execute("DELETE FROM token WHERE at < ?1", [before.0])?;
        }
        Update::Purge(before) => history_purge::purge(transaction, *before)?,
    }
    Ok(())
}

fn json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string(value)
}

/// Converts the hash of a class (jobs that are equal for scheduling) or of a shape to SQLite's
/// signed integers. Hashes are compared only for equality.
fn signed(class: u64) -> i64 {
    class as i64
}

/// Value of column `cput` for a job that has never run.
pub(super) const NEVER_RUN: i64 = -1;

/// The processor time for column `cput`, which lists of jobs display.
fn cput(job: &Job) -> i64 {
    if job.life.run.is_some() {
        job.life.used.cput.0
    } else {
        NEVER_RUN
    }
}

fn write_job(
    transaction: &Transaction,
    job: &Job,
    classes: Option<VerdictClasses>,
) -> Result<(), SpoolError> {
    let script = match &job.spec.program {
        JobProgram::Script(digest) => Some(digest.0),
        JobProgram::Command(_) => None,
    };
    let sql = "INSERT OR REPLACE INTO job
        (id, state, owner, uid, queue, name, cput, class, ended, script, environ, spec, life, is_array, shape,
         label)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
    transaction.prepare_cached(sql)?.execute(params![
        job.id.number,
        job.life.state.letter().to_string(),
        job.owner.user,
        job.owner.uid,
        job.spec.queue,
        job.spec.name,
        cput(job),
        classes.map(|classes| signed(classes.class)),
        job.life.obittime.map(|time| time.0),
        script,
        job.spec.environ.0,
        json(&job.spec)?,
        json(&(&job.owner, &job.life))?,
        job.id.is_array(),
        classes.map(|classes| signed(classes.shape)),
        Mark::carried_by(job).map(|mark| mark.text),
    ])?;
    Ok(())
}

fn write_life(
    transaction: &Transaction,
    job: &Job,
    classes: Option<VerdictClasses>,
) -> Result<(), SpoolError> {
    let sql = "UPDATE job SET state = ?2, cput = ?3, ended = ?4, life = ?5,
        class = coalesce(?6, class), shape = coalesce(?7, shape) WHERE id = ?1";
    transaction.prepare_cached(sql)?.execute(params![
        job.id.number,
        job.life.state.letter().to_string(),
        cput(job),
        job.life.obittime.map(|time| time.0),
        json(&(&job.owner, &job.life))?,
        classes.map(|classes| signed(classes.class)),
        classes.map(|classes| signed(classes.shape)),
    ])?;
    Ok(())
}

fn write_element(
    transaction: &Transaction,
    job: &Job,
    index: u32,
    classes: Option<VerdictClasses>,
) -> Result<(), SpoolError> {
    let sql =
        "INSERT INTO element (job, idx, state, cput, class, ended, life, shape) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
        ON CONFLICT DO UPDATE SET state = ?3, cput = ?4, class = coalesce(?5, class), ended = ?6, life = ?7,
        shape = coalesce(?8, shape)";
    transaction.prepare_cached(sql)?.execute(params![
        job.id.number,
        index,
        job.life.state.letter().to_string(),
        cput(job),
        classes.map(|classes| signed(classes.class)),
        job.life.obittime.map(|time| time.0),
        json(&job.life)?,
        classes.map(|classes| signed(classes.shape)),
    ])?;
    Ok(())
}

fn write_subjob_states(
    transaction: &Transaction,
    id: JobId,
    rewrite: &Rewrite,
) -> Result<(), SpoolError> {
    for (first, last) in &rewrite.gone {
        let sql = "DELETE FROM standing WHERE job = ?1 AND first BETWEEN ?2 AND ?3";
        transaction
            .prepare_cached(sql)?
            .execute(params![id.number, first, last])?;
    }
    for (first, last, state) in &rewrite.runs {
        let sql =
            "INSERT OR REPLACE INTO standing (job, first, last, standing) VALUES (?1, ?2, ?3, ?4)";
        transaction
            .prepare_cached(sql)?
            .execute(params![id.number, first, last, word(*state)])?;
    }
    Ok(())
}

/// A stored subjob state: `Q`, `R`, or an exit status.
fn word(state: SubjobState) -> String {
    match state {
        SubjobState::Waiting => "Q".to_string(),
        SubjobState::Begun => "R".to_string(),
        SubjobState::Ended(status) => status.to_string(),
    }
}

fn write_event(
    transaction: &Transaction,
    at: Time,
    job: JobId,
    event: &Event,
) -> Result<(), SpoolError> {
    let sql = "INSERT INTO event (job, idx, seq, at, event) VALUES
        (?1, ?2, (SELECT coalesce(max(seq), 0) + 1 FROM event WHERE job = ?1 AND idx = ?2), ?3, ?4)";
    transaction.prepare_cached(sql)?.execute(params![
        job.number,
        load::index(job),
        at.0,
        json(event)?
    ])?;
    Ok(())
}

fn write_verdict(
    transaction: &Transaction,
    class: u64,
    verdict: Option<&(Reason, Time)>,
) -> Result<(), SpoolError> {
    match verdict {
        Some((reason, since)) => {
            let sql = "INSERT OR REPLACE INTO verdict (class, reason, since) VALUES (?1, ?2, ?3)";
            transaction.prepare_cached(sql)?.execute(params![
                signed(class),
                json(reason)?,
                since.0
            ])?;
        }
        None => {
            transaction
                .prepare_cached("DELETE FROM verdict WHERE class = ?1")?
                .execute([signed(class)])?;
        }
    }
    Ok(())
}

fn write_promise(
    transaction: &Transaction,
    job: JobId,
    promise: Option<&PromisedStart>,
) -> Result<(), SpoolError> {
    let key = params![job.number, load::index(job)];
    let Some(promise) = promise else {
        transaction
            .prepare_cached("DELETE FROM promise WHERE job = ?1 AND idx = ?2")?
            .execute(key)?;
        return Ok(());
    };
    let sql = "INSERT OR REPLACE INTO promise (job, idx, at, first, nodes, earmark) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let (at, first, nodes) = (promise.at.0, promise.first.0, json(&promise.nodes)?);
    let held_until = promise.held_until.map(|until| until.0);
    transaction.prepare_cached(sql)?.execute(params![
        job.number,
        load::index(job),
        at,
        first,
        nodes,
        held_until
    ])?;
    Ok(())
}

fn write_queues(transaction: &Transaction, queues: &[Queue]) -> Result<(), SpoolError> {
    transaction.execute("DELETE FROM queue", [])?;
    for queue in queues {
        transaction.execute(
            "INSERT INTO queue (name, queue) VALUES (?1, ?2)",
            params![queue.name, json(queue)?],
        )?;
    }
    Ok(())
}
