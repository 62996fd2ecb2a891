//! The jobs that a cycle considers, if the policy limits their number (M24).

use super::shape::ClassId;
use crate::model::job_id::JobId;
use crate::model::reason::Reason;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The classes (sets of interchangeable jobs) of which the cycle considers only some jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Eligible(pub(in crate::sched) BTreeMap<ClassId, EligibleJobs>);

/// For a class in [`Eligible`]: the jobs that the cycle considers.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::sched) struct EligibleJobs {
    /// The jobs; for an array, the considered subjobs and the array itself.
    pub jobs: BTreeSet<JobId>,
    /// Why the other jobs of the class are not considered.
    pub why: Arc<Reason>,
}

impl Eligible {
    /// Why a job of a class is not considered; None if the job is considered.
    pub fn refusal(&self, class: ClassId, job: JobId) -> Option<&Arc<Reason>> {
        self.0
            .get(&class)
            .filter(|few| !few.jobs.contains(&job))
            .map(|few| &few.why)
    }

    /// Whether the cycle considers only some jobs of a class.
    pub fn lists(&self, class: ClassId) -> bool {
        self.0.contains_key(&class)
    }

    /// The number of jobs and subjobs of a class that the cycle considers; None if it considers
    /// all.
    pub fn count(&self, class: ClassId) -> Option<u64> {
        let few = self.0.get(&class)?;
        Some(few.jobs.iter().filter(|job| !job.is_array()).count() as u64)
    }

    /// The considered jobs of all classes in this table, each with its class.
    pub fn jobs(&self) -> impl Iterator<Item = (ClassId, JobId)> + '_ {
        self.0
            .iter()
            .flat_map(|(class, few)| few.jobs.iter().map(|job| (*class, *job)))
    }
}
