//! Running jobs by operation, kept up to date as jobs start and end.

use super::snapshot::ClusterState;
use crate::model::credentials::Credentials;
use crate::model::job_id::JobId;
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, add, subtract};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A running job among those of its operation: when it started, and which it is. An element that
/// takes over what another has left starts then (Y4).
pub type Age = (Time, JobId);

/// The operation of a job: an element's is its array.
pub fn operation_of(job: JobId) -> JobId {
    job.parent().unwrap_or(job)
}

/// What runs of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Whose it is.
    pub who: Arc<Credentials>,
    /// What it has in all.
    pub taken: Amounts,
    /// Its allocations, the oldest first (Y4).
    pub allocations: BTreeSet<Age>,
}

/// All operations of which something runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operations(BTreeMap<JobId, Operation>);

impl Operations {
    /// A job has its allocation.
    pub fn enter(&mut self, (started, job): Age, who: &Arc<Credentials>, taken: &[i64]) {
        let operation = self
            .0
            .entry(operation_of(job))
            .or_insert_with(|| Operation {
                who: who.clone(),
                taken: vec![0; taken.len()].into(),
                allocations: BTreeSet::new(),
            });
        if operation.allocations.insert((started, job)) {
            add(&mut operation.taken, taken);
        }
    }

    /// It no longer has.
    pub fn leave(&mut self, (started, job): Age, taken: &[i64]) {
        let id = operation_of(job);
        let Some(operation) = self.0.get_mut(&id) else {
            return;
        };
        if operation.allocations.remove(&(started, job)) {
            subtract(&mut operation.taken, taken);
        }
        if operation.allocations.is_empty() {
            self.0.remove(&id);
        }
    }

    /// One of them.
    pub fn get(&self, operation: JobId) -> Option<&Operation> {
        self.0.get(&operation)
    }

    /// All of them, by number.
    pub fn all(&self) -> impl Iterator<Item = (JobId, &Operation)> {
        self.0.iter().map(|(id, operation)| (*id, operation))
    }
}

impl ClusterState {
    /// Enters a running job among those of its operation, once it is known whose it is and since
    /// when it runs.
    pub(in crate::sched) fn enroll(&mut self, id: JobId) {
        let Some((age, who)) = self.enrolled(id) else {
            return;
        };
        let Some(running) = self.running.get(&id) else {
            return;
        };
        Arc::make_mut(&mut self.operations).enter(age, &who, &running.taken);
    }

    /// Takes a running job out of its operation, before anything of it changes.
    pub(in crate::sched) fn strike(&mut self, id: JobId) {
        let Some((age, _)) = self.enrolled(id) else {
            return;
        };
        let Some(running) = self.running.get(&id) else {
            return;
        };
        Arc::make_mut(&mut self.operations).leave(age, &running.taken);
    }

    fn enrolled(&self, id: JobId) -> Option<(Age, Arc<Credentials>)> {
        let running = self.running.get(&id)?;
        Some((
            (running.tenure.as_ref()?.started, id),
            running.holder.as_ref()?.who.clone(),
        ))
    }
}
