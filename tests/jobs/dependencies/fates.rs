//! The result for dependent jobs, for each way in which the parent ends.

use super::{all_over, head, number, quick, waits};
use crate::support::sandbox::Sandbox;
use serde_json::Value;
use std::collections::BTreeMap;

/// Ways in which a parent ends.
const WAYS: [(&str, [bool; 4]); 9] = [
    // True if a job that depends on it with after, afterok, afternotok or afterany runs.
    ("ends with 0", [true, true, false, true]),
    ("ends with 3", [true, false, true, true]),
    ("is killed by a signal", [true, false, true, true]),
    ("is over its walltime", [true, false, true, true]),
    ("cannot be started", [true, false, true, true]),
    ("is deleted while it runs", [true, false, true, true]),
    ("is deleted before it ran", [false, false, true, true]),
    ("is ended by a dependency", [false, false, true, true]),
    (
        "is put back into the queue, then ends with 0",
        [true, true, false, true],
    ),
];

const KINDS: [&str; 4] = ["", "ok", "notok", "any"];

/// Submits one held job for each way, with these additional options, and last the parent of the
/// eighth job.
fn parents(sandbox: &Sandbox, options: impl Fn(usize) -> Vec<String>) -> Vec<String> {
    let endless =
        "[ -e again.$PBS_JOBID ] && exit 0; : > again.$PBS_JOBID; while :; do sleep 0.05; done\n";
    let fails = quick(sandbox, &["-h", "-N", "fails"], 1);
    let never = format!("depend=afterok:{fails}");
    let ways: [(&[&str], &str); 9] = [
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
    let one = |(way, (own, script)): (usize, &(&[&str], &str))| {
        let more = options(way);
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        sandbox.submit(&[&["-h"], *own, &more].concat(), script)
    };
    let parents: Vec<String> = ways.iter().enumerate().map(one).collect();
    parents.into_iter().chain([fails]).collect()
}

/// Makes each parent end in its way.
fn let_go(sandbox: &Sandbox, parents: &[String]) {
    sandbox.run("qdel", &[&parents[6]]).ok();
    let all: Vec<&str> = [0, 1, 2, 3, 4, 5, 8, 9]
        .iter()
        .map(|&way| parents[way].as_str())
        .collect();
    sandbox.run("qrls", &all).ok();
    for way in [5, 8] {
        sandbox.running(&parents[way]);
        let mark = sandbox.file(&format!("again.{}", parents[way]));
        sandbox.until("its mark", || mark.exists().then_some(()));
    }
    sandbox.run("qdel", &[&parents[5]]).ok();
    sandbox.run("qrerun", &[&parents[8]]).ok();
}

#[track_caller]
fn expect(over: &BTreeMap<String, Value>, parents: &[String], children: &[Vec<String>]) {
    let mut wrong = Vec::new();
    for (way, (said, expected)) in WAYS.iter().enumerate() {
        for (kind, &runs) in expected.iter().enumerate() {
            let job = &over[&children[way][kind]];
            let ran = job["run_count"] == 1 && job["Exit_status"] == 0;
            let comment = job["comment"].as_str().unwrap_or_default();
            let start = format!(
                "Job deleted as result of dependency on job {}: after{}, but it ",
                parents[way], KINDS[kind]
            );
            let ended =
                job["Exit_status"] == 271 && job["substate"] == 92 && job["run_count"].is_null();
            let told = comment.starts_with(&start)
                && job["depend"].as_str().unwrap_or("").contains("after");
            let as_expected = if runs { ran } else { ended && told };
            if !as_expected {
                wrong.push(format!("after{} of a job that {said}: {job}", KINDS[kind]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn dependent_jobs_follow_the_table() {
    let sandbox = head();
    let parents = parents(&sandbox, |_| Vec::new());
    let children: Vec<Vec<String>> = parents[..WAYS.len()]
        .iter()
        .map(|parent| {
            KINDS
                .iter()
                .map(|kind| waits(&sandbox, &format!("after{kind}:{parent}")))
                .collect()
        })
        .collect();
    let_go(&sandbox, &parents);
    expect(&all_over(&sandbox), &parents, &children);
}

#[test]
fn jobs_with_before_dependencies_follow_the_same_table() {
    let sandbox = head();
    let children: Vec<Vec<String>> = WAYS
        .iter()
        .map(|_| KINDS.iter().map(|_| waits(&sandbox, "on:1")).collect())
        .collect();
    let names = |way: usize| {
        let clauses = KINDS
            .iter()
            .zip(&children[way])
            .map(|(kind, child)| format!("before{kind}:{child}"));
        vec![
            "-W".to_string(),
            format!("depend={}", clauses.collect::<Vec<_>>().join(",")),
        ]
    };
    let parents = parents(&sandbox, names);
    sandbox.kill("schedd");
    let_go(&sandbox, &parents);
    expect(&all_over(&sandbox), &parents, &children);
}

#[test]
fn a_failure_falls_through_chains_and_diamonds_as_far_as_it_must() {
    let sandbox = head();
    let top = quick(&sandbox, &["-h"], 3);
    let left = waits(&sandbox, &format!("afterok:{top}"));
    let right = waits(&sandbox, &format!("afternotok:{top}"));
    let both = waits(&sandbox, &format!("afterok:{left}:{right}"));
    let either = waits(&sandbox, &format!("afterany:{left}:{right}"));
    let unless = waits(&sandbox, &format!("afternotok:{left},afterok:{right}"));
    let below = waits(&sandbox, &format!("afterok:{both}"));
    let begun = waits(&sandbox, &format!("after:{both}"));
    let cleaner = waits(&sandbox, &format!("afternotok:{below},afterany:{begun}"));
    sandbox.run("qrls", &[&top]).ok();
    let over = all_over(&sandbox);
    for id in [&right, &either, &unless, &cleaner] {
        assert_eq!(
            (&over[id]["run_count"], &over[id]["Exit_status"]),
            (&1.into(), &0.into()),
            "{}",
            over[id]
        );
    }
    for (id, parent, how) in [
        (&left, &top, "afterok, but it ended with status 3"),
        (&both, &left, "afterok, but its own dependency ended it"),
        (&below, &both, "afterok, but its own dependency ended it"),
        (&begun, &both, "after, but its own dependency ended it"),
    ] {
        let why = format!("Job deleted as result of dependency on job {parent}: {how}");
        assert_eq!(over[id]["comment"], why);
    }
    assert_eq!(
        over[&both]["depend"]
            .as_str()
            .unwrap()
            .split(',')
            .next()
            .unwrap(),
        format!("afterok:{left}@head:{right}@head")
    );
    assert!(number(&cleaner).parse::<u64>().unwrap() > 8);
}
