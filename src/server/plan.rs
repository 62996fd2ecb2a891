//! Runs a scheduling cycle, and carries out its plan: preempts, resumes and starts jobs.

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
    /// Runs a scheduling cycle. It changes only the priorities and the cycle cache.
    pub fn plan(&mut self, memory: &mut CycleCache) -> Plan {
        self.prioritise();
        cycle::run_again(self.cluster(), &self.setup.policy, self.now, memory)
    }

    /// Preempts jobs, and records the preemption with the preemptors too. Returns whether any job
    /// was newly preempted.
    pub fn take_preempts(&mut self, plan: &Plan) -> bool {
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
                self.happen(job, Event::RoomMade { by });
            }
        }
        is_new
    }

    /// Starts jobs. Of several jobs of one `runone` set only the first starts: its start bars the
    /// others. Returns the jobs that were started.
    pub fn take_starts(&mut self, plan: &Plan) -> Vec<JobId> {
        // The score of an array changes once one of its subjobs has started.
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
            self.happen(
                start.job,
                Event::Started {
                    attempt,
                    shares: start.shares.clone(),
                    score,
                    extra: start.beyond.is_some(),
                },
            );
            reservations::of_started(self, start.job);
            started.push(start.job);
        }
        started
    }
}
