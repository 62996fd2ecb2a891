//! Single operations on sockets and the spool fail, are truncated or delayed; all jobs still end
//! with the expected exit status.

use crate::support::sandbox::{Done, Sandbox};
use serde_json::Value;
use std::fs;

const JOBS: i64 = 30;

/// Expected exit status of the nth job.
fn expected(n: i64) -> i64 {
    if n % 3 == 2 { 271 } else { n }
}

/// Repeats a command until it succeeds, or until it has taken effect although its reply was lost.
fn repeat_until_effective(
    sandbox: &Sandbox,
    program: &str,
    id: &str,
    done: impl Fn(&Value) -> bool,
) {
    sandbox.until(program, || {
        (sandbox.run(program, &[id]).code == 0 || done(&sandbox.job(id))).then_some(())
    });
}

/// Submits the nth job: released at once, held and then released, or held and then deleted.
fn submit(sandbox: &Sandbox, n: i64) -> Option<String> {
    let name = format!("job{n}");
    let script = format!("echo start >> starts.$PBS_JOBID; exit {n}\n");
    let arguments = ["-N", &name, "-h"];
    let done = sandbox.run_with_input(
        "qsub",
        if n % 3 == 0 {
            &arguments[..2]
        } else {
            &arguments
        },
        &script,
    );
    if done.code != 0 {
        assert_refusal_is_correct(sandbox, &name, &done);
        return None;
    }
    let id = done.line();
    match n % 3 {
        1 => repeat_until_effective(sandbox, "qrls", &id, |job| job["job_state"] != "H"),
        2 => repeat_until_effective(sandbox, "qdel", &id, |job| job["job_state"] == "F"),
        _ => {}
    }
    Some(id)
}

/// Asserts that a failed `qsub` prints a reason and that no job exists, unless the message says
/// that the result is unknown.
fn assert_refusal_is_correct(sandbox: &Sandbox, name: &str, done: &Done) {
    assert!(
        done.err.lines().any(|line| line.starts_with("qsub: ")),
        "{done:?}"
    );
    if !done.err.contains("check with qstat whether") {
        assert_eq!(
            sandbox.run("qselect", &["-x", "-N", name]).out,
            "",
            "{done:?}"
        );
    }
}

/// Runs the workload with these faults. Returns the number of refused submissions.
#[track_caller]
fn refusals_with_faults(faults: &str) -> usize {
    let sandbox = Sandbox::configured("[launch]\nretry = \"1s\"\n").with("LANAI_FAULTS", faults);
    let ids: Vec<(i64, Option<String>)> = (0..JOBS).map(|n| (n, submit(&sandbox, n))).collect();
    for (n, id) in ids.iter().filter_map(|(n, id)| Some((n, id.as_ref()?))) {
        let job = sandbox.until(&format!("the end of {id}"), || {
            let _ = sandbox.run("schedd", &[]);
            Some(sandbox.job(id)).filter(|job| job["job_state"] == "F")
        });
        assert_eq!(job["Exit_status"], expected(*n), "{faults}: {job}");
        let starts = fs::read_to_string(sandbox.file(&format!("starts.{id}"))).unwrap_or_default();
        let wanted = if expected(*n) == 271 { 0 } else { 1 };
        assert_eq!(starts.lines().count(), wanted, "{faults}: {job}");
    }
    assert!(!sandbox.log().contains("panicked"), "{}", sandbox.log());
    ids.iter().filter(|(_, id)| id.is_none()).count()
}

#[test]
fn short_reads_and_writes_cause_no_refusals() {
    assert_eq!(
        refusals_with_faults("socket.read:1/20:short,socket.write:1/20:short"),
        0
    );
    assert_eq!(
        refusals_with_faults("socket.read:1/2:short,socket.write:1/2:short"),
        0
    );
}

#[test]
fn delays_cause_no_refusals() {
    assert_eq!(
        refusals_with_faults("socket.*:1/20:delay,spool.*:1/20:delay"),
        0
    );
}

#[test]
fn failing_sockets_lose_no_job_and_run_none_twice() {
    let refused = refusals_with_faults("socket.*:1/200:fail");
    assert!(refused < JOBS as usize / 2, "{refused} refused");
    let refused = refusals_with_faults("socket.read:1/50:fail,socket.write:1/50:fail");
    assert!(refused < JOBS as usize / 2, "{refused} refused");
}

#[test]
fn a_failing_disk_loses_no_job_and_runs_none_twice() {
    let refused = refusals_with_faults("spool.commit:1/10:fail");
    assert!(refused < JOBS as usize / 2, "{refused} refused");
    let refused = refusals_with_faults("spool.write:1/50:fail,spool.begin:1/20:fail");
    assert!(refused < JOBS as usize / 2, "{refused} refused");
}
