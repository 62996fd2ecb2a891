//! Tests of the replay of traces.

use super::*;
use crate::sim::shorthand;
use crate::sim::swf;
use crate::sim::trace::Trace;

/// Jobs as lines of `submit run estimate processors`, numbered from 1.
fn jobs(lines: &[[i64; 4]]) -> Vec<TraceJob> {
    let numbered = lines.iter().zip(1..);
    let line = |([submit, run, estimate, processors], id): (&[i64; 4], i64)| {
        format!(
            "{id} {submit} -1 {run} -1 -1 -1 {processors} {estimate} -1 1 {} -1 -1 1 -1 -1 -1\n",
            id % 3
        )
    };
    let text: String = numbered.map(line).collect();
    Trace::new(&swf::read(text.as_bytes()).unwrap(), 1000)
        .unwrap()
        .jobs
}

fn machine(nodes: u32, cores: u32) -> NodeBatch {
    NodeBatch::new(&swf::Log::default(), Some(nodes), Some(cores)).unwrap()
}

fn outcomes(policy: &str, machine: NodeBatch, jobs: &[TraceJob]) -> Vec<Outcome> {
    let policy = shorthand::applied(policy, Policy::default()).unwrap();
    run(jobs, machine, &Config::default(), &policy, |_| ()).unwrap()
}

/// The starts of jobs on a machine with this many processors.
fn starts(policy: &str, processors: u32, lines: &[[i64; 4]]) -> Vec<i64> {
    outcomes(policy, machine(1, processors), &jobs(lines))
        .iter()
        .map(|outcome| outcome.start)
        .collect()
}

#[test]
fn an_end_comes_before_a_submission_of_the_same_second() {
    assert_eq!(starts("fcfs", 1, &[[0, 10, 99, 1], [10, 5, 9, 1]]), [0, 10]);
    // If the submission came first, job 3 would start before job 2.
    assert_eq!(
        starts(
            "easy",
            2,
            &[[0, 10, 50, 1], [1, 10, 50, 2], [10, 10, 20, 1]]
        ),
        [0, 10, 20]
    );
}

#[test]
fn all_ends_of_a_second_come_before_the_cycle() {
    // If a cycle ran after only one of the two ends, it would backfill job 4.
    assert_eq!(
        starts(
            "easy",
            4,
            &[[0, 10, 50, 2], [0, 10, 50, 2], [1, 5, 5, 4], [2, 5, 9, 2]]
        ),
        [0, 0, 10, 15]
    );
}

#[test]
fn simultaneous_submissions_keep_the_order_of_the_file() {
    assert_eq!(
        starts("fcfs", 1, &[[0, 5, 5, 1], [0, 5, 5, 1], [0, 5, 5, 1]]),
        [0, 5, 10]
    );
    assert_eq!(
        starts(
            "easy",
            2,
            &[[0, 5, 5, 1], [0, 5, 9, 2], [0, 5, 5, 1], [0, 5, 5, 1]]
        ),
        [0, 5, 0, 10]
    );
}

#[test]
fn a_backfilled_job_ends_no_later_than_the_planned_start() {
    let with_estimate = |estimate| {
        starts(
            "easy",
            4,
            &[[0, 10, 10, 2], [1, 5, 5, 4], [2, 4, estimate, 2]],
        )
    };
    assert_eq!(with_estimate(8), [0, 10, 2]);
    assert_eq!(with_estimate(9), [0, 10, 15]);
}

#[test]
fn a_long_backfilled_job_uses_only_processors_that_the_planned_job_leaves_free() {
    // At 10 the planned job leaves one processor free: enough for job 3 or job 4, not for both.
    let lines = [[0, 10, 10, 2], [1, 5, 5, 3], [2, 50, 50, 1], [2, 50, 50, 1]];
    assert_eq!(starts("easy", 4, &lines), [0, 10, 2, 15]);
}

#[test]
fn a_job_that_uses_its_whole_estimate_ends_on_time() {
    assert_eq!(
        starts("easy", 2, &[[0, 10, 10, 2], [0, 10, 10, 2], [20, 1, 1, 2]]),
        [0, 10, 20]
    );
    // A job is ended at its estimate.
    assert_eq!(
        starts("easy", 2, &[[0, 30, 10, 2], [0, 10, 10, 2]]),
        [0, 10]
    );
}

#[test]
fn narrow_jobs_are_backfilled_before_a_job_as_wide_as_the_machine() {
    let day = 86_400;
    let mut lines = vec![[0, 3 * day, 3 * day, 1], [1, day, day, 8]];
    lines.extend((0..70).map(|hour| [2 + hour * 3600, 3500, 3599, 7]));
    let starts = starts("easy", 8, &lines);
    assert_eq!(starts[1], 3 * day);
    let passing = starts[2..]
        .iter()
        .zip(2..)
        .filter(|(start, at)| **start == lines[*at][0])
        .count();
    assert_eq!(
        passing, 70,
        "each narrow job ends before the next one starts, and the last before the planned start"
    );
}

#[test]
fn without_backfill_no_job_starts_ahead() {
    assert_eq!(
        starts("fcfs", 4, &[[0, 10, 10, 2], [1, 5, 5, 4], [2, 1, 1, 2]]),
        [0, 10, 15]
    );
}

#[test]
fn a_job_without_an_estimate_is_planned_with_its_run_time() {
    assert_eq!(
        starts("easy", 4, &[[0, 10, -1, 2], [1, 5, -1, 4], [2, 8, -1, 2]]),
        [0, 10, 2]
    );
}

#[test]
fn starts_do_not_depend_on_the_division_into_nodes() {
    let dice = |step: i64, sides: i64| 1 + (step * step * 31 + step * 17) % sides;
    let lines: Vec<[i64; 4]> = (0..150)
        .map(|step| {
            [
                step * 20,
                dice(step, 90),
                100 + dice(step, 50),
                dice(step + 3, 12),
            ]
        })
        .collect();
    let jobs = jobs(&lines);
    for policy in shorthand::names() {
        let starts = |nodes, cores| {
            let outcomes = outcomes(policy, machine(nodes, cores), &jobs);
            outcomes
                .iter()
                .map(|outcome| outcome.start)
                .collect::<Vec<_>>()
        };
        assert_eq!(starts(1, 12), starts(12, 1), "{policy}");
        assert_eq!(starts(1, 12), starts(3, 4), "{policy}");
    }
}

#[test]
fn outcomes_have_the_nodes_and_the_kind_of_start() {
    let jobs = jobs(&[[0, 10, 10, 3], [1, 5, 5, 4], [2, 4, 8, 1]]);
    let found = outcomes("easy", machine(2, 2), &jobs);
    let found: Vec<_> = found
        .iter()
        .map(|outcome| (&*outcome.nodes, outcome.wait(), outcome.via))
        .collect();
    assert_eq!(
        found,
        [
            ("n1 n2", 0, Via::Priority),
            ("n1 n2", 9, Via::Priority),
            ("n2", 0, Via::Backfill)
        ]
    );
}

#[test]
fn jobs_that_never_start_are_an_error_with_the_reason() {
    let config = Config::parse("[[queue]]\nname = \"workq\"\nstarted = false\n").unwrap();
    let jobs = jobs(&[[0, 10, 10, 3], [1, 10, 10, 3]]);
    let stuck = run(
        &jobs,
        machine(1, 4),
        &config,
        &config.effective_policy(),
        |_| (),
    )
    .unwrap_err();
    assert_eq!(
        stuck.to_string(),
        "jobs that never start: 2, for example job 1: Not Running: Queue not started."
    );
}
