//! `lanai cancel`, `hold`, `release` and `retry`.

use crate::support::sandbox::{Sandbox, number};
use crate::support::terminal::Terminal;
use serde_json::Value;

/// An installation with a queue that starts no jobs.
fn stopped() -> Sandbox {
    Sandbox::configured("[server]\nname = \"head\"\n[[queue]]\nname = \"workq\"\nstarted = false\n")
}

fn states(sandbox: &Sandbox, ids: &[&String]) -> String {
    ids.iter().map(|id| sandbox.state(id)).collect()
}

#[test]
fn jobs_are_canceled_by_a_filter_after_a_preview() {
    let sandbox = stopped();
    let [one, two, other] =
        ["sim-1", "sim-2", "other"].map(|name| sandbox.submit(&["-N", name], "true\n"));
    let all = [&one, &two, &other];
    let dry = sandbox
        .run("lanai", &["cancel", "--name", "sim*", "--dry-run"])
        .ok();
    assert!(dry.contains("sim-1") && !dry.contains("other"), "{dry}");
    assert!(
        dry.ends_with("2 jobs\nDry run: no job was changed.\n"),
        "{dry}"
    );
    assert_eq!(states(&sandbox, &all), "QQQ");
    let done = sandbox.run("lanai", &["cancel", "--name", "sim*"]).ok();
    assert!(done.ends_with("2 jobs\nCanceled 2 jobs.\n"), "{done}");
    assert_eq!(states(&sandbox, &all), "FFQ");
    let done = sandbox.run("lanai", &["cancel", "--json", number(&other), number(&one)]);
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(
        done.err,
        format!("lanai: {}: the job has finished\n", number(&one))
    );
    let document: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(document["kind"], "action");
    assert_eq!(document["action"], "cancel");
    assert_eq!(document["jobs"][0]["id"], Value::from(other.as_str()));
    assert_eq!(document["jobs"][0]["done"], true);
    assert_eq!(document["jobs"][0]["error"], Value::Null);
    assert_eq!(document["jobs"].as_array().unwrap().len(), 1);
}

#[test]
fn a_selection_is_required_and_must_match() {
    let sandbox = stopped();
    let id = sandbox.submit(&[], "true\n");
    for name in ["cancel", "hold", "release", "retry"] {
        let done = sandbox.run("lanai", &[name]);
        assert_eq!(done.code, 2, "{done:?}");
        let example = format!("\n  lanai {name} 12\n");
        assert!(done.err.contains(&example), "{done:?}");
    }
    let done = sandbox.run("lanai", &["cancel", "name=nosuch"]);
    assert_eq!(done.code, 1);
    assert_eq!(
        done.err,
        "lanai: no job to cancel matches name=nosuch state=unfinished user=me\n"
    );
    let done = sandbox.run("lanai", &["cancel", "99"]);
    assert_eq!(done.code, 1);
    assert!(
        done.err.starts_with("lanai: Unknown Job Id 99.head"),
        "{done:?}"
    );
    assert_eq!(sandbox.state(&id), "Q");
}

#[test]
fn a_change_of_many_jobs_is_confirmed_on_a_terminal() {
    let sandbox = stopped();
    let ids: Vec<String> = (0..11).map(|_| sandbox.submit(&[], "true\n")).collect();
    let ids: Vec<&String> = ids.iter().collect();
    let mut person = Terminal::runs(&sandbox, "lanai", &["cancel", "--mine"]);
    person.expect_text("... and 1 more");
    person.expect_text("Cancel 11 jobs? [y/N] ");
    person.type_keys("n\r");
    person.expect_text("No job was changed.");
    assert_eq!(person.wait_for_exit(), 1);
    assert_eq!(states(&sandbox, &ids), "Q".repeat(11));
    let mut person = Terminal::runs(&sandbox, "lanai", &["hold", "--mine", "--yes"]);
    person.expect_text("Held 11 jobs.");
    assert_eq!(person.wait_for_exit(), 0);
    assert_eq!(states(&sandbox, &ids), "H".repeat(11));
    let mut person = Terminal::runs(&sandbox, "lanai", &["cancel", "--state", "held"]);
    person.expect_text("Cancel 11 jobs? [y/N] ");
    person.type_keys("y\r");
    person.expect_text("Canceled 11 jobs. To revert: lanai undo");
    assert_eq!(person.wait_for_exit(), 0);
    assert_eq!(states(&sandbox, &ids), "F".repeat(11));
}

