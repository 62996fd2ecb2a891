//! Arrays as parents and as dependents: one dependency edge, whatever their size.

use super::{assert_refused, dependent, expected_status, head, job_status, jobs, number, quick};
use crate::support::sandbox::Sandbox;
use serde_json::Value;
use std::collections::BTreeMap;

/// Submits an array. Subjob `index` exits with status `index % 2` if `odd_fail`, otherwise with 0.
fn array(sandbox: &Sandbox, options: &[&str], indices: &str, odd_fail: bool) -> String {
    let script = if odd_fail {
        "exit $((PBS_ARRAY_INDEX % 2))"
    } else {
        "exit 0"
    };
    sandbox
        .run(
            "qsub",
            &[options, &["-J", indices, "--", "/bin/sh", "-c", script]].concat(),
        )
        .line()
}

fn outcomes(sandbox: &Sandbox, ids: &[(&str, String)]) -> BTreeMap<String, String> {
    sandbox.until("the end of all jobs", || {
        sandbox.run("qselect", &[]).ok().is_empty().then_some(())
    });
    let known = jobs(sandbox);
    let outcome = |job: &Value| format!("{} {}", job["substate"], job["Exit_status"]);
    ids.iter()
        .map(|(name, id)| (name.to_string(), outcome(&known[id])))
        .collect()
}

const CONDITIONS: [&str; 4] = ["after", "afterok", "afternotok", "afterany"];

#[test]
fn an_array_succeeds_only_if_all_subjobs_succeed() {
    let sandbox = head();
    for (odd_fail, expected) in [
        (false, ["92 0", "92 0", "92 271", "92 0"]),
        (true, ["92 0", "92 271", "92 0", "92 0"]),
    ] {
        let parent = array(&sandbox, &["-h"], "1-4", odd_fail);
        let ids: Vec<(&str, String)> = CONDITIONS
            .iter()
            .map(|kind| (*kind, dependent(&sandbox, &format!("{kind}:{parent}"))))
            .collect();
        assert_eq!(
            job_status(&sandbox, &ids[1].1),
            expected_status("H", "s", 22, &format!("afterok:{parent}@head"))
        );
        sandbox.run("qrls", &[&parent]).ok();
        let expected = CONDITIONS
            .iter()
            .zip(expected)
            .map(|(kind, outcome)| (kind.to_string(), outcome.to_string()));
        assert_eq!(
            outcomes(&sandbox, &ids),
            expected.collect(),
            "odd subjobs fail: {odd_fail}"
        );
        let late = dependent(&sandbox, &format!("afterany:{parent}"));
        assert_eq!(
            sandbox.ended(&late)["Exit_status"],
            0,
            "the array in the history satisfies it"
        );
    }
}

#[test]
fn an_array_deleted_before_its_start_counts_as_failed() {
    let sandbox = head();
    let parent = array(&sandbox, &["-h"], "0-999999", false);
    let ids: Vec<(&str, String)> = CONDITIONS
        .iter()
        .map(|kind| (*kind, dependent(&sandbox, &format!("{kind}:{parent}"))))
        .collect();
    sandbox.run("qdel", &[&parent]).ok();
    let expected = CONDITIONS.iter().zip(["92 271", "92 271", "92 0", "92 0"]);
    assert_eq!(
        outcomes(&sandbox, &ids),
        expected
            .map(|(kind, outcome)| (kind.to_string(), outcome.to_string()))
            .collect()
    );
}

#[test]
fn an_array_waits_as_a_single_job() {
    let sandbox = head();
    let first = quick(&sandbox, &["-h"], 0);
    let child = array(
        &sandbox,
        &["-W", &format!("depend=afterok:{first}")],
        "0-99",
        false,
    );
    assert_eq!(
        job_status(&sandbox, &child),
        expected_status("H", "s", 22, &format!("afterok:{first}@head"))
    );
    assert!(
        sandbox.job(&first)["depend"]
            .as_str()
            .unwrap()
            .contains(&format!("beforeok:{child}@head"))
    );
    let last = dependent(&sandbox, &format!("afterok:{child}"));
    sandbox.kill("schedd");
    sandbox.run("qrls", &[&first]).ok();
    assert_eq!(sandbox.ended(&last)["Exit_status"], 0);
    assert_eq!(sandbox.job(&child)["Exit_status"], 0);
    let deleted = quick(&sandbox, &["-h"], 0);
    let child = array(
        &sandbox,
        &["-W", &format!("depend=afterok:{deleted}")],
        "0-999999",
        false,
    );
    sandbox.run("qdel", &[&deleted]).ok();
    assert_eq!(
        outcomes(&sandbox, &[("child", child)]),
        BTreeMap::from([("child".into(), "92 271".into())])
    );
}

#[test]
fn dependencies_name_an_array_with_brackets_and_without_indices() {
    let sandbox = head();
    let parent = array(&sandbox, &["-h"], "1-4", false);
    let plain = number(&parent).trim_end_matches("[]").to_string();
    assert_refused(
        &sandbox,
        &format!("afterok:{plain}"),
        153,
        "qsub: Unknown Job Id",
    );
    for part in ["1", "1-2"] {
        assert_refused(
            &sandbox,
            &format!("afterok:{plain}[{part}]"),
            2,
            "qsub: illegal -W value",
        );
    }
}
