//! The runs of a Gantt chart: the latest runs on each node, in bounded memory.

use super::period::Period;
use crate::model::job_id::JobId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The maximum number of runs.
pub const MOST_RUNS: usize = 1_500;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Exit status 0.
    Done,
    /// Another exit status.
    Failed,
    /// The job was deleted.
    Deleted,
    /// The job was requeued, for example after preemption.
    Requeued,
    /// The run has not ended.
    Running,
}

impl Outcome {
    /// All outcomes, in the order of the legend.
    pub const ALL: [Outcome; 5] = [
        Outcome::Done,
        Outcome::Failed,
        Outcome::Deleted,
        Outcome::Requeued,
        Outcome::Running,
    ];

    /// The word in tables, legends and JSON documents.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Failed => "failed",
            Outcome::Deleted => "deleted",
            Outcome::Requeued => "requeued",
            Outcome::Running => "running",
        }
    }
}

/// A run of a job on one host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostRun {
    /// The end, at most the end of the period. The first field, because runs are kept by their end.
    pub end: i64,
    /// The start, at least the start of the period.
    pub start: i64,
    /// The job.
    pub job: JobId,
    /// The host.
    pub host: String,
    /// The number of processors of the job on the host.
    pub processors: u32,
    /// The job name.
    pub name: String,
    /// The owner.
    pub user: String,
    /// How the run ended.
    pub outcome: Outcome,
    /// The exit status; None if the run has not ended, or if the job was requeued.
    pub exit_status: Option<i32>,
}

/// Collects the runs that ended last.
#[derive(Clone, Debug)]
pub struct RunCollector {
    period: Period,
    limit: usize,
    /// The kept runs; the one with the earliest end is at the top.
    kept: BinaryHeap<Reverse<HostRun>>,
    /// The latest end of a dropped run.
    dropped_until: Option<i64>,
    total: u64,
}

/// The runs of a Gantt chart.
#[derive(Clone, Debug)]
pub struct Gantt {
    /// The runs in the order of their starts.
    pub runs: Vec<HostRun>,
    /// All runs that ended after this time, but before the end of the period, are in the chart.
    pub since: i64,
    /// The number of runs in the period, including those that are not in the chart.
    pub total: u64,
    /// The hosts of the runs with their number of processors.
    pub hosts: BTreeMap<String, u32>,
}

impl RunCollector {
    /// A collector of at most `limit` runs.
    pub fn new(period: Period, limit: usize) -> RunCollector {
        RunCollector {
            period,
            limit,
            kept: BinaryHeap::new(),
            dropped_until: None,
            total: 0,
        }
    }

    /// Adds a run if a part of it lies in the period.
    pub fn add(&mut self, run: HostRun) {
        let Some((start, end)) = self.period.clip(run.start, run.end) else {
            return;
        };
        self.total += 1;
        self.kept.push(Reverse(HostRun { start, end, ..run }));
        if self.kept.len() > self.limit
            && let Some(Reverse(dropped)) = self.kept.pop()
            && dropped.end < self.period.to
        {
            self.dropped_until = self.dropped_until.max(Some(dropped.end));
        }
    }

    /// The chart. `processors` are the processors of the hosts; an unknown host has as many
    /// processors as its largest run. Runs that ended before the chart is complete are removed.
    pub fn finish(self, processors: &BTreeMap<String, u32>) -> Gantt {
        let since = self.dropped_until.unwrap_or(self.period.from);
        let mut runs: Vec<HostRun> = self
            .kept
            .into_iter()
            .map(|Reverse(run)| run)
            .filter(|run| run.end > since)
            .collect();
        for run in &mut runs {
            run.start = run.start.max(since);
        }
        runs.sort_by(|a, b| (a.start, a.job, &a.host).cmp(&(b.start, b.job, &b.host)));
        let mut hosts = BTreeMap::new();
        for run in &runs {
            let known = processors.get(&run.host).copied().unwrap_or(1);
            let most = hosts.entry(run.host.clone()).or_insert(known);
            *most = (*most).max(run.processors);
        }
        Gantt {
            runs,
            since,
            total: self.total,
            hosts,
        }
    }
}

/// The maximum number of lanes of a host.
pub const MOST_LANES: u32 = 32;

/// Adjacent lanes of a host: the first lane, and the number of lanes.
pub type Lanes = (usize, usize);

/// Assigns lanes to the runs of one host, in the order of their starts. A lane stands for one or
/// several processors. Runs share lanes only if no adjacent lanes are free.
pub fn lanes(runs: &[&HostRun], processors: u32) -> (usize, Vec<Lanes>) {
    let count = processors.clamp(1, MOST_LANES) as usize;
    let mut busy_until = vec![i64::MIN; count];
    let mut assigned = Vec::with_capacity(runs.len());
    for run in runs {
        let share = f64::from(run.processors) / f64::from(processors.max(1));
        let width = ((share * count as f64).round() as usize).clamp(1, count);
        let latest = |first: usize| busy_until[first..first + width].iter().max().copied();
        let first = (0..=count - width)
            .find(|first| latest(*first) <= Some(run.start))
            .or_else(|| (0..=count - width).min_by_key(|first| latest(*first)))
            .unwrap_or(0);
        busy_until[first..first + width].fill(run.end);
        assigned.push((first, width));
    }
    (count, assigned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(job: u64, start: i64, end: i64, processors: u32) -> HostRun {
        HostRun {
            end,
            start,
            job: JobId::job(job),
            host: "n1".into(),
            processors,
            name: "a".into(),
            user: "ann".into(),
            outcome: Outcome::Done,
            exit_status: Some(0),
        }
    }

    #[test]
    fn the_latest_runs_are_kept_and_the_chart_is_complete_since_the_last_dropped_end() {
        let period = Period { from: 0, to: 100 };
        let mut collector = RunCollector::new(period, 2);
        for (job, start, end) in [(1, 0, 10), (2, 5, 30), (3, 5, 20), (4, 25, 40), (5, -5, 0)] {
            collector.add(run(job, start, end, 1));
        }
        let gantt = collector.finish(&BTreeMap::new());
        assert_eq!((gantt.since, gantt.total), (20, 4));
        let kept: Vec<_> = gantt
            .runs
            .iter()
            .map(|run| (run.job.number, run.start, run.end))
            .collect();
        assert_eq!(kept, [(2, 20, 30), (4, 25, 40)]);
    }

    #[test]
    fn runs_are_clipped_to_the_period() {
        let mut collector = RunCollector::new(Period { from: 10, to: 20 }, 9);
        collector.add(run(1, 0, 99, 3));
        let gantt = collector.finish(&[("n1".to_string(), 8)].into());
        assert_eq!((gantt.runs[0].start, gantt.runs[0].end), (10, 20));
        assert_eq!(gantt.hosts["n1"], 8);
    }

    #[test]
    fn runs_at_the_same_time_have_different_lanes() {
        let runs = [
            run(1, 0, 10, 2),
            run(2, 0, 20, 1),
            run(3, 5, 9, 1),
            run(4, 10, 15, 2),
        ];
        let runs: Vec<&HostRun> = runs.iter().collect();
        let expected = (4, vec![(0, 2), (2, 1), (3, 1), (0, 2)]);
        assert_eq!(lanes(&runs, 4), expected);
    }

    #[test]
    fn large_hosts_have_a_bounded_number_of_lanes() {
        let runs = [run(1, 0, 10, 128), run(2, 0, 10, 1)];
        let runs: Vec<&HostRun> = runs.iter().collect();
        assert_eq!(lanes(&runs, 256), (32, vec![(0, 16), (16, 1)]));
    }
}
