//! `qterm` stops schedd: running jobs continue, are requeued, or delay the stop.

use crate::support::people::two_users;
use crate::support::sandbox::{Sandbox, refused_exactly};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// A job that records its start, waits for the file `end` and exits with status 7.
const WAITING_JOB: &str = "echo >> began; while [ ! -e end ]; do sleep 0.05; done; exit 7\n";

fn start_count(sandbox: &Sandbox) -> usize {
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
    let ids = ["y", "n"].map(|rerunnable| {
        sandbox.submit(&["-r", rerunnable, "-o", "out", "-e", "err"], WAITING_JOB)
    });
    ids.iter().for_each(|id| drop(sandbox.running(id)));
    sandbox.until("both jobs to start", || {
        (start_count(&sandbox) == 2).then_some(())
    });
    (sandbox, ids)
}

#[test]
fn by_default_qterm_stops_schedd_and_jobs_continue() {
    let (sandbox, ids) = two_jobs();
    let sessions = ids
        .each_ref()
        .map(|id| sandbox.job(id)["session_id"].clone());
    assert_eq!(sandbox.run("qterm", &["head"]).ok(), "");
    sandbox.until("schedd to exit", || {
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
    assert_eq!(start_count(&sandbox), 2, "no job started twice");
}

#[test]
fn qterm_immediate_requeues_rerunnable_jobs_and_deletes_the_others() {
    let (sandbox, [again, once]) = two_jobs();
    sandbox.run("qterm", &["-t", "immediate", "-m", "-s"]).ok();
    sandbox.until("schedd to exit", || {
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
fn qterm_delay_waits_for_non_rerunnable_jobs_and_starts_none() {
    let (sandbox, [again, once]) = two_jobs();
    sandbox.run("qterm", &["-t", "delay"]).ok();
    sandbox.until("the first job to be requeued", || {
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
    sandbox.until("schedd to exit", || {
        sandbox.pid_of("schedd").is_none().then_some(())
    });
    assert_eq!(sandbox.job(&once)["Exit_status"], 7);
    assert_eq!(sandbox.state(&again), "Q");
    sandbox.run("schedd", &[]).ok();
    assert_eq!(sandbox.ended(&again)["Exit_status"], 7);
}

#[test]
fn qterm_does_not_start_schedd_and_invalid_options_do_not_stop_it() {
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
fn only_operators_may_stop_schedd() {
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
