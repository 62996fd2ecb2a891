//! The reports of nodes about the start, the suspension and the end of simulated attempts.

use super::{BOOT, PastAttempt, World};
use crate::model::job::{Attempt, AttemptOutcome, How, Job, Run, Usage, Want};
use crate::model::job_id::JobId;
use crate::model::signal;
use crate::model::time::{Span, Time};
use crate::server::node_reports;
use crate::server::orders;
use crate::wire::order::AttemptStatus;

impl World {
    /// Starts a job on its nodes. Returns false if the start failed. For a job without an open
    /// attempt, does nothing and returns true.
    pub(super) fn launch(&mut self, id: JobId, is_backfilled: bool) -> bool {
        let Some(run) = self.open_run(id) else {
            return true;
        };
        let (attempt, shares) = (run.attempt, run.shares.clone());
        self.past.push(PastAttempt {
            job: id,
            start: self.server.now,
            end: None,
            shares,
            is_backfilled,
        });
        if let Some(behavior) = self.behaviors.get_mut(&id.number)
            && behavior.failures > 0
        {
            behavior.failures -= 1;
            self.report_end(id, How::NodeFault("the node refused the start".to_string()));
            return false;
        }
        // The report that the job runs must not count as a trigger of the next cycle, so the
        // earlier triggers are restored.
        let triggers = self.server.take_triggers();
        self.report(id, attempt, &AttemptStatus::Running(1));
        self.server.set_triggers(triggers);
        true
    }

    /// When and how a job ends. None if the job has no open attempt, if its nodes do not respond,
    /// or if the job is suspended and its end is not wanted.
    pub(super) fn end_of(&self, job: &Job) -> Option<(Time, How)> {
        let run = job.life.open_run().filter(|run| !run.silent)?;
        let behavior = self.behaviors.get(&job.id.number)?;
        if job.life.want != Want::Run {
            return Some(self.end_of_unwanted(job, run, behavior.stops));
        }
        if run.is_stopped() {
            return None;
        }
        let launch = &self.server.setup.config.launch;
        let (lasts, how) = behavior.end(job.spec.walltime(), launch.overrun, &launch.rules.limits);
        Some((run.started + lasts + run.pauses().total, how))
    }

    /// When and how a job ends after the server has ordered its end. A job that is not preempted
    /// ends immediately, by SIGTERM. A preempted job takes the time `stops` to end. If `stops`
    /// exceeds the grace period, the job is killed at the end of the grace period. Otherwise a job
    /// that requests a signal for its preemption (attribute `interrupt`, Y17) exits with 0, and any
    /// other job ends by SIGTERM.
    fn end_of_unwanted(&self, job: &Job, run: &Run, stops: Span) -> (Time, How) {
        let preemption = match &job.life.preemption {
            Some(preemption) if job.was_preempted(run) => preemption,
            _ => return (self.server.now, How::Signaled(signal::TERM)),
        };
        let (grace, _) = orders::end_grace(&self.server.setup, job, run);
        let how = if stops > grace {
            How::Signaled(signal::KILL)
        } else if job.interruption().is_some() {
            How::Exited(0)
        } else {
            How::Signaled(signal::TERM)
        };
        (preemption.at + stops.min(grace), how)
    }

    /// Responding nodes carry out the server's orders: they suspend and end jobs.
    pub(super) fn carry_out_orders(&mut self) {
        let jobs: Vec<JobId> = self.server.holders().map(|job| job.id).collect();
        for id in jobs {
            if let Some(run) = self.open_run(id)
                && !run.silent
                && run.suspension.is_some()
                && !run.is_stopped()
            {
                self.report(id, run.attempt, &AttemptStatus::Suspended(1));
            }
            let job = self.server.job(id);
            let unwanted = job.filter(|job| job.life.want != Want::Run);
            if let Some((at, how)) = unwanted.and_then(|job| self.end_of(job))
                && at <= self.server.now
            {
                self.report_end(id, how);
            }
        }
    }

    /// Reports the end of a job.
    pub(super) fn report_end(&mut self, id: JobId, how: How) {
        let Some(run) = self.open_run(id) else {
            return;
        };
        let attempt = run.attempt;
        let used = self.used(run);
        let sent = matches!(how, How::Signaled(_)).then_some(signal::TERM);
        let outcome = AttemptOutcome {
            how,
            sent,
            used,
            notes: Vec::new(),
            unfit: None,
            on_its_own: false,
        };
        self.record_end(id);
        self.report(id, attempt, &AttemptStatus::Ended(outcome));
    }

    /// Reports the state of an attempt to the server. Ignores the orders in the server's answer.
    /// What nodes have to do follows from the states of the jobs (see [`Self::carry_out_orders`]).
    fn report(&mut self, id: JobId, attempt: Attempt, status: &AttemptStatus) {
        node_reports::handle_attempt(&mut self.server, id, attempt, status, BOOT, &mut Vec::new());
    }

    /// Records the end time of an attempt.
    pub(super) fn record_end(&mut self, id: JobId) {
        let now = self.server.now;
        let mut past = self.past.iter_mut().rev();
        if let Some(open) = past.find(|past| past.job == id && past.end.is_none()) {
            open.end = Some(now);
        }
    }

    /// The resource usage of an attempt: only its walltime is simulated.
    pub(super) fn used(&self, run: &Run) -> Usage {
        Usage {
            walltime: run.ran(self.server.now),
            ..Usage::default()
        }
    }

    fn open_run(&self, id: JobId) -> Option<&Run> {
        self.server.job(id)?.life.open_run()
    }
}
