//! Jobs that can never run. Submission refuses such jobs, and `schedd` reports when only such jobs
//! are left.

use crate::model::job::Job;
use crate::model::job::state::JobState;
use crate::model::refusal::Refusal;
use crate::sched::placement::nearest_fit::Never;
use crate::server::state::ServerState;
use crate::wire::message::StuckJobs;
use std::sync::Arc;

impl ServerState {
    /// Refuses a job that can never run, and names the nearest request that fits (P24). Accepts all
    /// jobs if the site disables this check, or while a configured node has never connected.
    pub fn refuse_impossible(&mut self, job: &Job) -> Result<(), Refusal> {
        if !self.setup.config.server.refuse_impossible {
            return Ok(());
        }
        match self.never_runs(job) {
            Some(never) => Err(Refusal::out_of_bounds(&never.to_string())),
            None => Ok(()),
        }
    }

    /// Why a job can never run; None if it can run, or while a configured node has never connected.
    pub(super) fn never_runs(&mut self, job: &Job) -> Option<Never> {
        if !self.has_seen_all_nodes() {
            return None;
        }
        let world = (&*self.cluster, &self.setup.policy, &self.setup.resources);
        self.possible.never(world, job, self.now)
    }

    /// A report if none of the queued jobs can ever run; None otherwise. Also None if no job is
    /// queued, if a job runs, waits for its begin time or awaits the report of its node, or if a
    /// configured node has never connected. Held jobs do not count.
    pub fn stuck(&mut self) -> Option<StuckJobs> {
        let is_left = |job: &&Arc<Job>| job.life.state.is_live() || job.life.open_run().is_some();
        let may_run =
            |job: &Arc<Job>| job.life.state != JobState::Queued || job.life.open_run().is_some();
        let mut left = self.jobs.values().filter(is_left).peekable();
        let first = left.peek()?.id;
        if !self.has_seen_all_nodes() || left.clone().any(may_run) {
            return None;
        }
        let world = (&*self.cluster, &self.setup.policy, &self.setup.resources);
        let (mut jobs, mut why) = (0, None);
        for job in left {
            let never = self.possible.never(world, job, self.now)?;
            why.get_or_insert_with(|| never.to_string());
            jobs += 1;
        }
        Some(StuckJobs {
            jobs,
            first,
            why: why?,
        })
    }

    /// Whether every configured node has connected at least once.
    fn has_seen_all_nodes(&self) -> bool {
        self.setup
            .config
            .nodes
            .iter()
            .all(|node| self.nodes.contains_key(&node.name))
    }
}
