//! Metrics of a schedule, for the comparison of schedulers.
//!
//! Wait is start minus submission. Bounded slowdown is the greater of 1 and (wait + run) / max(run,
//! 10 s). Percentiles are interpolated linearly.

use super::replay::{Outcome, Via};
use serde::Serialize;
use std::collections::BTreeMap;

/// The least divisor in bounded slowdowns, in seconds.
const SHORTEST_RUN: i64 = 10;

/// The metrics of a schedule. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// The number of jobs.
    pub jobs: usize,
    /// The number of backfilled jobs, which started ahead of a waiting job.
    pub backfilled: usize,
    /// The waits of all jobs.
    pub wait: Spread,
    /// The bounded slowdowns of all jobs.
    pub bounded_slowdown: Spread,
    /// The mean wait, weighted by processors times run time.
    pub area_weighted_wait: f64,
    /// The used fraction of the machine between the first and the last submission, 0 to 1.
    pub utilization: f64,
    /// The time from the first submission to the last end.
    pub makespan: i64,
    /// The users' mean waits.
    pub user_wait: Users,
    /// The users' mean bounded slowdowns.
    pub user_bounded_slowdown: Users,
}

/// The distribution of a set of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The 50th percentile.
    pub median: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest number.
    pub max: f64,
}

/// The distribution of users' means. Each user counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Users {
    /// The number of users.
    pub users: usize,
    /// The mean of the users' means.
    pub mean: f64,
    /// The 90th percentile of the users' means.
    pub p90: f64,
    /// The largest of the users' means.
    pub max: f64,
    /// The Gini coefficient: 0 if the means of all users are equal, near 1 if there are many users
    /// and all but one have mean 0.
    pub gini: f64,
}

impl Metrics {
    /// The metrics of these outcomes on a machine with this many processors.
    pub fn new(outcomes: &[Outcome], processors: u32) -> Metrics {
        let waits: Vec<f64> = outcomes
            .iter()
            .map(|outcome| outcome.wait() as f64)
            .collect();
        let slowdowns: Vec<f64> = outcomes.iter().map(bounded_slowdown).collect();
        let first = outcomes
            .iter()
            .map(|outcome| outcome.job.submit)
            .min()
            .unwrap_or(0);
        Metrics {
            jobs: outcomes.len(),
            backfilled: outcomes
                .iter()
                .filter(|outcome| outcome.via == Via::Backfill)
                .count(),
            area_weighted_wait: area_weighted_wait(outcomes),
            utilization: utilization(outcomes, processors),
            makespan: outcomes.iter().map(Outcome::end).max().unwrap_or(0) - first,
            user_wait: Users::new(outcomes, &waits),
            user_bounded_slowdown: Users::new(outcomes, &slowdowns),
            wait: Spread::new(waits),
            bounded_slowdown: Spread::new(slowdowns),
        }
    }
}

fn bounded_slowdown(outcome: &Outcome) -> f64 {
    let (wait, run) = (outcome.wait() as f64, outcome.job.run as f64);
    ((wait + run) / run.max(SHORTEST_RUN as f64)).max(1.0)
}

fn area_weighted_wait(outcomes: &[Outcome]) -> f64 {
    let area = |outcome: &Outcome| f64::from(outcome.job.processors) * outcome.job.run as f64;
    let total: f64 = outcomes.iter().map(area).sum();
    let weighed: f64 = outcomes
        .iter()
        .map(|outcome| area(outcome) * outcome.wait() as f64)
        .sum();
    if total > 0.0 { weighed / total } else { 0.0 }
}

/// The used fraction of a machine between the first and the last submission, 0 to 1; 0 without
/// jobs, or if all jobs are submitted in the same second.
pub fn utilization(outcomes: &[Outcome], processors: u32) -> f64 {
    let submissions = || outcomes.iter().map(|outcome| outcome.job.submit);
    let (Some(first), Some(last)) = (submissions().min(), submissions().max()) else {
        return 0.0;
    };
    let within =
        |outcome: &Outcome| (outcome.end().min(last) - outcome.start.max(first)).max(0) as f64;
    let used: f64 = outcomes
        .iter()
        .map(|outcome| within(outcome) * f64::from(outcome.job.processors))
        .sum();
    let offered = f64::from(processors) * (last - first) as f64;
    if offered > 0.0 { used / offered } else { 0.0 }
}

