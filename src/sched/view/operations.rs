//! Running jobs by operation: a job, or an array with all its subjobs. The lists are updated when
//! jobs start and end.

use crate::model::credentials::Credentials;
use crate::model::job_id::JobId;
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, add, subtract};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The start time and the id of a running job of an operation. If a subjob starts on the resources
/// of an earlier subjob, its own start time counts (Y4).
pub type Age = (Time, JobId);

/// The id of the operation of a job: for a subjob, the id of its array.
pub fn operation_of(job: JobId) -> JobId {
    job.parent().unwrap_or(job)
}

/// The running jobs of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The owner.
    pub who: Arc<Credentials>,
    /// The total resources of the running jobs.
    pub taken: Amounts,
    /// The running jobs, the oldest first (Y4).
    pub allocations: BTreeSet<Age>,
}

/// All operations with running jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operations(BTreeMap<JobId, Operation>);

impl Operations {
    /// Adds a running job.
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

    /// Removes a running job.
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

    /// The operation with this id.
    pub fn get(&self, operation: JobId) -> Option<&Operation> {
        self.0.get(&operation)
    }

    /// All operations, by id.
    pub fn all(&self) -> impl Iterator<Item = (JobId, &Operation)> {
        self.0.iter().map(|(id, operation)| (*id, operation))
    }
}
