//! How accurate forecasts are: while a trace is replayed, predicts starts of waiting jobs from the
//! run times of the jobs that have ended so far, and compares the predictions with the replay.

use super::replay::{Instant, Outcome, index_of};
use super::run_time_accuracy;
use super::trace::TraceJob;
use crate::model::job_id::JobId;
use crate::model::policy::Policy;
use crate::model::report::outlook::{Prospect, StartRange};
use crate::model::report::past_job::JobTraits;
use crate::model::time::{Span, Time};
use crate::sched::explain::forecast::{self, Budget};
use crate::sched::explain::run_times::{RunTimeHistory, RunTimes};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// The approximate number of jobs of a trace for which starts are predicted.
const SAMPLES: usize = 1000;

/// The predictions made during a replay.
pub struct AccuracyTest<'t> {
    jobs: &'t [TraceJob],
    policy: Policy,
    history: RunTimeHistory,
    waiting: BTreeSet<usize>,
    running: BTreeMap<usize, Time>,
    ends: BinaryHeap<Reverse<(Time, usize)>>,
    submitted: usize,
    predictions: Vec<Prediction>,
    run_times: Vec<RunTimeError>,
}

/// The predicted start of a job, in milliseconds.
struct Prediction {
    job: usize,
    made: Time,
    expected: Time,
    range: StartRange,
    /// The start if all jobs run until the end of their walltimes.
    by_walltimes: Option<Time>,
}

/// The errors of a predicted run time and of a walltime, in milliseconds.
struct RunTimeError {
    predicted: i64,
    walltime: i64,
}

