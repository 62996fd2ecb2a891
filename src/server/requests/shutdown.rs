//! `qterm`: with `-t quick`, all running jobs continue. Otherwise rerunnable jobs are requeued. The
//! other jobs continue with `-t delay`, and are deleted with `-t immediate`.

use crate::model::job::Job;
use crate::model::job::Run;
use crate::model::job::Want;
use crate::model::job::event::Event;
use crate::model::job_id::JobId;
use crate::model::refusal::Refusal;
use crate::server::granted::Granted;
use crate::server::granted::ShutdownMode;
use crate::server::request_context::RequestContext;
use crate::server::state::ServerState;
use crate::wire::message::QtermMode;
use std::sync::Arc;

impl RequestContext<'_> {
    /// Requeues or deletes running jobs, depending on `manner`. The nodes carry this out even after
    /// schedd has exited.
    pub(crate) fn terminate(&mut self, manner: QtermMode, nodes: bool) -> Result<Granted, Refusal> {
        self.caller.must_be_privileged()?;
        let by = self.caller.shown();
        let running: Vec<(JobId, bool)> = running(self.server)
            .map(|job| (job.id, job.spec.rerunnable))
            .collect();
        for (id, rerunnable) in running {
            let by = by.clone();
            if rerunnable && manner != QtermMode::Quick {
                self.server.apply_event(id, Event::RerunWanted { by });
            } else if manner == QtermMode::Immediate {
                self.server
                    .apply_event(id, Event::DeleteWanted { by, force: false });
            }
        }
        Ok(Granted::Shutdown(ShutdownMode { manner, nodes }))
    }
}

/// The running jobs that are not being ended.
pub fn running(server: &ServerState) -> impl Iterator<Item = &Arc<Job>> {
    server.jobs().filter(|job| {
        job.life.want == Want::Run && job.life.open_run().is_some_and(Run::has_script)
    })
}
