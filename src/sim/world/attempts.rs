//! What becomes of jobs on their nodes: attempts begin, or are refused, and end as their fates say.

use super::World;
use crate::model::job::event::Event;
use crate::model::job::state::State;
use crate::model::job::{Attempt, How, Job, Outcome, Run, Share, Usage, Want};
use crate::model::job_id::JobId;
use crate::model::time::{Span, Time};
use crate::sched::view::plan::{Plan, Resume, Start};

/// One attempt, for the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// Whose.
    pub job: JobId,
    /// When it started.
    pub start: Time,
    /// When it ended; None while it runs.
    pub end: Option<Time>,
    /// What it got.
    pub shares: Vec<Share>,
    /// Whether it passed a job that was promised a start.
    pub is_filler: bool,
}

impl World {
    pub(super) fn start(&mut self, start: &Start, score: Option<f64>) -> bool {
        // Of several jobs of one `runone` set only the first starts: its start bars the others.
        let attempt = self.next_attempt(start.job);
        attempt.is_some_and(|attempt| self.begin(start, attempt, score))
    }

    /// An attempt begins, or is refused by its node: then true.
    pub(super) fn begin(&mut self, start: &Start, attempt: Attempt, score: Option<f64>) -> bool {
        let shares = start.shares.clone();
        self.happen(
            start.job,
            Event::Started {
                attempt,
                shares: shares.clone(),
                score,
                extra: start.beyond.is_some(),
            },
        );
        self.past.push(Past {
            job: start.job,
            start: self.now,
            end: None,
            shares,
            is_filler: start.passed.is_some(),
        });
        match self
            .fates
            .get_mut(&start.job.number)
            .filter(|fate| fate.failures > 0)
        {
            Some(fate) => {
                fate.failures -= 1;
                self.end(start.job, How::NodeFault("the node refused it".to_string()));
                true
            }
            None => {
                let boot = "1".to_string();
                self.happen(
                    start.job,
                    Event::Launched {
                        attempt,
                        session: 1,
                        boot,
                    },
                );
                false
            }
        }
    }

    /// The attempt that a start would be; None for a job that cannot be started now.
    fn next_attempt(&self, id: JobId) -> Option<Attempt> {
        // The record of an element that is over is of the time before it is to run once more.
        let own = self
            .jobs
            .get(&id)
            .filter(|job| job.life.state != State::Finished);
        let job = own.or_else(|| self.jobs.get(&id.parent()?))?;
        let may_start = crate::sched::view::change::is_candidate(job);
        may_start.then_some(job.life.attempt + 1)
    }

    /// When and how a job ends that runs on nodes that answer.
    pub(super) fn end_of(&self, job: &Job) -> Option<(Time, How)> {
        let run = job.life.open_run().filter(|run| !run.silent)?;
        let fate = self.fates.get(&job.id.number)?;
        if job.life.want != Want::Run {
            return Some(self.end_of_unwanted(job, run, fate.stops));
        }
        if run.is_still() {
            return None;
        }
        let launch = &self.config.launch;
        let (lasts, how) = fate.end(job.spec.walltime(), launch.overrun, &launch.rules.limits);
        Some((run.started + lasts + run.pauses().total, how))
    }

    /// The processes of a job that is to stand still stop at once, on nodes that answer.
    pub(super) fn come_to_rest(&mut self, id: JobId) {
        let run = self
            .open_run(id)
            .filter(|run| run.suspension.is_some() && !run.is_still() && !run.silent);
        if let Some(attempt) = run.map(|run| run.attempt) {
            self.happen(id, Event::Suspended { attempt });
        }
    }

    /// Suspended jobs go on.
    pub(super) fn resume(&mut self, plan: &Plan) {
        for Resume { job, shares, .. } in &plan.resumes {
            if let Some(attempt) = self.open_attempt(*job) {
                self.happen(
                    *job,
                    Event::Resumed {
                        attempt,
                        shares: shares.clone(),
                    },
                );
            }
        }
    }

    /// One that makes way may take its time, and then be done if it knows how to (Y17); others end
    /// at once.
    fn end_of_unwanted(&self, job: &Job, run: &Run, stops: Span) -> (Time, How) {
        let (launch, rule) = (&self.config.launch, &self.policy.preemption);
        let told = job.life.yielding.as_ref().filter(|_| job.makes_way(run));
        let Some(told) = told else {
            return (self.now, How::Signaled(nix::libc::SIGTERM));
        };
        let (patience, how) = match job.interruption() {
            Some(_) => (rule.interruption, How::Exited(0)),
            None => (
                rule.grace.unwrap_or(launch.grace),
                How::Signaled(nix::libc::SIGTERM),
            ),
        };
        let how = if stops > patience {
            How::Signaled(nix::libc::SIGKILL)
        } else {
            how
        };
        (told.at + stops.min(patience), how)
    }

    pub(super) fn end(&mut self, id: JobId, how: How) {
        let Some(attempt) = self.open_attempt(id) else {
            return;
        };
        let sent = matches!(how, How::Signaled(_)).then_some(nix::libc::SIGTERM);
        let used = Usage {
            walltime: self.ran(id),
            ..Usage::default()
        };
        let outcome = Outcome {
            how,
            sent,
            used,
            notes: Vec::new(),
            unfit: None,
            on_its_own: false,
        };
        self.close(id);
        self.happen(id, Event::Ended { attempt, outcome });
    }

    /// Ends at once what somebody wants ended.
    pub(super) fn end_unwanted(&mut self, id: JobId) {
        let last = JobId::element(id.number, u32::MAX);
        let range = if id.is_array() { id..=last } else { id..=id };
        let unwanted = |job: &&Job| {
            job.life.open_run().is_some_and(|run| !run.silent) && job.life.want != Want::Run
        };
        let ids: Vec<JobId> = self
            .jobs
            .range(range)
            .map(|(_, job)| job)
            .filter(unwanted)
            .map(|job| job.id)
            .collect();
        for id in ids {
            let end = self
                .jobs
                .get(&id)
                .and_then(|job| self.end_of(job))
                .filter(|(end, _)| *end <= self.now);
            end.into_iter().for_each(|(_, how)| self.end(id, how));
        }
    }

    pub(super) fn close(&mut self, id: JobId) {
        let now = self.now;
        let open = self
            .past
            .iter_mut()
            .rev()
            .find(|past| past.job == id && past.end.is_none());
        open.into_iter().for_each(|past| past.end = Some(now));
    }

    pub(super) fn open_attempt(&self, id: JobId) -> Option<Attempt> {
        self.open_run(id).map(|run| run.attempt)
    }

    fn ran(&self, id: JobId) -> Span {
        self.open_run(id).map_or(Span(0), |run| {
            self.now.since(run.started + run.stood_still(self.now))
        })
    }

    fn open_run(&self, id: JobId) -> Option<&Run> {
        self.jobs.get(&id)?.life.open_run()
    }
}
