//! How accurate predicted run times are: predicts the run time of each past job from the jobs that
//! had ended before it began, and compares the prediction with what happened.

use crate::model::account::accounting::AccountingEntry;
use crate::model::report::past_job::JobTraits;
use crate::model::time::Span;
use crate::sched::explain::run_times::RunTimeHistory;

/// The result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunTimeAccuracy {
    /// The number of past jobs.
    pub jobs: usize,
    /// The number of jobs for which there were earlier jobs to compare with.
    pub predicted: usize,
    /// The median difference between the predicted median and the run time.
    pub median_error: Span,
    /// The number of predicted jobs that ran no longer than the predicted 90th percentile.
    pub within_p90: usize,
    /// The number of predicted jobs with a walltime.
    pub with_walltime: usize,
    /// The median difference between their walltime and their run time.
    pub median_walltime_error: Span,
}

/// Predicts the run times of these jobs, and compares. Deleted jobs and requeued attempts do not
/// count, as in forecasts.
pub fn of_entries(entries: &[AccountingEntry]) -> RunTimeAccuracy {
    let mut past: Vec<&AccountingEntry> = entries.iter().filter(|entry| counts(entry)).collect();
    past.sort_by_key(|entry| entry.stamps.ended);
    let mut begun = past.clone();
    begun.sort_by_key(|entry| entry.stamps.began);
    let mut result = RunTimeAccuracy {
        jobs: past.len(),
        ..RunTimeAccuracy::default()
    };
    let (mut history, mut ended) = (RunTimeHistory::default(), past.into_iter().peekable());
    let (mut errors, mut walltime_errors) = (Vec::new(), Vec::new());
    for entry in begun {
        while let Some(other) =
            ended.next_if(|other| Some(other.stamps.ended) <= entry.stamps.began)
        {
            history.add(&traits(other), other.used.walltime);
        }
        let Some(estimate) = history.predict(&traits(entry), None).estimate() else {
            continue;
        };
        let run_time = entry.used.walltime;
        errors.push((estimate.median.0 - run_time.0).abs());
        result.within_p90 += usize::from(run_time <= estimate.long);
        let walltime_error = |walltime: Span| (walltime.0 - run_time.0).abs();
        walltime_errors.extend(entry.asked.walltime.map(walltime_error));
    }
    result.predicted = errors.len();
    result.median_error = Span(median(errors));
    result.with_walltime = walltime_errors.len();
    result.median_walltime_error = Span(median(walltime_errors));
    result
}

fn counts(entry: &AccountingEntry) -> bool {
    entry.stamps.began.is_some() && entry.end.is_some_and(|end| !end.deleted)
}

fn traits(entry: &AccountingEntry) -> JobTraits {
    JobTraits {
        user: entry.of.user.clone(),
        name: entry.name.clone(),
        program: None,
        processors: i64::from(entry.asked.cores),
        walltime: entry.asked.walltime,
    }
}

/// The median; 0 without values.
pub(super) fn median(mut values: Vec<i64>) -> i64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
