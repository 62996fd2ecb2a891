//! Replays a trace: computes when the jobs would have started under a policy.

use super::engine::SimulatedCluster;
use super::machine::NodeBatch;
use super::submission::Classes;
use super::trace::TraceJob;
use crate::config::Config;
use crate::model::job_id::JobId;
use crate::model::policy::Policy;
use crate::model::refusal::Refusal;
use crate::model::time::{Span, Time};
use crate::sched::view::plan::{Plan, Start};
use crate::sched::view::snapshot::ClusterState;
use std::sync::Arc;

/// The start of a replayed job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The job.
    pub job: TraceJob,
    /// The start time in seconds.
    pub start: i64,
    /// The names of the allocated nodes in the order of the request, separated by spaces.
    /// Successive equal names are listed once.
    pub nodes: Arc<str>,
    /// The kind of start.
    pub via: Via,
}

impl Outcome {
    /// The end time in seconds.
    pub fn end(&self) -> i64 {
        self.start + self.job.run
    }

    /// The wait in seconds.
    pub fn wait(&self) -> i64 {
        self.start - self.job.submit
    }
}

/// The kind of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// In the order of priority.
    Priority,
    /// Ahead of a waiting job.
    Backfill,
}

/// Why a replay failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// A job cannot be submitted.
    #[error("job {id}: {refusal}")]
    Refused {
        /// The job number in the trace.
        id: i64,
        /// The refusal that `qsub` would print.
        refusal: Refusal,
    },
    /// Jobs that never start.
    #[error("jobs that never start: {waiting}, for example job {id}: {reason}")]
    Waiting {
        /// The number of waiting jobs.
        waiting: usize,
        /// The first of these jobs, by its job number in the trace.
        id: i64,
        /// The reason why this job waits.
        reason: String,
    },
}

/// The state of a replay after an instant.
pub struct Instant<'a> {
    /// The time of the instant.
    pub now: Time,
    /// The number of jobs that have been submitted so far.
    pub submitted: usize,
    /// The number of jobs that have started so far.
    pub started: usize,
    /// The jobs that started at this instant.
    pub starts: &'a [Start],
    /// The cluster, with the waiting and the running jobs.
    pub cluster: &'a ClusterState,
}

/// Replays jobs that are sorted by submission. Returns their outcomes in the order of `jobs`. Calls
/// `observe` after each instant.
pub fn run(
    jobs: &[TraceJob],
    machine: NodeBatch,
    config: &Config,
    policy: &Policy,
    mut observe: impl FnMut(&Instant),
) -> Result<Vec<Outcome>, ReplayError> {
    let mut replay = Replay {
        jobs,
        submitted: 0,
        classes: Classes::new(machine, config.resources(), &config.server.default_queue),
        cluster: SimulatedCluster::new(machine.state(config), policy.clone()),
        outcomes: vec![None; jobs.len()],
        started: 0,
        nodes: "".into(),
    };
    let mut last = None;
    while let Some(now) = replay.next() {
        let plan = replay.process_instant(now)?;
        observe(&Instant {
            now,
            submitted: replay.submitted,
            started: replay.started,
            starts: plan.as_ref().map_or(&[], |plan| &plan.starts),
            cluster: replay.cluster.state(),
        });
        last = plan.or(last);
    }
    replay.finish(last)
}

struct Replay<'t> {
    jobs: &'t [TraceJob],
    /// The number of submitted jobs.
    submitted: usize,
    classes: Classes,
    cluster: SimulatedCluster,
    outcomes: Vec<Option<Outcome>>,
    started: usize,
    /// The nodes of the last started job. The next started job shares this text if it has the same
    /// nodes.
    nodes: Arc<str>,
}

impl Replay<'_> {
    /// The time of the next event.
    fn next(&self) -> Option<Time> {
        let submission = self.jobs.get(self.submitted).map(|job| time_of(job.submit));
        self.cluster.next().into_iter().chain(submission).min()
    }

    /// Processes all events of an instant, and runs a cycle if jobs wait.
    fn process_instant(&mut self, now: Time) -> Result<Option<Plan>, ReplayError> {
        self.cluster.advance_to(now);
        self.submit(now)?;
        let plan = self
            .cluster
            .run_cycle(|id| Span::seconds(self.jobs[index_of(id)].run));
        for start in plan.iter().flat_map(|plan| &plan.starts) {
            let via = if start.passed.is_some() {
                Via::Backfill
            } else {
                Via::Priority
            };
            let (job, nodes) = (
                self.jobs[index_of(start.job)],
                nodes(start, &mut self.nodes),
            );
            self.outcomes[index_of(start.job)] = Some(Outcome {
                job,
                start: now.0 / 1000,
                nodes,
                via,
            });
            self.started += 1;
        }
        Ok(plan)
    }

    fn submit(&mut self, now: Time) -> Result<(), ReplayError> {
        while let Some(job) = self
            .jobs
            .get(self.submitted)
            .filter(|job| time_of(job.submit) <= now)
        {
            let class = self.classes.class_of(job, self.cluster.state());
            let class = class.map_err(|refusal| ReplayError::Refused {
                id: job.id,
                refusal,
            })?;
            self.submitted += 1;
            // A job's number is its position in the trace, from 1. Thus jobs that are submitted
            // earlier have lower numbers.
            self.cluster
                .submit(JobId::job(self.submitted as u64), class);
        }
        Ok(())
    }

    fn finish(self, last: Option<Plan>) -> Result<Vec<Outcome>, ReplayError> {
        let waiting = self.cluster.waiting();
        let Some(first) = self.outcomes.iter().position(Option::is_none) else {
            return Ok(self.outcomes.into_iter().flatten().collect());
        };
        let verdict = last.as_ref().and_then(|plan| {
            self.cluster
                .state()
                .verdict(plan, JobId::job(first as u64 + 1))
        });
        let reason = verdict.map_or_else(
            || "the last cycle gave no reason".to_string(),
            |reason| reason.to_string(),
        );
        Err(ReplayError::Waiting {
            waiting,
            id: self.jobs[first].id,
            reason,
        })
    }
}

/// The simulated time for a time of the trace in seconds.
fn time_of(seconds: i64) -> Time {
    Time(seconds * 1000)
}

/// A job's index in the trace.
pub(super) fn index_of(id: JobId) -> usize {
    id.number as usize - 1
}

/// The names of the nodes of a start, such as `n3 n4 n5`. Successive equal names are listed once.
/// Reuses the text `before` if it has the same names.
fn nodes(start: &Start, before: &mut Arc<str>) -> Arc<str> {
    let mut names: Vec<&str> = start
        .shares
        .iter()
        .map(|share| share.node.as_str())
        .collect();
    names.dedup();
    if !names.iter().copied().eq(before.split(' ')) {
        *before = names.join(" ").into();
    }
    before.clone()
}

#[cfg(test)]
mod tests;
