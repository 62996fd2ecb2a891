//! Predicts the run times of jobs from those of past jobs. Only forecasts use these predictions;
//! the scheduler plans with walltimes.
//!
//! A job is compared with the latest past jobs of the same user and name; if there are too few, of
//! the same user and script, and then of the same user and number of processors. If the user has no
//! past jobs like it, the job is compared with the share of their walltimes that all users' jobs
//! used.

use crate::model::job_id::JobId;
use crate::model::report::outlook::{EstimateBasis, RunTimeEstimate};
use crate::model::report::past_job::{JobTraits, PastJob};
use crate::model::time::{Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The number of past jobs that a prediction uses at most. Older jobs are less similar.
const MAX_SAMPLES: usize = 40;

/// The number of past jobs from which a group of like jobs is preferred to a larger group.
const ENOUGH_SAMPLES: usize = 3;

/// The name of jobs from standard input, which says nothing about their run times.
const UNNAMED: &str = "STDIN";

/// The number of past jobs of all users from which their use of walltimes is known.
const ENOUGH_SHARES: usize = 20;

/// Shares of a walltime are stored in units of this fraction.
const SHARE_UNIT: i64 = 10_000;

/// The run times of past jobs, by group of like jobs.
#[derive(Clone, Debug, Default)]
pub struct RunTimeHistory {
    by_name: BTreeMap<(String, String), Samples>,
    by_program: BTreeMap<(String, Vec<u8>), Samples>,
    by_size: BTreeMap<(String, i64), Samples>,
    /// The used shares of walltimes, in units of 1/[`SHARE_UNIT`].
    shares: Samples,
}

impl RunTimeHistory {
    /// The history of these jobs, in the order of their ends.
    pub fn new(jobs: &[PastJob]) -> RunTimeHistory {
        let mut history = RunTimeHistory::default();
        for past in jobs {
            history.add(&past.job, past.run_time);
        }
        history
    }

    /// Adds a job that has ended after this run time. Jobs are added in the order of their ends.
    pub fn add(&mut self, job: &JobTraits, run_time: Span) {
        let user = &job.user;
        let by_name = self.by_name.entry((user.clone(), job.name.clone()));
        by_name.or_default().add(run_time);
        if let Some(program) = &job.program {
            let by_program = self.by_program.entry((user.clone(), program.clone()));
            by_program.or_default().add(run_time);
        }
        let by_size = self.by_size.entry((user.clone(), job.processors));
        by_size.or_default().add(run_time);
        if let Some(walltime) = job.walltime.filter(|walltime| walltime.0 > 0) {
            let share = i128::from(run_time.0) * i128::from(SHARE_UNIT) / i128::from(walltime.0);
            self.shares
                .add(Span(i64::try_from(share).unwrap_or(SHARE_UNIT)));
        }
    }

    /// Predicts the run time of a job that started at `started`, or has not started yet.
    pub fn predict(&self, job: &JobTraits, started: Option<Time>) -> RunTimePrediction {
        let (samples, basis) = self.like(job);
        RunTimePrediction {
            samples,
            basis,
            walltime: job.walltime,
            started,
        }
    }

    /// The sorted run times of the most similar past jobs.
    fn like(&self, job: &JobTraits) -> (Arc<[Span]>, Option<EstimateBasis>) {
        let user = &job.user;
        let by_program = job
            .program
            .as_ref()
            .and_then(|program| self.by_program.get(&(user.clone(), program.clone())));
        let by_name = self.by_name.get(&(user.clone(), job.name.clone()));
        let groups = [
            (
                by_name.filter(|_| job.name != UNNAMED),
                EstimateBasis::Name as fn(u64) -> EstimateBasis,
            ),
            (by_program, EstimateBasis::Program),
            (
                self.by_size.get(&(user.clone(), job.processors)),
                EstimateBasis::Size,
            ),
        ];
        // Without a walltime, even one past job is better than no estimate.
        let least = match job.walltime {
            Some(_) => ENOUGH_SAMPLES,
            None => 1,
        };
        for least in [ENOUGH_SAMPLES, least] {
            for (samples, basis) in &groups {
                if let Some(samples) = samples.filter(|samples| samples.len() >= least) {
                    return (samples.sorted(), Some(basis(samples.len() as u64)));
                }
            }
        }
        match job.walltime {
            Some(walltime) if self.shares.len() >= ENOUGH_SHARES => {
                let shares = self.shares.sorted();
                let run_times = shares.iter().map(|share| {
                    let run_time =
                        i128::from(walltime.0) * i128::from(share.0) / i128::from(SHARE_UNIT);
                    Span(i64::try_from(run_time).unwrap_or(walltime.0))
                });
                (
                    run_times.collect(),
                    Some(EstimateBasis::Walltimes(shares.len() as u64)),
                )
            }
            _ => (Arc::default(), None),
        }
    }
}

/// The latest values of a group, at most [`MAX_SAMPLES`].
#[derive(Clone, Debug, Default)]
struct Samples(VecDeque<Span>);

impl Samples {
    fn add(&mut self, value: Span) {
        if self.0.len() == MAX_SAMPLES {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn sorted(&self) -> Arc<[Span]> {
        let mut values: Vec<Span> = self.0.iter().copied().collect();
        values.sort_unstable();
        values.into()
    }
}

/// The predicted run time of a job, as a distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTimePrediction {
    /// The run times of like jobs, sorted.
    samples: Arc<[Span]>,
    /// How the like jobs were chosen; None without like jobs.
    pub basis: Option<EstimateBasis>,
    /// The requested walltime.
    pub walltime: Option<Span>,
    /// The start of the job, if it runs.
    pub started: Option<Time>,
}

impl RunTimePrediction {
    /// A summary of the run times of like jobs; None without like jobs.
    pub fn estimate(&self) -> Option<RunTimeEstimate> {
        Some(RunTimeEstimate {
            basis: self.basis?,
            median: self.run_time(0.5, Span(0))?,
            long: self.run_time(0.9, Span(0))?,
            longest: *self.samples.last()?,
        })
    }

    /// The run time that a fraction `quantile` of the like jobs did not exceed, and at most the
    /// walltime. Only jobs that ran longer than `elapsed` count. If no like job ran that long, the
    /// chance to run `n` times as long as until now is assumed to be `1 / n`. None if the job has
    /// neither like jobs nor a walltime.
    pub fn run_time(&self, quantile: f64, elapsed: Span) -> Option<Span> {
        let longer = &self.samples[self
            .samples
            .partition_point(|run_time| *run_time <= elapsed)..];
        let rank = (quantile * longer.len() as f64).ceil() as usize;
        let predicted = match longer.get(rank.saturating_sub(1)) {
            Some(run_time) => Some(*run_time),
            None if self.samples.is_empty() => None,
            None => Some(Span((elapsed.0 as f64 / (1.0 - quantile)) as i64)),
        };
        match (predicted, self.walltime) {
            (Some(run_time), Some(walltime)) => Some(run_time.min(walltime)),
            (run_time, walltime) => run_time.or(walltime),
        }
    }
}

/// The predicted run times of the jobs of a forecast. An array has one prediction for all its
/// waiting subjobs. A job without a prediction runs until the end of its walltime.
#[derive(Clone, Debug, Default)]
pub struct RunTimes {
    jobs: BTreeMap<JobId, RunTimePrediction>,
}

impl RunTimes {
    /// Adds the prediction for a job or an array.
    pub fn insert(&mut self, job: JobId, prediction: RunTimePrediction) {
        self.jobs.insert(job, prediction);
    }

    /// The prediction for a job; for a subjob without its own, the prediction for its array.
    pub fn of(&self, job: JobId) -> Option<&RunTimePrediction> {
        self.jobs
            .get(&job)
            .or_else(|| self.jobs.get(&job.parent()?))
    }

    /// True if past jobs contribute to any prediction.
    pub fn use_history(&self) -> bool {
        self.jobs
            .values()
            .any(|prediction| prediction.basis.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traits(user: &str, name: &str, program: u8, walltime: Option<i64>) -> JobTraits {
        JobTraits {
            user: user.into(),
            name: name.into(),
            program: Some(vec![program]),
            processors: 4,
            walltime: walltime.map(Span::seconds),
        }
    }

    fn seconds(prediction: &RunTimePrediction, quantile: f64, elapsed: i64) -> Option<i64> {
        let run_time = prediction.run_time(quantile, Span::seconds(elapsed))?;
        Some(run_time.0 / 1000)
    }

    #[test]
    fn the_closest_group_with_enough_jobs_is_used() {
        let mut history = RunTimeHistory::default();
        for run_time in [10, 20, 30] {
            history.add(&traits("ann", "a", 1, None), Span::seconds(run_time));
        }
        for run_time in [100, 200, 300] {
            history.add(&traits("ann", "b", 2, None), Span::seconds(run_time));
        }
        history.add(&traits("bob", "a", 1, None), Span::seconds(7));
        let basis = |user, name, program| {
            let prediction = history.predict(&traits(user, name, program, None), None);
            (prediction.basis, seconds(&prediction, 0.5, 0))
        };
        assert_eq!(
            basis("ann", "a", 9),
            (Some(EstimateBasis::Name(3)), Some(20))
        );
        assert_eq!(
            basis("ann", "new", 2),
            (Some(EstimateBasis::Program(3)), Some(200))
        );
        assert_eq!(
            basis("ann", "new", 9),
            (Some(EstimateBasis::Size(6)), Some(30))
        );
        assert_eq!(
            basis("bob", "a", 1),
            (Some(EstimateBasis::Name(1)), Some(7))
        );
        let limited = traits("bob", "a", 1, Some(60));
        assert_eq!(history.predict(&limited, None).basis, None, "one job only");
        assert_eq!(basis("cat", "a", 1), (None, None), "no jobs of this user");
    }

    #[test]
    fn a_prediction_respects_the_walltime_and_the_elapsed_time() {
        let mut history = RunTimeHistory::default();
        for run_time in 1..=10 {
            history.add(&traits("ann", "a", 1, None), Span::seconds(run_time * 10));
        }
        let free = history.predict(&traits("ann", "a", 1, None), None);
        assert_eq!(seconds(&free, 0.5, 0), Some(50));
        assert_eq!(seconds(&free, 0.9, 0), Some(90));
        assert_eq!(seconds(&free, 0.5, 60), Some(80), "of 70, 80, 90 and 100");
        assert_eq!(seconds(&free, 0.5, 120), Some(240), "longer than all");
        let limited = history.predict(&traits("ann", "a", 1, Some(85)), None);
        assert_eq!(seconds(&limited, 0.9, 0), Some(85));
        let unknown = history.predict(&traits("bob", "a", 1, Some(85)), None);
        assert_eq!(seconds(&unknown, 0.5, 0), Some(85), "only the walltime");
    }

    #[test]
    fn a_user_without_past_jobs_gets_the_usual_share_of_the_walltime() {
        let mut history = RunTimeHistory::default();
        for run_time in 1..=20 {
            let job = traits("ann", "a", 1, Some(100));
            history.add(&job, Span::seconds(run_time));
        }
        let prediction = history.predict(&traits("bob", "b", 3, Some(1000)), None);
        assert_eq!(prediction.basis, Some(EstimateBasis::Walltimes(20)));
        assert_eq!(seconds(&prediction, 0.5, 0), Some(100));
    }

    #[test]
    fn only_the_latest_jobs_count() {
        let mut history = RunTimeHistory::default();
        for run_time in [1; 100].into_iter().chain([50; MAX_SAMPLES]) {
            history.add(&traits("ann", "a", 1, None), Span::seconds(run_time));
        }
        let prediction = history.predict(&traits("ann", "a", 1, None), None);
        assert_eq!(seconds(&prediction, 0.01, 0), Some(50));
    }
}
