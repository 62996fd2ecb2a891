//! Implements the server's access to stored jobs with the spool, schedd's database.

use crate::model::job::dependency::label::Mark;
use crate::model::job::{Digest, Job};
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::server::outside::JobHistory;
use crate::spool::Spool;

impl JobHistory for Spool {
    fn job(&self, id: JobId) -> Result<Option<Job>, Refusal> {
        Spool::job(self, id).map_err(Refusal::spool)
    }

    fn submitted(&self, uid: u32, token: [u8; 16]) -> Result<Option<JobId>, Refusal> {
        Spool::submitted(self, uid, token).map_err(Refusal::spool)
    }

    fn labelled(&self, mark: &Mark, except: Option<JobId>) -> Result<Option<JobId>, Refusal> {
        Spool::labelled(self, mark, except).map_err(Refusal::spool)
    }

    fn script(&self, digest: Digest) -> Result<Option<Vec<u8>>, Refusal> {
        Spool::script(self, digest).map_err(Refusal::spool)
    }

    fn environment(&self, digest: Digest) -> Result<Option<Vec<u8>>, Refusal> {
        self.blob(digest).map_err(Refusal::spool)
    }
}
