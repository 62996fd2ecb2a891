//! `qterm` stops schedd: running jobs continue, are requeued, or delay the stop.

use crate::support::people::two_users;
use crate::support::sandbox::{Sandbox, refused_exactly};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// A job that records its start, waits for the file `end` and exits with status 7.
const UNTIL_TOLD: &str = "echo >> began; while [ ! -e end ]; do sleep 0.05; done; exit 7\n";

fn began(sandbox: &Sandbox) -> usize {
    fs::read_to_string(sandbox.file("began"))
        .unwrap_or_default()
        .lines()
        .count()
}

/// Two running jobs: the first may be rerun, the second may not.
fn two_jobs() -> (Sandbox, [String; 2]) {
    let host = lanai::sys::sensors::short_host_name();
    let node = format!("[[node]]\nname = \"{host}\"\nncpus = 2\n");
    let sandbox = Sandbox::configured(&format!(
        "[server]\nname = \"head\"\n[launch]\ngrace = \"1s\"\n{node}"
    ));
    let ids = ["y", "n"]
        .map(|again| sandbox.submit(&["-r", again, "-o", "out", "-e", "err"], UNTIL_TOLD));
    ids.iter().for_each(|id| drop(sandbox.running(id)));
    sandbox.until("both to begin", || (began(&sandbox) == 2).then_some(()));
    (sandbox, ids)
}

#[test]
fn quickly_schedd_leaves_and_all_jobs_go_on() {
    let (sandbox, ids) = two_jobs();
    let sessions = ids
        .each_ref()
        .map(|id| sandbox.job(id)["session_id"].clone());
    assert_eq!(sandbox.run("qterm", &["head"]).ok(), "");
    sandbox.until("schedd to be gone", || {
        sandbox.pid_of("schedd").is_none().then_some(())
    });
    assert_eq!(sandbox.pids_of("lanai-shepherd").len(), 2);
    sandbox.run("schedd", &[]).ok();
    assert_eq!(
        ids.each_ref()
            .map(|id| sandbox.running(id)["session_id"].clone()),
        sessions
    );
    fs::write(sandbox.file("end"), "").unwrap();
    ids.iter()
        .for_each(|id| assert_eq!(sandbox.ended(id)["Exit_status"], 7));
    assert_eq!(began(&sandbox), 2, "none began twice");
}

#[test]
fn immediately_jobs_are_put_back_and_those_that_cannot_be_are_deleted() {
    let (sandbox, [again, once]) = two_jobs();
    sandbox.run("qterm", &["-t", "immediate", "-m", "-s"]).ok();
    sandbox.until("schedd to be gone", || {
        sandbox.pid_of("schedd").is_none().then_some(())
    });
    fs::write(sandbox.file("end"), "").unwrap();
    sandbox.run("schedd", &[]).ok();
    assert_eq!(sandbox.ended(&once)["Exit_status"], 271);
    let job = sandbox.ended(&again);
    assert_eq!(
        (job["Exit_status"].as_i64(), job["run_count"].as_i64()),
        (Some(7), Some(2))
    );
}

#[test]
fn with_delay_schedd_waits_for_non_rerunnable_jobs_and_starts_none() {
    let (sandbox, [again, once]) = two_jobs();
    sandbox.run("qterm", &["-t", "delay"]).ok();
    sandbox.until("the first to be put back", || {
        (sandbox.state(&again) == "Q").then_some(())
    });
    let late = sandbox.run_with_input("qsub", &[], "true\n");
    refused_exactly(late, 212, "qsub: Request not allowed: Server shutting down");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(
        (
            sandbox.state(&again).as_str(),
            sandbox.state(&once).as_str()
        ),
        ("Q", "R")
    );
    fs::write(sandbox.file("end"), "").unwrap();
    sandbox.until("schedd to leave", || {
        sandbox.pid_of("schedd").is_none().then_some(())
    });
    assert_eq!(sandbox.job(&once)["Exit_status"], 7);
    assert_eq!(sandbox.state(&again), "Q");
    sandbox.run("schedd", &[]).ok();
    assert_eq!(sandbox.ended(&again)["Exit_status"], 7);
}

#[test]
fn what_is_not_running_is_not_started_to_be_ended_and_wrong_words_end_nothing() {
    let sandbox = Sandbox::new();
    let done = sandbox.run("qterm", &[]);
    assert_eq!((done.code, done.out.as_str()), (2, ""));
    assert!(
        done.err
            .ends_with("\nqterm: could not connect to server  (15010)\n"),
        "{done:?}"
    );
    sandbox.run("schedd", &[]).ok();
    let schedd = sandbox.pid_of("schedd");
    for wrong in [&["-y"][..], &["-t", "slowly"], &["-f", "-i"]] {
        let done = sandbox.run("qterm", wrong);
        assert_eq!((done.code, done.out.as_str()), (1, ""), "{done:?}");
        assert!(done.err.ends_with("       qterm --version\n"), "{done:?}");
    }
    assert_eq!(sandbox.run("qterm", &["nosuch"]).code, 2);
    assert_eq!(sandbox.run("qterm", &["-i"]).code, 0);
    assert_eq!(sandbox.pid_of("schedd"), schedd);
}

#[test]
fn only_operators_end_the_server() {
    let Some([ann, _]) = two_users("term") else {
        return;
    };
    let sandbox = Sandbox::configured("[server]\nname = \"head\"\nshared = true\n");
    for folder in [sandbox.home().parent().unwrap(), &sandbox.home()] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    sandbox.run("schedd", &[]).ok();
    refused_exactly(
        ann.run(&sandbox, "qterm", &[]),
        2,
        "qterm: Unauthorized Request  ",
    );
    assert!(sandbox.pid_of("schedd").is_some());
}
