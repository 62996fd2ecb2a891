//! Arrays combined with holds, reruns, dependencies and alterations.

use super::{RECORD, WAIT, assert_result, counts, head, listed, recorded, sorted, touch};
use serde_json::json;

/// Script that waits for the file `fail` and then fails.
const FAIL: &str = "while [ ! -e fail ]; do sleep 0.02; done\nexit 3\n";

#[test]
fn a_hold_on_an_array_holds_its_requeued_subjobs() {
    let sandbox = head(4);
    let id = sandbox.submit(&["-J", "1-2"], &format!("{RECORD}{WAIT}"));
    sandbox.until("two running subjobs", || {
        (recorded(&sandbox).len() == 2).then_some(())
    });
    sandbox.running("1[1].head");
    assert_result(&sandbox.run("qhold", &[&id]), 0, "", "");
    assert_result(&sandbox.run("qrerun", &["1[1]"]), 0, "", "");
    sandbox.until("the held subjob", || {
        (sandbox.state("1[1].head") == "H").then_some(())
    });
    assert_eq!(sandbox.state("1[2].head"), "R");
    assert_result(&sandbox.run("qalter", &["-h", "n", &id]), 0, "", "");
    sandbox.until("the second start", || {
        (sandbox.state("1[1].head") == "R").then_some(())
    });
    touch(&sandbox, "go");
    sandbox.ended(&id);
    assert_eq!(sorted(&sandbox), [(1, 1), (1, 2), (2, 1)]);
}

#[test]
fn a_failed_dependency_ends_only_the_queued_subjobs_of_an_array() {
    let sandbox = head(2);
    let first = sandbox.submit(&[], FAIL);
    let array = sandbox.submit(&["-J", "1-4"], WAIT);
    sandbox.running("2[1].head");
    assert_result(
        &sandbox.run(
            "qalter",
            &["-W", &format!("depend=afterok:{first}"), &array],
        ),
        0,
        "",
        "",
    );
    let not_started = sandbox.submit(
        &["-J", "1-4", "-W", &format!("depend=afterok:{first}")],
        WAIT,
    );
    let after = sandbox
        .run_with_input(
            "qsub",
            &["-W", &format!("depend=afternotok:{array}")],
            "true\n",
        )
        .line();
    touch(&sandbox, "fail");
    let deleted = sandbox.ended(&not_started);
    assert_eq!(
        (counts(&deleted), &deleted["substate"]),
        ("Queued:0 Running:0 Exiting:0 Expired:4", &json!(92))
    );
    let running = sandbox.job(&array);
    assert_eq!(
        (counts(&running), sandbox.state("2[1].head").as_str()),
        ("Queued:0 Running:1 Exiting:0 Expired:3", "R")
    );
    assert_eq!(sandbox.state(&after), "H", "the array has not finished");
    touch(&sandbox, "go");
    let finished = sandbox.ended(&array);
    assert_eq!(
        (counts(&finished), &finished["Exit_status"]),
        ("Queued:0 Running:0 Exiting:0 Expired:4", &json!(1))
    );
    assert_eq!(sandbox.job("2[1].head")["Exit_status"], 0);
    assert_eq!(sandbox.ended(&after)["Exit_status"], 0);
}

#[test]
fn a_rerun_subjob_has_the_altered_attributes_of_its_array() {
    let sandbox = head(2);
    let id = sandbox.submit(
        &["-J", "1-2", "-l", "walltime=100"],
        &format!("{RECORD}{FAIL}"),
    );
    sandbox.running("1[1].head");
    assert_result(
        &sandbox.run("qalter", &["-l", "walltime=200", &id]),
        0,
        "",
        "",
    );
    let walltime = |id: &str| sandbox.job(id)["Resource_List"]["walltime"].clone();
    assert_eq!(
        walltime("1[1].head"),
        "00:01:40",
        "a running subjob keeps its walltime"
    );
    touch(&sandbox, "fail");
    sandbox.ended(&id);
    std::fs::remove_file(sandbox.file("fail")).unwrap();
    assert_result(&sandbox.run("qrerun", &["--failed", &id]), 0, "", "");
    sandbox.running("1[1].head");
    assert_eq!(walltime("1[1].head"), "00:03:20");
    touch(&sandbox, "fail");
    sandbox.ended(&id);
    let reason = format!("afterok:{id}, but it ended with status 1");
    let refused =
        sandbox.run_with_input("qsub", &["-W", &format!("depend=afterok:{id}")], "true\n");
    assert!(refused.err.contains(&reason), "{refused:?}");
}

#[test]
fn a_subjob_started_by_qrun_begins_its_held_array() {
    let sandbox = head(4);
    let parent = sandbox.submit(&["-h"], "true\n");
    let depend = format!("depend=afterok:{parent}");
    let id = sandbox.submit(&["-J", "1-3", "-W", &depend], &format!("{RECORD}{WAIT}"));
    let after = sandbox
        .run_with_input("qsub", &["-W", &format!("depend=after:{id}")], "true\n")
        .line();
    assert_result(&sandbox.run("qrun", &["2[2]"]), 0, "", "");
    assert_eq!(
        sandbox.ended(&after)["Exit_status"],
        0,
        "the array has started"
    );
    assert_eq!(
        listed(&sandbox, &["-t", &id]),
        "2[] H, 2[1] H, 2[2] R, 2[3] H"
    );
    let trace = sandbox.run("tracejob", &["2[2]"]).ok();
    assert!(trace.contains("run immediately at request of"), "{trace}");
    let other = sandbox.submit(&["-h"], "true\n");
    for (program, arguments) in [
        ("qmove", vec!["workq", &id]),
        ("qorder", vec![id.as_str(), &other]),
    ] {
        assert_eq!(
            sandbox.run(program, &arguments).code,
            168,
            "{program}: a subjob has started"
        );
    }
    assert_result(&sandbox.run("qrerun", &["2[2]"]), 0, "", "");
    sandbox.until("the second start", || {
        (recorded(&sandbox).len() == 2).then_some(())
    });
    assert_result(&sandbox.run("qdel", &[&id]), 0, "", "");
    sandbox.ended(&id);
    let refused =
        sandbox.run_with_input("qsub", &["-W", &format!("depend=afterok:{id}")], "true\n");
    assert!(
        refused.err.contains("but it was deleted") && !refused.err.contains("before it ran"),
        "{refused:?}"
    );
}
