//! Past and planned runs by node: the data of the timeline (Gantt chart).

use super::state::{Snapshot, TopState};
use crate::cli::lanai::job_view::JobView;
use crate::cli::lanai::status::JobStatus;
use crate::model::job_id::JobId;
use crate::model::report::outlook::Prospect;
use std::collections::{BTreeMap, BTreeSet};

/// Lengths of the displayed period, in seconds.
pub const ZOOMS: [i64; 9] = [
    300, 900, 1_800, 3_600, 10_800, 43_200, 86_400, 259_200, 604_800,
];

/// The length of the displayed period at the start of the program: one hour.
pub const DEFAULT_ZOOM: usize = 3;

/// The part of the displayed period that lies in the past, in percent.
const PAST: i64 = 40;

/// The displayed period, in seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The first second.
    pub from: i64,
    /// The current time.
    pub now: i64,
    /// The length in seconds.
    pub length: i64,
}

impl Period {
    /// The period around `now`.
    pub fn around(now: i64, zoom: usize) -> Period {
        let length = ZOOMS[zoom.min(ZOOMS.len() - 1)];
        Period {
            from: now - length * PAST / 100,
            now,
            length,
        }
    }

    /// The column of a time on a chart with `width` columns. Times outside of the period get the
    /// column before the first one, or the one after the last one.
    pub fn column(&self, time: i64, width: u16) -> i64 {
        let column = (time - self.from).saturating_mul(i64::from(width));
        column.div_euclid(self.length).clamp(-1, i64::from(width))
    }

    fn contains(&self, run: &Run) -> bool {
        run.expected >= self.from && run.from < self.from + self.length
    }
}

/// The kind of a run, which determines its color and character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// The job runs, or has run and has finished with this state.
    Past(JobStatus),
    /// The scheduler predicts this run.
    Planned,
}

/// The run of a job on a node. All times are in seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The job.
    pub job: JobId,
    /// The kind.
    pub kind: RunKind,
    /// The start.
    pub from: i64,
    /// The end; the current time if the job runs.
    pub until: i64,
    /// The end if the job uses its whole walltime; equal to `until` unless the job runs.
    pub expected: i64,
}

/// A line of the timeline: runs on the same node that do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// The node; None for further lines of the same node.
    pub node: Option<String>,
    /// The runs in the order of their starts.
    pub runs: Vec<Run>,
}

/// The lines of the timeline. A node without runs has one empty line.
pub fn lanes(state: &TopState) -> Vec<Lane> {
    let Some(snapshot) = &state.snapshot else {
        return Vec::new();
    };
    let period = Period::around(snapshot.now().0, state.zoom);
    let mut nodes: BTreeMap<String, Vec<Run>> = snapshot
        .nodes
        .iter()
        .map(|record| (record.node.facts.name.clone(), Vec::new()))
        .collect();
    for (node, run) in runs(state, snapshot, period.now) {
        if period.contains(&run) {
            nodes.entry(node).or_default().push(run);
        }
    }
    nodes
        .into_iter()
        .flat_map(|(node, runs)| divide(node, runs))
        .collect()
}

/// Runs of the displayed jobs and their subjobs, each with its node.
fn runs(state: &TopState, snapshot: &Snapshot, now: i64) -> Vec<(String, Run)> {
    let mut found = Vec::new();
    let displayed: BTreeSet<JobId> = state.jobs().map(|job| job.record.job.id).collect();
    let is_displayed = |job: JobId| {
        displayed.contains(&job) || job.parent().is_some_and(|array| displayed.contains(&array))
    };
    let subjobs = snapshot
        .subjobs()
        .filter(|job| is_displayed(job.record.job.id));
    for job in state.jobs().chain(subjobs) {
        if let Some(run) = past_run(&job, now) {
            found.extend(job.nodes().into_iter().map(|node| (node.to_string(), run)));
        }
    }
    let clock = &snapshot.server.clock;
    for forecast in &state.starts {
        if let Prospect::Starts { at, end, nodes } = &forecast.prospect
            && is_displayed(forecast.job)
        {
            let run = Run {
                job: forecast.job,
                kind: RunKind::Planned,
                from: clock.wall(*at).0.max(now),
                until: clock.wall(*end).0,
                expected: clock.wall(*end).0,
            };
            found.extend(nodes.iter().map(|node| (node.clone(), run)));
        }
    }
    found
}

/// The run of a job that runs or has run; None before the start.
fn past_run(job: &JobView, now: i64) -> Option<Run> {
    let from = job.started()?.0;
    let until = job.ended().map_or(now, |end| end.0);
    let walltime = job.walltime().map_or(0, |walltime| walltime.as_seconds());
    let expected = if job.status().is_finished() {
        until
    } else {
        until.max(from.saturating_add(walltime))
    };
    Some(Run {
        job: job.record.job.id,
        kind: RunKind::Past(job.status()),
        from,
        until,
        expected,
    })
}

/// Divides the runs on a node into as few lines as possible without overlaps.
fn divide(node: String, mut runs: Vec<Run>) -> Vec<Lane> {
    runs.sort_by_key(|run| (run.from, run.job));
    let mut lanes = vec![Lane {
        node: Some(node),
        runs: Vec::new(),
    }];
    for run in runs {
        let free = lanes.iter().position(|lane| {
            lane.runs
                .last()
                .is_none_or(|last| last.expected.max(last.from + 1) <= run.from)
        });
        match free {
            Some(lane) => lanes[lane].runs.push(run),
            None => lanes.push(Lane {
                node: None,
                runs: vec![run],
            }),
        }
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(job: u64, from: i64, expected: i64) -> Run {
        Run {
            job: JobId::job(job),
            kind: RunKind::Planned,
            from,
            until: expected,
            expected,
        }
    }

    #[test]
    fn overlapping_runs_are_on_different_lines() {
        let runs = vec![run(1, 0, 10), run(2, 5, 20), run(3, 10, 15), run(4, 20, 30)];
        let lanes = divide("n".into(), runs);
        let jobs: Vec<Vec<u64>> = lanes
            .iter()
            .map(|lane| lane.runs.iter().map(|run| run.job.number).collect())
            .collect();
        assert_eq!(jobs, [vec![1, 3, 4], vec![2]]);
        assert_eq!(lanes[0].node.as_deref(), Some("n"));
        assert_eq!(lanes[1].node, None);
    }

    #[test]
    fn times_have_columns() {
        let period = Period::around(10_000, DEFAULT_ZOOM);
        assert_eq!(period.from, 10_000 - 1_440);
        assert_eq!(period.column(10_000, 100), 40);
        assert_eq!(period.column(period.from, 100), 0);
        assert_eq!(period.column(0, 100), -1);
        assert_eq!(period.column(i64::MAX / 4, 100), 100);
    }
}
