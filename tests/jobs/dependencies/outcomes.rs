//! Outcome of dependent jobs for each ending of their parent.

use super::{await_all_ended, dependent, head, number, quick};
use crate::support::sandbox::Sandbox;
use serde_json::Value;
use std::collections::BTreeMap;

/// How a parent ends, and which of four dependent jobs then run.
const ENDINGS: [(&str, [bool; 4]); 9] = [
    // True if a job that depends on the parent with after, afterok, afternotok or afterany runs.
    ("ends with 0", [true, true, false, true]),
    ("ends with 3", [true, false, true, true]),
    ("is killed by a signal", [true, false, true, true]),
    ("exceeds its walltime", [true, false, true, true]),
    ("cannot be started", [true, false, true, true]),
    ("is deleted while it runs", [true, false, true, true]),
    ("is deleted before it ran", [false, false, true, true]),
    ("is deleted by a dependency", [false, false, true, true]),
    ("is requeued, then ends with 0", [true, true, false, true]),
];

const KINDS: [&str; 4] = ["", "ok", "notok", "any"];

/// Submits one held job for each ending, with these additional options. The last id belongs to
/// the job on which the eighth one depends.
fn parents(sandbox: &Sandbox, options: impl Fn(usize) -> Vec<String>) -> Vec<String> {
    let endless =
        "[ -e again.$PBS_JOBID ] && exit 0; : > again.$PBS_JOBID; while :; do sleep 0.05; done\n";
    let fails = quick(sandbox, &["-h", "-N", "fails"], 1);
    let never = format!("depend=afterok:{fails}");
    let jobs: [(&[&str], &str); 9] = [
        (&[], "exit 0\n"),
        (&[], "exit 3\n"),
        (&[], "kill -9 $$\n"),
        (&["-l", "walltime=1"], endless),
        (&["-S", "/nosuch/shell"], "exit 0\n"),
        (&[], endless),
        (&[], "exit 0\n"),
        (&["-W", &never], "exit 0\n"),
        (&[], endless),
    ];
    let submit = |(index, (own, script)): (usize, &(&[&str], &str))| {
        let more = options(index);
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        sandbox.submit(&[&["-h"], *own, &more].concat(), script)
    };
    let parents: Vec<String> = jobs.iter().enumerate().map(submit).collect();
    parents.into_iter().chain([fails]).collect()
}

/// Makes each parent end as in `ENDINGS`.
fn release(sandbox: &Sandbox, parents: &[String]) {
    sandbox.run("qdel", &[&parents[6]]).ok();
    let all: Vec<&str> = [0, 1, 2, 3, 4, 5, 8, 9]
        .iter()
        .map(|&index| parents[index].as_str())
        .collect();
    sandbox.run("qrls", &all).ok();
    for index in [5, 8] {
        sandbox.running(&parents[index]);
        let mark = sandbox.file(&format!("again.{}", parents[index]));
        sandbox.until("the mark of the first attempt", || {
            mark.exists().then_some(())
        });
    }
    sandbox.run("qdel", &[&parents[5]]).ok();
    sandbox.run("qrerun", &[&parents[8]]).ok();
}

#[track_caller]
fn assert_outcomes(ended: &BTreeMap<String, Value>, parents: &[String], children: &[Vec<String>]) {
    let mut wrong = Vec::new();
    for (index, (ending, expected)) in ENDINGS.iter().enumerate() {
        for (kind, &runs) in expected.iter().enumerate() {
            let job = &ended[&children[index][kind]];
            let ran = job["run_count"] == 1 && job["Exit_status"] == 0;
            let comment = job["comment"].as_str().unwrap_or_default();
            let start = format!(
                "Job deleted as result of dependency on job {}: after{}, but it ",
                parents[index], KINDS[kind]
            );
            let was_deleted =
                job["Exit_status"] == 271 && job["substate"] == 92 && job["run_count"].is_null();
            let is_explained = comment.starts_with(&start)
                && job["depend"].as_str().unwrap_or("").contains("after");
            let as_expected = if runs {
                ran
            } else {
                was_deleted && is_explained
            };
            if !as_expected {
                wrong.push(format!(
                    "after{} of a job that {ending}: {job}",
                    KINDS[kind]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn dependent_jobs_follow_the_table() {
    let sandbox = head();
    let parents = parents(&sandbox, |_| Vec::new());
    let children: Vec<Vec<String>> = parents[..ENDINGS.len()]
        .iter()
        .map(|parent| {
            KINDS
                .iter()
                .map(|kind| dependent(&sandbox, &format!("after{kind}:{parent}")))
                .collect()
        })
        .collect();
    release(&sandbox, &parents);
    assert_outcomes(&await_all_ended(&sandbox), &parents, &children);
}

#[test]
fn jobs_with_before_dependencies_follow_the_same_table() {
    let sandbox = head();
    let children: Vec<Vec<String>> = ENDINGS
        .iter()
        .map(|_| KINDS.iter().map(|_| dependent(&sandbox, "on:1")).collect())
        .collect();
    let names = |index: usize| {
        let clauses = KINDS
            .iter()
            .zip(&children[index])
            .map(|(kind, child)| format!("before{kind}:{child}"));
        vec![
            "-W".to_string(),
            format!("depend={}", clauses.collect::<Vec<_>>().join(",")),
        ]
    };
    let parents = parents(&sandbox, names);
    sandbox.kill("schedd");
    release(&sandbox, &parents);
    assert_outcomes(&await_all_ended(&sandbox), &parents, &children);
}

#[test]
fn a_failure_propagates_through_chains_and_diamonds() {
    let sandbox = head();
    let top = quick(&sandbox, &["-h"], 3);
    let left = dependent(&sandbox, &format!("afterok:{top}"));
    let right = dependent(&sandbox, &format!("afternotok:{top}"));
    let both = dependent(&sandbox, &format!("afterok:{left}:{right}"));
    let either = dependent(&sandbox, &format!("afterany:{left}:{right}"));
    let unless = dependent(&sandbox, &format!("afternotok:{left},afterok:{right}"));
    let below = dependent(&sandbox, &format!("afterok:{both}"));
    let after_both = dependent(&sandbox, &format!("after:{both}"));
    let cleaner = dependent(
        &sandbox,
        &format!("afternotok:{below},afterany:{after_both}"),
    );
    sandbox.run("qrls", &[&top]).ok();
    let ended = await_all_ended(&sandbox);
    for id in [&right, &either, &unless, &cleaner] {
        assert_eq!(
            (&ended[id]["run_count"], &ended[id]["Exit_status"]),
            (&1.into(), &0.into()),
            "{}",
            ended[id]
        );
    }
    for (id, parent, how) in [
        (&left, &top, "afterok, but it ended with status 3"),
        (
            &both,
            &left,
            "afterok, but it was deleted as result of its own dependency",
        ),
        (
            &below,
            &both,
            "afterok, but it was deleted as result of its own dependency",
        ),
        (
            &after_both,
            &both,
            "after, but it was deleted as result of its own dependency",
        ),
    ] {
        let why = format!("Job deleted as result of dependency on job {parent}: {how}");
        assert_eq!(ended[id]["comment"], why);
    }
    assert_eq!(
        ended[&both]["depend"]
            .as_str()
            .unwrap()
            .split(',')
            .next()
            .unwrap(),
        format!("afterok:{left}@head:{right}@head")
    );
    assert!(number(&cleaner).parse::<u64>().unwrap() > 8);
}
