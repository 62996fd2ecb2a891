//! Replays a trace: when would its jobs have started under this policy?

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
use std::sync::Arc;

/// The start of a replayed job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The job.
    pub job: TraceJob,
    /// The start time in seconds.
    pub start: i64,
    /// The allocated nodes in the order of the request, separated by spaces.
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

/// Why a replay ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StuckTrace {
    /// A job cannot be submitted.
    #[error("job {id}: {refusal}")]
    Refused {
        /// The job number in the trace.
        id: i64,
        /// The refusal that `qsub` would print.
        refusal: Refusal,
    },
    /// Jobs that never start.
    #[error("{waiting} jobs never start, job {id} among them: {reason}")]
    Waiting {
        /// The number of waiting jobs.
        waiting: usize,
        /// The number of the first of them.
        id: i64,
        /// The reason why it waits.
        reason: String,
    },
}

/// Replays the jobs, which are sorted by submission. Returns the outcomes in the same order.
/// `progress` receives the number of started jobs from time to time.
pub fn run(
    jobs: &[TraceJob],
    machine: NodeBatch,
    config: &Config,
    policy: &Policy,
    mut progress: impl FnMut(usize),
) -> Result<Vec<Outcome>, StuckTrace> {
    let mut replay = Replay {
        jobs,
        submitted: 0,
        classes: Classes::new(machine, config.resources(), &config.server.default_queue),
        world: SimulatedCluster::new(machine.state(config), policy.clone()),
        outcomes: vec![None; jobs.len()],
        started: 0,
        nodes: "".into(),
    };
    let mut last = None;
    while let Some(now) = replay.next() {
        last = replay.instant(now)?.or(last);
        progress(replay.started);
    }
    replay.finish(last)
}

struct Replay<'t> {
    jobs: &'t [TraceJob],
    /// The number of submitted jobs.
    submitted: usize,
    classes: Classes,
    world: SimulatedCluster,
    outcomes: Vec<Option<Outcome>>,
    started: usize,
    /// The nodes of the last started job; the next job often shares the text.
    nodes: Arc<str>,
}

impl Replay<'_> {
    /// The time of the next event.
    fn next(&self) -> Option<Time> {
        let submission = self.jobs.get(self.submitted).map(|job| moment(job.submit));
        self.world.next().into_iter().chain(submission).min()
    }

    /// Processes all events of an instant, and runs a cycle.
    fn instant(&mut self, now: Time) -> Result<Option<Plan>, StuckTrace> {
        self.world.reach(now);
        self.submit(now)?;
        let plan = self
            .world
            .decide(|id| Span::seconds(self.jobs[place(id)].run));
        for start in plan.iter().flat_map(|plan| &plan.starts) {
            let via = if start.passed.is_some() {
                Via::Backfill
            } else {
                Via::Priority
            };
            let (job, nodes) = (self.jobs[place(start.job)], nodes(start, &mut self.nodes));
            self.outcomes[place(start.job)] = Some(Outcome {
                job,
                start: now.0 / 1000,
                nodes,
                via,
            });
            self.started += 1;
        }
        Ok(plan)
    }

    fn submit(&mut self, now: Time) -> Result<(), StuckTrace> {
        while let Some(job) = self
            .jobs
            .get(self.submitted)
            .filter(|job| moment(job.submit) <= now)
        {
            let class = self.classes.of(job, self.world.state());
            let class = class.map_err(|refusal| StuckTrace::Refused {
                id: job.id,
                refusal,
            })?;
            self.submitted += 1;
            // Job numbers are positions in the trace, from 1: an earlier submission has a lower
            // number.
            self.world.submit(JobId::job(self.submitted as u64), class);
        }
        Ok(())
    }

    fn finish(self, last: Option<Plan>) -> Result<Vec<Outcome>, StuckTrace> {
        let waiting = self.world.waiting();
        let Some(first) = self.outcomes.iter().position(Option::is_none) else {
            return Ok(self.outcomes.into_iter().flatten().collect());
        };
        let verdict = last.as_ref().and_then(|plan| {
            self.world
                .state()
                .verdict(plan, JobId::job(first as u64 + 1))
        });
        let reason = verdict.map_or_else(
            || "the last cycle gave no reason".to_string(),
            |reason| reason.to_string(),
        );
        Err(StuckTrace::Waiting {
            waiting,
            id: self.jobs[first].id,
            reason,
        })
    }
}

fn moment(seconds: i64) -> Time {
    Time(seconds * 1000)
}

/// A job's index in the trace.
fn place(id: JobId) -> usize {
    id.number as usize - 1
}

/// The names of a start's nodes, each once: `n1`, `n3 n4 n5`. Reuses the text `before` if it is
/// equal.
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
