//! All jobs of a world, finished or not, as of the last commit.

use crate::model::job::dependency::label::Mark;
use crate::model::job::{Digest, Job};
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::server::outside::JobHistory;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The jobs that schedd would store in its spool.
#[derive(Debug, Default)]
pub struct WorldHistory {
    /// The jobs by id.
    pub jobs: BTreeMap<JobId, Arc<Job>>,
}

impl WorldHistory {
    /// Stores the current states of these jobs.
    pub fn store(&mut self, jobs: Vec<Arc<Job>>) {
        self.jobs.extend(jobs.into_iter().map(|job| (job.id, job)));
    }

    /// A job. A subjob that has not started is derived from its array.
    pub fn job_or_subjob(&self, id: JobId) -> Option<Job> {
        let own = self.jobs.get(&id).map(|job| Job::clone(job));
        own.or_else(|| {
            self.jobs
                .get(&id.parent()?)?
                .subjob_without_record(id.index()?)
        })
    }
}

impl JobHistory for WorldHistory {
    fn job(&self, id: JobId) -> Result<Option<Job>, Refusal> {
        Ok(self.job_or_subjob(id))
    }

    fn submitted(&self, _: u32, _: [u8; 16]) -> Result<Option<JobId>, Refusal> {
        Ok(None)
    }

    fn labelled(&self, mark: &Mark, except: Option<JobId>) -> Result<Option<JobId>, Refusal> {
        let mut jobs = self.jobs.values().rev();
        let last =
            jobs.find(|job| Some(job.id) != except && Mark::carried_by(job).as_ref() == Some(mark));
        Ok(last.map(|job| job.id))
    }

    fn script(&self, _: Digest) -> Result<Option<Vec<u8>>, Refusal> {
        Ok(None)
    }

    fn environment(&self, _: Digest) -> Result<Option<Vec<u8>>, Refusal> {
        Ok(None)
    }
}
