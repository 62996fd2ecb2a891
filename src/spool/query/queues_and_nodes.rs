//! Queues with their job counts, and nodes with their running jobs and reservations.

use super::super::{SpoolError, load, reservations};
use super::state_of;
use crate::model::job::Job;
use crate::model::job::state::JobState;
use crate::model::queue::Queue;
use crate::model::reservation::ReservationState;
use crate::model::resource::ResourceValue;
use crate::wire::message::{NodeRecord, QueueCounts};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

/// All queues, with the number of jobs in each state and the allocated resources. `shown` is the
/// SQL condition for the jobs that are counted by state.
pub(super) fn queues(connection: &Connection, shown: &str) -> Result<Vec<QueueCounts>, SpoolError> {
    let mut counts: BTreeMap<String, BTreeMap<JobState, u64>> = BTreeMap::new();
    let counted =
        format!("SELECT queue, state, count(*) FROM job WHERE {shown} GROUP BY queue, state");
    let mut statement = connection.prepare(&counted)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let state = state_of(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?);
        counts
            .entry(row.get(0)?)
            .or_default()
            .insert(state, row.get(2)?);
    }
    let (mut assigned, mut elements) = (BTreeMap::new(), BTreeMap::new());
    for job in running(connection)? {
        add_shares(&job, assigned.entry(job.spec.queue.clone()).or_default());
        if job.id.parent().is_some() {
            *elements.entry(job.spec.queue.clone()).or_default() += 1;
        }
    }
    let mut queues = Vec::new();
    let all: Vec<Queue> = load::records(connection, "SELECT queue FROM queue ORDER BY name")?;
    for queue in all {
        let jobs = counts.remove(&queue.name).unwrap_or_default();
        let assigned: BTreeMap<String, i64> = assigned.remove(&queue.name).unwrap_or_default();
        queues.push(QueueCounts {
            jobs: jobs.into_iter().collect(),
            elements: elements.remove(&queue.name).unwrap_or_default(),
            assigned: assigned.into_iter().collect(),
            queue,
        });
    }
    Ok(queues)
}

/// Adds the resources that a job holds on all its nodes, and its requested amounts of
/// [`AS_REQUESTED`].
fn add_shares(job: &Job, sum: &mut BTreeMap<String, i64>) {
    for (name, value) in job.held().iter().flat_map(|share| &share.taken) {
        *sum.entry(name.clone()).or_default() += value.amount().unwrap_or(0);
    }
    for name in AS_REQUESTED {
        let requested = job
            .spec
            .request
            .list
            .get(name)
            .and_then(ResourceValue::amount)
            .unwrap_or(0);
        *sum.entry(name.to_string()).or_default() += requested;
    }
}

/// Resources that nodes do not have. As in PBS, the requested amounts are added up.
const AS_REQUESTED: [&str; 2] = ["mpiprocs", "nodect"];

fn running(connection: &Connection) -> Result<Vec<Job>, SpoolError> {
    let mut jobs = load::jobs_where(connection, "state <> 'F' AND state = 'R'")?;
    jobs.extend(load::elements_where(
        connection,
        "e.state <> 'F' AND e.state = 'R'",
        [],
    )?);
    Ok(jobs)
}

/// All nodes with their running jobs and their reservations.
pub(super) fn nodes(connection: &Connection) -> Result<Vec<NodeRecord>, SpoolError> {
    let mut records: BTreeMap<String, NodeRecord> = BTreeMap::new();
    for node in load::nodes(connection)? {
        let record = NodeRecord {
            node,
            jobs: Vec::new(),
            exclusive: false,
            reservations: Vec::new(),
            reserved: false,
        };
        records.insert(record.node.facts.name.clone(), record);
    }
    for job in running(connection)? {
        for share in job.held() {
            let Some(record) = records.get_mut(&share.node) else {
                continue;
            };
            record.jobs.push((job.id, share));
            record.exclusive |= job.spec.request.place.sharing.is_exclusive();
        }
    }
    for reservation in reservations::all(connection)?
        .iter()
        .filter(|reservation| !reservation.is_over())
    {
        let is_alone =
            reservation.terms.whole || reservation.terms.request.place.sharing.is_exclusive();
        let nodes: BTreeSet<&str> = reservation
            .occurrence()
            .shares
            .iter()
            .map(|share| share.node.as_str())
            .collect();
        for node in nodes {
            let Some(record) = records.get_mut(node) else {
                continue;
            };
            record.reservations.push(reservation.id.clone());
            record.reserved |= is_alone && reservation.state == ReservationState::Running;
        }
    }
    Ok(records.into_values().collect())
}