#[test]
fn only_user_holds_are_released() {
    let sandbox = stopped();
    let held = sandbox.submit(&["-h"], "true\n");
    let queued = sandbox.submit(&[], "true\n");
    let all = [&held, &queued];
    let done = sandbox.run("lanai", &["hold", "--mine"]).ok();
    assert!(done.ends_with("Held 1 job.\n"), "{done}");
    assert_eq!(states(&sandbox, &all), "HH");
    sandbox.run("qhold", &["-h", "o", &queued]).ok();
    sandbox.run("qrls", &[&queued]).ok();
    let done = sandbox.run("lanai", &["release", &held, &queued]);
    assert_eq!(done.code, 1);
    let error = format!(
        "lanai: {}: the job has no user hold; its holds are o\n",
        number(&queued)
    );
    assert_eq!(done.err, error);
    assert!(done.out.ends_with("Released 1 job.\n"), "{done:?}");
    assert_eq!(states(&sandbox, &all), "QH");
}

#[test]
fn failed_jobs_run_again_with_other_resources() {
    let sandbox = Sandbox::new();
    let failed = sandbox.submit(&["-l", "walltime=1:00:00"], "exit 3\n");
    let fine = sandbox.submit(&[], "true\n");
    sandbox.ended(&failed);
    sandbox.ended(&fine);
    let wrong = sandbox.run("lanai", &["retry", "--failed", "-l", "nosuch=1"]);
    assert_eq!(wrong.code, 1, "{wrong:?}");
    assert!(wrong.err.contains("nosuch"), "{wrong:?}");
    assert_eq!(sandbox.job(&failed)["run_count"], 1);
    let words = ["retry", "--failed", "-l", "walltime=2:00:00"];
    let done = sandbox.run("lanai", &words).ok();
    assert!(done.ends_with("1 job\nRetried 1 job.\n"), "{done}");
    sandbox.until("the second end", || {
        let job = sandbox.job(&failed);
        (job["run_count"] == 2 && job["job_state"] == "F").then_some(())
    });
    let job = sandbox.job(&failed);
    assert_eq!(job["Resource_List"]["walltime"], "02:00:00", "{job}");
    assert_eq!(job["Exit_status"], 3);
    let done = sandbox.run("lanai", &["retry", &fine]);
    let error = format!(
        "lanai: {}: the job ended with exit status 0\n",
        number(&fine)
    );
    assert_eq!((done.code, done.err), (1, error));
    let trace = sandbox.run("tracejob", &[number(&failed)]).ok();
    assert!(trace.contains("Resource_List"), "{trace}");
}

#[test]
fn failed_subjobs_of_an_unfinished_array_run_again() {
    let sandbox = Sandbox::new();
    let script = "test $PBS_ARRAY_INDEX = 1 && exit 3\nsleep 60\n";
    let id = sandbox.submit(&["-J", "1-2"], script);
    let failures = || {
        let document = sandbox.run("lanai", &["list", "--json", &id]).ok();
        let document: Value = serde_json::from_str(&document).unwrap();
        document["jobs"][0]["array"]["failed"].as_u64().unwrap()
    };
    sandbox.until("the failure", || (failures() == 1).then_some(()));
    let first = id.replace("[]", "[1]");
    let done = sandbox.run("lanai", &["retry", &id, "-l", "walltime=1:00"]);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("unfinished subjobs"), "{done:?}");
    sandbox.run("lanai", &["retry", "--failed"]).ok();
    sandbox.until("the second end", || {
        let job = sandbox.job(&first);
        (job["run_count"] == 2 && failures() == 1).then_some(())
    });
    sandbox.run("lanai", &["cancel", &id]).ok();
}
