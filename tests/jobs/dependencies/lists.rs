//! Commands with several jobs: all of them are changed before dependencies are evaluated.

use super::{head, number, quick};
use crate::support::sandbox::Sandbox;

/// True if a job has ever started.
fn has_started(sandbox: &Sandbox, id: &str) -> bool {
    let job = sandbox.job(id);
    assert!(job.is_object(), "{id} is unknown");
    job["stime"].is_string() || job["run_count"].as_i64().unwrap_or(0) > 0
}

/// Submits a job with this `depend` that creates a file when it runs.
#[track_caller]
fn submit_touch(sandbox: &Sandbox, depend: &str) -> String {
    let depend = format!("depend={depend}");
    sandbox
        .run("qsub", &["-W", &depend, "--", "/usr/bin/touch", "started"])
        .line()
}

#[test]
fn a_job_and_its_dependent_are_deleted_together() {
    let sandbox = head();
    for condition in ["afterany", "afternotok", "afterok"] {
        for is_first in [true, false] {
            let first = quick(&sandbox, &["-h"], 0);
            let dependent = submit_touch(&sandbox, &format!("{condition}:{first}"));
            let list = if is_first {
                [&*first, &*dependent]
            } else {
                [&*dependent, &*first]
            };
            let done = sandbox.run("qdel", &list);
            let shown = format!("{condition}, job first: {is_first}: {done:?}");
            assert!(done.code == 0 && done.err.is_empty(), "{shown}");
            for id in [&first, &dependent] {
                sandbox.ended(id);
                assert!(!has_started(&sandbox, id), "{id} has started: {shown}");
            }
            let trace = sandbox.run("tracejob", &[number(&dependent)]).ok();
            assert!(!trace.contains("ependency"), "{shown}\n{trace}");
        }
    }
    assert!(!sandbox.file("started").exists());
}

#[test]
fn arrays_and_subjobs_are_deleted_together_with_their_dependents() {
    let sandbox = head();
    for range in ["[]", "[0-2]", ""] {
        let array = quick(&sandbox, &["-h", "-J", "0-2"], 0);
        let dependent = submit_touch(&sandbox, &format!("afterany:{array}"));
        let dependents = sandbox.run(
            "qsub",
            &[
                "-J",
                "0-2",
                "-W",
                &format!("depend=afternotok:{array}"),
                "--",
                "/usr/bin/touch",
                "started",
            ],
        );
        let (bare, dependents) = (number(&array).trim_end_matches("[]"), dependents.line());
        let done = sandbox.run(
            "qdel",
            &[&format!("{bare}{range}"), &dependent, &dependents],
        );
        assert!(done.code == 0 && done.err.is_empty(), "{range}: {done:?}");
        for id in [&array, &dependent, &dependents] {
            sandbox.ended(id);
            assert!(!has_started(&sandbox, id), "{id}, {range}");
        }
    }
    assert!(!sandbox.file("started").exists());
}

#[test]
fn operands_of_qdel_fail_separately_and_in_order() {
    let sandbox = head();
    let first = quick(&sandbox, &["-h"], 0);
    let dependent = submit_touch(&sandbox, &format!("afterany:{first}"));
    let array = quick(&sandbox, &["-h", "-J", "0-2"], 0);
    let bare = number(&array).trim_end_matches("[]");
    let done = sandbox.run(
        "qdel",
        &[
            "999",
            &first,
            "x",
            "998.head",
            &format!("{bare}.head"),
            &dependent,
            &first,
        ],
    );
    let expected = format!(
        "qdel: Unknown Job Id 999.head\n\
         qdel: illegally formed job identifier: x\n\
         qdel: Unknown Job Id 998.head\n\
         qdel: Unknown Job Id {bare}.head\n\
         qdel: Job has finished {first}\n"
    );
    assert_eq!((done.code, done.err), (35, expected));
    assert!(!has_started(&sandbox, &dependent));
    let done = sandbox.run("qdel", &["-x", &first, bare, "997"]);
    assert_eq!(
        (done.code, &*done.err),
        (153, "qdel: Unknown Job Id 997.head\n")
    );
    assert!(
        sandbox.job(&first).is_null(),
        "-x removes a finished job from the history"
    );
    sandbox.ended(&array);
}

#[test]
fn jobs_released_by_one_command_compete_in_the_next_cycle() {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = host.split('.').next().unwrap();
    let config = format!("[order]\nby = \"priority\"\n[[node]]\nname = \"{node}\"\nncpus = 1\n");
    let sandbox = Sandbox::configured(&config);
    let [low, high] = ["-5", "5"].map(|priority| {
        let line = format!("echo {priority} >> order");
        sandbox
            .run(
                "qsub",
                &["-h", "-p", priority, "--", "/bin/sh", "-c", &line],
            )
            .line()
    });
    // The node is available once a job has run.
    sandbox.ended(&quick(&sandbox, &[], 0));
    sandbox.run("qrls", &[&low, &high]).ok();
    sandbox.ended(&low);
    sandbox.ended(&high);
    assert_eq!(sandbox.read("order"), "5\n-5\n");
}
