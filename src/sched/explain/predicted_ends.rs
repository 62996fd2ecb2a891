//! When the running jobs of a forecast end, according to their predicted run times.

use super::run_times::RunTimes;
use crate::model::job_id::JobId;
use crate::model::time::Time;
use crate::sched::view::snapshot::ClusterState;
use std::collections::{BTreeMap, BTreeSet};

/// The predictions for running and waiting jobs, and how pessimistic they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assumption<'a> {
    /// The predictions.
    pub run_times: &'a RunTimes,
    /// The fraction of past jobs that ran at most as long as a job is assumed to run.
    pub quantile: f64,
}

/// The predicted ends of running jobs that end before their walltime, and the running jobs with an
/// unknown end.
pub(super) struct PredictedEnds<'a> {
    assumption: Assumption<'a>,
    ends: BTreeSet<(Time, JobId)>,
    by_job: BTreeMap<JobId, Time>,
    /// The jobs with neither a walltime nor a prediction.
    unknown: BTreeSet<JobId>,
}

impl<'a> PredictedEnds<'a> {
    pub(super) fn of_running(state: &ClusterState, assumption: Assumption<'a>, now: Time) -> Self {
        let mut ends = PredictedEnds {
            assumption,
            ends: BTreeSet::new(),
            by_job: BTreeMap::new(),
            unknown: BTreeSet::new(),
        };
        for &(_, job) in &state.ends {
            let started = assumption.run_times.of(job).and_then(|of| of.started);
            ends.predict(job, started.unwrap_or(now), now);
        }
        ends
    }

    /// Adds the predicted end of a job. A job with a prediction equal to its walltime has no entry,
    /// because the state has the end of its walltime.
    pub(super) fn predict(&mut self, job: JobId, started: Time, now: Time) {
        let Some(prediction) = self.assumption.run_times.of(job) else {
            return;
        };
        match prediction.run_time(self.assumption.quantile, now.since(started)) {
            None => drop(self.unknown.insert(job)),
            Some(run_time) if Some(run_time) == prediction.walltime => (),
            Some(run_time) => {
                let end = started + run_time;
                self.ends.insert((end, job));
                self.by_job.insert(job, end);
            }
        }
    }

    pub(super) fn forget(&mut self, job: JobId) {
        self.unknown.remove(&job);
        if let Some(end) = self.by_job.remove(&job) {
            self.ends.remove(&(end, job));
        }
    }

    pub(super) fn first(&self) -> Option<Time> {
        self.ends.first().map(|&(end, _)| end)
    }

    pub(super) fn take_ended(&mut self, moment: Time) -> Option<JobId> {
        let &(end, job) = self.ends.first()?;
        (end <= moment).then(|| {
            self.forget(job);
            job
        })
    }

    /// Whether the end of this running job is unknown. In the state it has the default walltime of
    /// the policy.
    pub(super) fn is_unknown(&self, job: JobId) -> bool {
        self.unknown.contains(&job)
    }

    /// The end of a job that starts: of its walltime, or the predicted end of a job without a
    /// walltime; [`Time::NEVER`] if neither is known.
    pub(super) fn latest(&self, job: JobId, until: Time) -> Time {
        match self.assumption.run_times.of(job) {
            Some(prediction) if prediction.walltime.is_none() => {
                self.by_job.get(&job).copied().unwrap_or(Time::NEVER)
            }
            _ => until,
        }
    }
}
