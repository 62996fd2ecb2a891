//! Queues and nodes, and what is in the ones and runs on the others.

use super::super::SpoolError;
use super::super::load;
use super::state_of;
use crate::model::job::{Job, Share};
use crate::model::queue::Queue;
use crate::model::state::State;
use crate::wire::message::{NodeRecord, QueueCounts};
use rusqlite::Connection;
use std::collections::BTreeMap;

/// All queues, with their jobs by state and what these hold. `shown`: SQL for the jobs that count.
pub(super) fn queues(connection: &Connection, shown: &str) -> Result<Vec<QueueCounts>, SpoolError> {
    let mut statement = connection.prepare("SELECT queue FROM queue ORDER BY name")?;
    let texts: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut counts: BTreeMap<String, BTreeMap<State, u64>> = BTreeMap::new();
    let counted = format!("SELECT queue, state, count(*) FROM job WHERE {shown} GROUP BY queue, state");
    let mut statement = connection.prepare(&counted)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let state = state_of(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?);
        counts.entry(row.get(0)?).or_default().insert(state, row.get(2)?);
    }
    let mut assigned = assigned_by_queue(connection)?;
    let one = |text: &String| {
        let queue: Queue = serde_json::from_str(text)?;
        let jobs = counts.remove(&queue.name).unwrap_or_default().into_iter().collect();
        let assigned = assigned.remove(&queue.name).unwrap_or_default().into_iter().collect();
        Ok(QueueCounts { queue, jobs, assigned })
    };
    texts.iter().map(one).collect()
}

fn assigned_by_queue(connection: &Connection) -> Result<BTreeMap<String, BTreeMap<String, i64>>, SpoolError> {
    let mut sums: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
    for job in running(connection)? {
        let sum = sums.entry(job.spec.queue.clone()).or_default();
        for share in shares(&job) {
            for (name, value) in &share.taken {
                *sum.entry(name.clone()).or_default() += value.amount().unwrap_or(0);
            }
        }
    }
    Ok(sums)
}

fn running(connection: &Connection) -> Result<Vec<Job>, SpoolError> {
    let mut jobs = load::jobs_where(connection, "state <> 'F' AND state = 'R'")?;
    jobs.extend(load::elements_where(connection, "e.state <> 'F' AND e.state = 'R'", [])?);
    Ok(jobs)
}

fn shares(job: &Job) -> &[Share] {
    job.life.run.as_ref().map_or(&[], |run| &run.shares)
}

/// All nodes, with what runs on them.
pub(super) fn nodes(connection: &Connection) -> Result<Vec<NodeRecord>, SpoolError> {
    let record = |node| NodeRecord { node, jobs: Vec::new(), exclusive: false };
    let mut records: BTreeMap<String, NodeRecord> =
        load::nodes(connection)?.into_iter().map(|node| (node.facts.name.clone(), record(node))).collect();
    for job in running(connection)? {
        for share in shares(&job) {
            let Some(record) = records.get_mut(&share.node) else { continue };
            record.jobs.push((job.id, share.clone()));
            record.exclusive |= job.spec.request.place.sharing.is_exclusive();
        }
    }
    Ok(records.into_values().collect())
}
