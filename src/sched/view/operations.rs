//! Running jobs by operation, kept up to date as jobs start and end.

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
