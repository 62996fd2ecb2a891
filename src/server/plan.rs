//! Runs a scheduling cycle, and carries out the plan's preemptions and starts.

use crate::model::job::Want;
use crate::model::job::event::Event;
use crate::model::job_id::JobId;
use crate::sched::cycle;
use crate::sched::placement::cycle_cache::CycleCache;
use crate::sched::view::plan::Plan;
use crate::sched::view::plan::Preemption;
use crate::server::reservations;
use crate::server::state::ServerState;

impl ServerState {
    /// Runs a scheduling cycle. This changes only the priorities in the scheduler's view and the
    /// cycle cache.
    pub fn plan(&mut self, cycle_cache: &mut CycleCache) -> Plan {
        self.prioritise();
        cycle::run_again(self.cluster(), &self.setup.policy, self.now, cycle_cache)
    }

    /// Preempts running jobs as planned, and records in each preempting job which jobs it preempts.
    /// Returns whether any job was newly preempted.
    pub fn apply_preemptions(&mut self, plan: &Plan) -> bool {
        let mut is_new = false;
        for &Preemption {
            job,
            by: to,
            cause,
            action,
        } in &plan.preempts
        {
            let runs = self.job(job).filter(|job| job.life.want == Want::Run);
            let Some(attempt) = runs.and_then(|job| Some(job.life.open_run()?.attempt)) else {
                continue;
            };
            self.preempt(job, attempt, (to, cause, action));
            is_new = true;
        }
        if is_new {
            for (job, by) in plan.victims_by_preemptor() {
                self.apply_event(job, Event::RoomMade { by });
            }
        }
        is_new
    }

    /// Starts jobs as planned. Of a `runone` set only one job starts, because its start bars the
    /// others. Returns the started jobs.
    pub fn apply_starts(&mut self, plan: &Plan) -> Vec<JobId> {
        // All scores are computed before the first start, because a started subjob changes its
        // array's score.
        let scores: Vec<Option<f64>> = plan
            .starts
            .iter()
            .map(|start| self.cluster().score(&self.setup.policy, start.job))
            .collect();
        let mut started = Vec::new();
        for (start, score) in plan.starts.iter().zip(scores) {
            let Some(attempt) = self.next_attempt(start.job) else {
                continue;
            };
            self.apply_event(
                start.job,
                Event::Started {
                    attempt,
                    shares: start.shares.clone(),
                    score,
                    extra: start.beyond.is_some(),
                },
            );
            reservations::create_from_started_job(self, start.job);
            started.push(start.job);
        }
        started
    }
}
