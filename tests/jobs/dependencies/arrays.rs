//! Arrays as parents and as dependents: one dependency edge, whatever their size.

use super::{head, jobs, number, quick, refuses, stands, state_and_status, waits};
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

fn fates(sandbox: &Sandbox, ids: &[(&str, String)]) -> BTreeMap<String, String> {
    sandbox.until("the end of all jobs", || {
        sandbox.run("qselect", &[]).ok().is_empty().then_some(())
    });
    let known = jobs(sandbox);
    let fate = |job: &Value| format!("{} {}", job["substate"], job["Exit_status"]);
    ids.iter()
        .map(|(name, id)| (name.to_string(), fate(&known[id])))
        .collect()
}

const CONDITIONS: [&str; 4] = ["after", "afterok", "afternotok", "afterany"];

#[test]
fn an_array_is_ok_only_if_all_subjobs_are() {
    let sandbox = head();
    for (odd_fail, expected) in [
        (false, ["92 0", "92 0", "92 271", "92 0"]),
        (true, ["92 0", "92 271", "92 0", "92 0"]),
    ] {
        let parent = array(&sandbox, &["-h"], "1-4", odd_fail);
        let ids: Vec<(&str, String)> = CONDITIONS
            .iter()
            .map(|kind| (*kind, waits(&sandbox, &format!("{kind}:{parent}"))))
            .collect();
        assert_eq!(
            state_and_status(&sandbox, &ids[1].1),
            stands("H", "s", 22, &format!("afterok:{parent}@head"))
        );
        sandbox.run("qrls", &[&parent]).ok();
        let expected = CONDITIONS
            .iter()
            .zip(expected)
            .map(|(kind, fate)| (kind.to_string(), fate.to_string()));
        assert_eq!(
            fates(&sandbox, &ids),
            expected.collect(),
            "odd elements fail: {odd_fail}"
        );
        let late = waits(&sandbox, &format!("afterany:{parent}"));
        assert_eq!(sandbox.ended(&late)["Exit_status"], 0, "from the history");
    }
}

#[test]
fn an_array_that_is_deleted_before_it_began_is_not_ok() {
    let sandbox = head();
    let parent = array(&sandbox, &["-h"], "0-999999", false);
    let ids: Vec<(&str, String)> = CONDITIONS
        .iter()
        .map(|kind| (*kind, waits(&sandbox, &format!("{kind}:{parent}"))))
        .collect();
    sandbox.run("qdel", &[&parent]).ok();
    let expected = CONDITIONS.iter().zip(["92 271", "92 271", "92 0", "92 0"]);
    assert_eq!(
        fates(&sandbox, &ids),
        expected
            .map(|(kind, fate)| (kind.to_string(), fate.to_string()))
            .collect()
    );
}

#[test]
fn an_array_waits_as_one() {
    let sandbox = head();
    let first = quick(&sandbox, &["-h"], 0);
    let child = array(
        &sandbox,
        &["-W", &format!("depend=afterok:{first}")],
        "0-99",
        false,
    );
    assert_eq!(
        state_and_status(&sandbox, &child),
        stands("H", "s", 22, &format!("afterok:{first}@head"))
    );
    assert!(
        sandbox.job(&first)["depend"]
            .as_str()
            .unwrap()
            .contains(&format!("beforeok:{child}@head"))
    );
    let last = waits(&sandbox, &format!("afterok:{child}"));
    sandbox.kill("schedd");
    sandbox.run("qrls", &[&first]).ok();
    assert_eq!(sandbox.ended(&last)["Exit_status"], 0);
    assert_eq!(sandbox.job(&child)["Exit_status"], 0);
    let broken = quick(&sandbox, &["-h"], 0);
    let child = array(
        &sandbox,
        &["-W", &format!("depend=afterok:{broken}")],
        "0-999999",
        false,
    );
    sandbox.run("qdel", &[&broken]).ok();
    assert_eq!(
        fates(&sandbox, &[("child", child)]),
        BTreeMap::from([("child".into(), "92 271".into())])
    );
}

#[test]
fn an_array_is_named_with_its_brackets_and_never_in_part() {
    let sandbox = head();
    let parent = array(&sandbox, &["-h"], "1-4", false);
    let plain = number(&parent).trim_end_matches("[]").to_string();
    refuses(
        &sandbox,
        &format!("afterok:{plain}"),
        153,
        "qsub: Unknown Job Id",
    );
    for part in ["1", "1-2"] {
        refuses(
            &sandbox,
            &format!("afterok:{plain}[{part}]"),
            2,
            "qsub: illegal -W value",
        );
    }
}
