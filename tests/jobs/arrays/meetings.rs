//! Arrays combined with holds, reruns, dependencies and alterations.

use super::{NOTE, WAIT, counts, head, listed, noted, says, sorted, touch};
use serde_json::json;

/// Script that waits for the file `fail` and then fails.
const FAIL: &str = "while [ ! -e fail ]; do sleep 0.02; done\nexit 3\n";

#[test]
fn a_hold_on_an_array_holds_its_requeued_subjobs() {
    let sandbox = head(4);
    let id = sandbox.submit(&["-J", "1-2"], &format!("{NOTE}{WAIT}"));
    sandbox.until("both elements at work", || {
        (noted(&sandbox).len() == 2).then_some(())
    });
    sandbox.running("1[1].head");
    says(&sandbox.run("qhold", &[&id]), 0, "", "");
    says(&sandbox.run("qrerun", &["1[1]"]), 0, "", "");
    sandbox.until("the element held", || {
        (sandbox.state("1[1].head") == "H").then_some(())
    });
    assert_eq!(sandbox.state("1[2].head"), "R");
    says(&sandbox.run("qalter", &["-h", "n", &id]), 0, "", "");
    sandbox.until("the second start", || {
        (sandbox.state("1[1].head") == "R").then_some(())
    });
    touch(&sandbox, "go");
    sandbox.ended(&id);
    assert_eq!(sorted(&sandbox), [(1, 1), (1, 2), (2, 1)]);
}

#[test]
fn an_array_with_a_failed_dependency_loses_queued_subjobs_and_keeps_running_ones() {
    let sandbox = head(2);
    let first = sandbox.submit(&[], FAIL);
    let array = sandbox.submit(&["-J", "1-4"], WAIT);
    sandbox.running("2[1].head");
    says(
        &sandbox.run(
            "qalter",
            &["-W", &format!("depend=afterok:{first}"), &array],
        ),
        0,
        "",
        "",
    );
    let unbegun = sandbox.submit(
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
    let never = sandbox.ended(&unbegun);
    assert_eq!(
        (counts(&never), &never["substate"]),
        ("Queued:0 Running:0 Exiting:0 Expired:4", &json!(92))
    );
    let still = sandbox.job(&array);
    assert_eq!(
        (counts(&still), sandbox.state("2[1].head").as_str()),
        ("Queued:0 Running:1 Exiting:0 Expired:3", "R")
    );
    assert_eq!(sandbox.state(&after), "H", "it is not over");
    touch(&sandbox, "go");
    let over = sandbox.ended(&array);
    assert_eq!(
        (counts(&over), &over["Exit_status"]),
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
        &format!("{NOTE}{FAIL}"),
    );
    sandbox.running("1[1].head");
    says(
        &sandbox.run("qalter", &["-l", "walltime=200", &id]),
        0,
        "",
        "",
    );
    let walltime = |id: &str| sandbox.job(id)["Resource_List"]["walltime"].clone();
    assert_eq!(
        walltime("1[1].head"),
        "00:01:40",
        "what has begun keeps what it began with"
    );
    touch(&sandbox, "fail");
    sandbox.ended(&id);
    std::fs::remove_file(sandbox.file("fail")).unwrap();
    says(&sandbox.run("qrerun", &["--failed", &id]), 0, "", "");
    sandbox.running("1[1].head");
    assert_eq!(walltime("1[1].head"), "00:03:20");
    touch(&sandbox, "fail");
    sandbox.ended(&id);
    let gone = format!("afterok:{id}, but it ended with status 1");
    let refused =
        sandbox.run_with_input("qsub", &["-W", &format!("depend=afterok:{id}")], "true\n");
    assert!(refused.err.contains(&gone), "{refused:?}");
}

#[test]
fn a_subjob_started_by_qrun_begins_its_held_array() {
    let sandbox = head(4);
    let parent = sandbox.submit(&["-h"], "true\n");
    let bound = format!("depend=afterok:{parent}");
    let id = sandbox.submit(&["-J", "1-3", "-W", &bound], &format!("{NOTE}{WAIT}"));
    let after = sandbox
        .run_with_input("qsub", &["-W", &format!("depend=after:{id}")], "true\n")
        .line();
    says(&sandbox.run("qrun", &["2[2]"]), 0, "", "");
    assert_eq!(
        sandbox.ended(&after)["Exit_status"],
        0,
        "the array has begun"
    );
    assert_eq!(
        listed(&sandbox, &["-t", &id]),
        "2[] H, 2[1] H, 2[2] R, 2[3] H"
    );
    let told = sandbox.run("tracejob", &["2[2]"]).ok();
    assert!(told.contains("run immediately at request of"), "{told}");
    let other = sandbox.submit(&["-h"], "true\n");
    for (program, arguments) in [
        ("qmove", vec!["workq", &id]),
        ("qorder", vec![id.as_str(), &other]),
    ] {
        assert_eq!(
            sandbox.run(program, &arguments).code,
            168,
            "{program}: elements have begun"
        );
    }
    says(&sandbox.run("qrerun", &["2[2]"]), 0, "", "");
    sandbox.until("its second start", || {
        (noted(&sandbox).len() == 2).then_some(())
    });
    says(&sandbox.run("qdel", &[&id]), 0, "", "");
    sandbox.ended(&id);
    let refused =
        sandbox.run_with_input("qsub", &["-W", &format!("depend=afterok:{id}")], "true\n");
    assert!(
        refused.err.contains("but it was deleted") && !refused.err.contains("before it ran"),
        "{refused:?}"
    );
}
