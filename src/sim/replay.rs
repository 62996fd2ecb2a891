//! A trace run again: when would its jobs have started under this policy?

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

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Which.
    pub job: TraceJob,
    /// When it started, in seconds.
    pub start: i64,
    /// The nodes it got, the first of the request first, with blanks between.
    pub nodes: Arc<str>,
    /// Why it was its turn.
    pub via: Via,
}

impl Outcome {
    /// When it ended.
    pub fn end(&self) -> i64 {
        self.start + self.job.run
    }

    /// How long it waited.
    pub fn wait(&self) -> i64 {
        self.start - self.job.submit
    }
}

/// Why it was a job's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// Nobody with a better place waited.
    Priority,
    /// It passed a job that waits.
    Backfill,
}

/// Why a trace was not run to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StuckTrace {
    /// A job cannot be submitted.
    #[error("job {id}: {refusal}")]
    Refused {
        /// Its number in the trace.
        id: i64,
        /// What `qsub` would say.
        refusal: Refusal,
    },
    /// Jobs wait for ever.
    #[error("{waiting} jobs never start, job {id} among them: {reason}")]
    Waiting {
        /// How many.
        waiting: usize,
        /// The first of them.
        id: i64,
        /// Why it waits.
        reason: String,
    },
}

/// Runs the jobs, which are in order of submission; what became of each comes in the same order.
/// `progress` is told from time to time how many have started.
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
    /// How many of them have been submitted.
    submitted: usize,
    classes: Classes,
    world: SimulatedCluster,
    outcomes: Vec<Option<Outcome>>,
    started: usize,
    /// The nodes of the job started last: often those of the next one, too.
    nodes: Arc<str>,
}

impl Replay<'_> {
    /// When something happens next.
    fn next(&self) -> Option<Time> {
        let submission = self.jobs.get(self.submitted).map(|job| moment(job.submit));
        self.world.next().into_iter().chain(submission).min()
    }

    /// All that happens at an instant.
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
            // Numbers are places in the trace, from 1: what was submitted first has the lowest.
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
            || "nothing is said of it".to_string(),
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

/// A job's place in the trace.
fn place(id: JobId) -> usize {
    id.number as usize - 1
}

/// The nodes of a start, each once: `n1`, `n3 n4 n5`. They are written anew only where they are not
/// those `before`.
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