impl<'t> AccuracyTest<'t> {
    /// A test for the replay of these jobs under this policy.
    pub fn new(jobs: &'t [TraceJob], policy: Policy) -> AccuracyTest<'t> {
        AccuracyTest {
            jobs,
            policy,
            history: RunTimeHistory::default(),
            waiting: BTreeSet::new(),
            running: BTreeMap::new(),
            ends: BinaryHeap::new(),
            submitted: 0,
            predictions: Vec::new(),
            run_times: Vec::new(),
        }
    }

    /// Follows the replay: learns the run times of ended jobs, and predicts the starts of some of
    /// the jobs that have been submitted at this instant and wait.
    pub fn observe(&mut self, instant: &Instant) {
        self.learn(instant.now);
        let new = self.submitted..instant.submitted;
        self.submitted = instant.submitted;
        self.waiting.extend(new.clone());
        for start in instant.starts {
            self.start(index_of(start.job), instant.now);
        }
        let step = self.jobs.len().div_ceil(SAMPLES);
        for job in new.filter(|job| job % step == 0) {
            if self.waiting.contains(&job) {
                self.predict(job, instant);
            }
        }
    }

    fn learn(&mut self, now: Time) {
        while let Some(&Reverse((end, job))) = self.ends.peek()
            && end <= now
        {
            self.ends.pop();
            self.running.remove(&job);
            let run_time = Span::seconds(self.jobs[job].run);
            self.history.add(&traits(&self.jobs[job]), run_time);
        }
    }

    fn start(&mut self, job: usize, now: Time) {
        let (traits, run_time) = (traits(&self.jobs[job]), Span::seconds(self.jobs[job].run));
        self.waiting.remove(&job);
        self.running.insert(job, now);
        self.ends.push(Reverse((now + run_time, job)));
        let prediction = self.history.predict(&traits, None);
        if let (Some(median), Some(walltime)) = (
            prediction.estimate().map(|estimate| estimate.median),
            traits.walltime,
        ) {
            self.run_times.push(RunTimeError {
                predicted: (median.0 - run_time.0).abs(),
                walltime: walltime.0 - run_time.0,
            });
        }
    }

    fn predict(&mut self, job: usize, instant: &Instant) {
        let mut run_times = RunTimes::default();
        let waiting = self.waiting.iter().map(|job| (*job, None));
        let running = self.running.iter().map(|(job, start)| (*job, Some(*start)));
        for (job, started) in waiting.chain(running) {
            let prediction = self.history.predict(&traits(&self.jobs[job]), started);
            run_times.insert(id_of(job), prediction);
        }
        let start = |run_times: &RunTimes| {
            let outlook = forecast::estimate(
                instant.cluster,
                &self.policy,
                instant.now,
                Budget::default(),
                run_times,
                Some(id_of(job)),
            );
            let foreseen = outlook.of(id_of(job))?;
            match foreseen.prospect {
                Prospect::Starts { at, .. } => Some((at, foreseen.range)),
                _ => None,
            }
        };
        let by_walltimes = start(&RunTimes::default());
        if let Some((expected, Some(range))) = start(&run_times) {
            self.predictions.push(Prediction {
                job,
                made: instant.now,
                expected,
                range,
                by_walltimes: by_walltimes.map(|(at, _)| at),
            });
        }
    }

    /// Compares the predictions with the outcomes of the replay.
    pub fn finish(self, outcomes: &[Outcome]) -> Accuracy {
        let start = |prediction: &Prediction| Time(outcomes[prediction.job].start * 1000);
        let predictions = &self.predictions;
        let within = predictions.iter().filter(|prediction| {
            let range = prediction.range;
            (range.earliest..=range.latest).contains(&start(prediction))
        });
        let error = |at: Time, prediction: &Prediction| (at.0 - start(prediction).0).abs();
        Accuracy {
            predictions: predictions.len(),
            within_range: within.count() as f64 / predictions.len().max(1) as f64,
            median_wait_s: median(
                predictions
                    .iter()
                    .map(|prediction| start(prediction).0 - prediction.made.0),
            ),
            median_range_s: median(
                predictions
                    .iter()
                    .map(|prediction| prediction.range.latest.0 - prediction.range.earliest.0),
            ),
            median_start_error_s: median(
                predictions
                    .iter()
                    .map(|prediction| error(prediction.expected, prediction)),
            ),
            median_start_error_by_walltimes_s: median(
                predictions
                    .iter()
                    .filter_map(|prediction| Some(error(prediction.by_walltimes?, prediction))),
            ),
            run_times: self.run_times.len(),
            median_run_time_error_s: median(self.run_times.iter().map(|error| error.predicted)),
            median_run_time_error_by_walltimes_s: median(
                self.run_times.iter().map(|error| error.walltime),
            ),
        }
    }
}

/// The result of an [`AccuracyTest`]. Medians are in seconds.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Accuracy {
    /// The number of predicted starts.
    pub predictions: usize,
    /// The share of jobs that started within the predicted range.
    pub within_range: f64,
    /// The waiting time of the jobs.
    pub median_wait_s: f64,
    /// The width of the predicted ranges.
    pub median_range_s: f64,
    /// The error of the expected start.
    pub median_start_error_s: f64,
    /// The error of the start that is predicted from walltimes alone.
    pub median_start_error_by_walltimes_s: f64,
    /// The number of predicted run times.
    pub run_times: usize,
    /// The error of the predicted run time.
    pub median_run_time_error_s: f64,
    /// The difference between walltime and run time.
    pub median_run_time_error_by_walltimes_s: f64,
}

/// The median of values in milliseconds, in seconds; 0 without values.
fn median(values: impl Iterator<Item = i64>) -> f64 {
    run_time_accuracy::median(values.collect()) as f64 / 1000.0
}

fn id_of(job: usize) -> JobId {
    JobId::job(job as u64 + 1)
}

/// The traits of a job. A trace has no names. The number of the executable stands for the name; if
/// it is unknown, the requested time does, because users often request the same time for the same
/// program.
fn traits(job: &TraceJob) -> JobTraits {
    let name = match job.executable {
        ..=0 => format!("time {}", job.estimate),
        executable => format!("executable {executable}"),
    };
    JobTraits {
        user: job.user.to_string(),
        name,
        program: None,
        processors: i64::from(job.processors),
        walltime: Some(Span::seconds(job.estimate)),
    }
}