impl Spread {
    fn new(mut numbers: Vec<f64>) -> Spread {
        numbers.sort_unstable_by(f64::total_cmp);
        Spread {
            mean: mean(&numbers),
            median: percentile(&numbers, 0.5),
            p99: percentile(&numbers, 0.99),
            max: percentile(&numbers, 1.0),
        }
    }
}

impl Users {
    fn new(outcomes: &[Outcome], numbers: &[f64]) -> Users {
        let mut users: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
        for (outcome, number) in outcomes.iter().zip(numbers) {
            let (sum, count) = users.entry(outcome.job.user).or_default();
            (*sum, *count) = (*sum + number, *count + 1.0);
        }
        let mut means: Vec<f64> = users.values().map(|(sum, count)| sum / count).collect();
        means.sort_unstable_by(f64::total_cmp);
        Users {
            users: means.len(),
            mean: mean(&means),
            p90: percentile(&means, 0.9),
            max: percentile(&means, 1.0),
            gini: gini(&means),
        }
    }
}

fn mean(numbers: &[f64]) -> f64 {
    if numbers.is_empty() {
        0.0
    } else {
        numbers.iter().sum::<f64>() / numbers.len() as f64
    }
}

/// The percentile `part` (0 to 1) of sorted numbers; 0 if there are no numbers.
fn percentile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let place = part * last as f64;
    let (below, above) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    below + (above - below) * place.fract()
}

/// The Gini coefficient of sorted numbers that are at least 0; 0 if their sum is 0.
fn gini(sorted: &[f64]) -> f64 {
    let count = sorted.len() as f64;
    let total: f64 = sorted.iter().sum();
    let ranked: f64 = sorted
        .iter()
        .zip(1..)
        .map(|(number, rank)| f64::from(rank) * number)
        .sum();
    if total > 0.0 {
        2.0 * ranked / (count * total) - (count + 1.0) / count
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::TraceJob;
    use super::*;

    fn outcome(user: i64, submit: i64, start: i64, run: i64, processors: u32) -> Outcome {
        let job = TraceJob {
            id: submit,
            submit,
            run,
            estimate: run,
            processors,
            user,
            executable: -1,
        };
        Outcome {
            job,
            start,
            nodes: "n1".into(),
            via: Via::Priority,
        }
    }

    #[test]
    fn metrics_follow_their_definitions() {
        // 4 processors; submissions from 0 to 100.
        let outcomes = [
            outcome(1, 0, 0, 100, 2),
            outcome(1, 0, 0, 5, 1),
            outcome(2, 10, 100, 1, 4),
            outcome(3, 100, 101, 50, 4),
        ];
        let metrics = Metrics::new(&outcomes, 4);
        assert_eq!((metrics.jobs, metrics.makespan), (4, 151));
        assert_eq!(
            (metrics.wait.mean, metrics.wait.median, metrics.wait.max),
            (91.0 / 4.0, 0.5, 90.0)
        );
        assert!((metrics.wait.p99 - (1.0 + 89.0 * 0.97)).abs() < 1e-9);
        // Slowdowns: 1; (0 + 5) / 10, raised to 1; (90 + 1) / 10, because short runs count as 10;
        // and (1 + 50) / 50.
        assert!((metrics.bounded_slowdown.mean - (1.0 + 1.0 + 9.1 + 1.02) / 4.0).abs() < 1e-9);
        assert!(
            (metrics.area_weighted_wait - (4.0 * 90.0 + 200.0) / (200.0 + 5.0 + 4.0 + 200.0)).abs()
                < 1e-9
        );
        assert!((metrics.utilization - 205.0 / 400.0).abs() < 1e-9);
        let users = metrics.user_wait;
        assert_eq!((users.users, users.mean, users.max), (3, 91.0 / 3.0, 90.0));
        assert!((users.p90 - (1.0 + 89.0 * 0.8)).abs() < 1e-9);
        // The Gini coefficient of 0, 1 and 90: 2 (1 * 0 + 2 * 1 + 3 * 90) / (3 * 91) - 4 / 3.
        assert!((users.gini - (544.0 / 273.0 - 4.0 / 3.0)).abs() < 1e-9);
    }

    #[test]
    fn metrics_of_no_jobs_and_of_a_single_instant_are_finite() {
        let none = Metrics::new(&[], 4);
        assert_eq!(
            (none.jobs, none.wait, none.utilization, none.user_wait.gini),
            (0, Spread::default(), 0.0, 0.0)
        );
        assert_eq!(Metrics::new(&[outcome(1, 7, 7, 1, 1)], 4).utilization, 0.0);
    }
}
