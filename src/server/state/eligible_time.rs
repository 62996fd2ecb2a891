//! Changes of eligible time by a cycle's plan or a changed policy. Events change eligible time in
//! [`Job::apply`](crate::model::job::Job).

use crate::model::job::eligible_time::Eligibility;
use crate::model::job_id::JobId;
use crate::sched::view::change::Change;
use crate::sched::view::plan::Plan;
use crate::server::state::ServerState;
use crate::server::state::touch;

impl ServerState {
    /// Records which waiting jobs are blocked by a limit within their owner's control, such as a
    /// limit on their array, owner, group or project. Under most policies such jobs accrue no
    /// eligible time. Returns whether anything changed.
    pub fn judge_limits(&mut self, plan: &Plan) -> bool {
        let moment = self.moment();
        let judged = self.cluster.judge_limits(plan).into_iter();
        let judged =
            judged.filter_map(|(id, limit)| Some((id, self.jobs.get(&id)?.judged(limit, moment)?)));
        let judged: Vec<(JobId, Eligibility)> = judged.collect();
        judged
            .iter()
            .for_each(|&(id, eligibility)| self.set_eligibility(id, eligibility));
        !judged.is_empty()
    }

    /// Recomputes whether each job accrues eligible time, after a change of the policy.
    pub fn recompute_eligibility(&mut self) {
        let moment = self.moment();
        let updated = self
            .jobs
            .values()
            .map(|job| (job.id, job.life.eligibility, job.eligibility(moment)));
        let changed: Vec<_> = updated
            .filter(|(_, before, after)| before != after)
            .collect();
        changed
            .into_iter()
            .for_each(|(id, _, eligibility)| self.set_eligibility(id, eligibility));
    }

    fn set_eligibility(&mut self, id: JobId, eligibility: Eligibility) {
        if let Some(job) = touch(&mut self.jobs, &mut self.transaction, id, false) {
            job.life.eligibility = eligibility;
            self.cluster.make(Change::Accrues(id, eligibility));
        }
    }
}
