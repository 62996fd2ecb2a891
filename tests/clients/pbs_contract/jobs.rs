//! Checks 34 to 38: state changes of jobs, and the permissions for them.

use super::{assert_prints, busy, finished, quiet, running, shown, submitted};
use crate::support::installation::shared;
use crate::support::people::{TestUser, people};
use crate::support::sandbox::Sandbox;

#[test]
fn check_34_qdel_refuses_unknown_and_finished_jobs() {
    let sandbox = busy();
    assert_prints(
        &sandbox,
        "qdel 999",
        153,
        "",
        "qdel: Unknown Job Id 999.head\n",
    );
    let id = finished(&sandbox);
    assert_prints(
        &sandbox,
        &format!("qdel {id}"),
        35,
        "",
        &format!("qdel: Job has finished {id}\n"),
    );
}

#[test]
fn check_35_a_deleted_job_is_in_the_history_with_status_271() {
    let sandbox = busy();
    let id = running(&sandbox, "");
    assert_prints(&sandbox, &format!("qdel {id}"), 0, "", "");
    sandbox.ended(&id);
    let values = ["job_state", "substate", "Exit_status"].map(|name| shown(&sandbox, &id, name));
    assert_eq!(
        values,
        ["job_state = F", "substate = 91", "Exit_status = 271"]
    );
}

/// An ordinary user of a shared installation with a running job. The owner of a personal
/// installation has more rights.
struct Alice {
    sandbox: Sandbox,
    alice: TestUser,
    running: String,
}

impl Alice {
    fn new(check: &str) -> Option<Alice> {
        let [alice] = people(check)?;
        let sandbox = shared("name = \"head\"\n");
        let running = alice.submit(&sandbox, &["-l", "walltime=60"], "sleep 60");
        sandbox.running(&running);
        Some(Alice {
            sandbox,
            alice,
            running,
        })
    }

    #[track_caller]
    fn assert_prints(&self, program: &str, arguments: &[&str], code: i32, err: &str) {
        let done = self.alice.run(&self.sandbox, program, arguments);
        assert_eq!(
            (done.code, done.out.as_str(), done.err.as_str()),
            (code, "", err),
            "{program} {arguments:?}"
        );
    }
}

#[test]
fn check_36_the_account_of_a_running_job_cannot_be_changed() {
    let sandbox = busy();
    let id = running(&sandbox, "");
    let expected =
        format!("qalter: Cannot modify attribute while job running  Account_Name {id}\n");
    assert_prints(&sandbox, &format!("qalter -A x {id}"), 167, "", &expected);
    sandbox.run("qdel", &[&id]).ok();
}

#[test]
fn check_37_users_cannot_extend_the_walltime_of_running_jobs() {
    let Some(alice) = Alice::new("time") else {
        return;
    };
    let expected = format!("qalter: Unauthorized Request  {}\n", alice.running);
    alice.assert_prints(
        "qalter",
        &["-l", "walltime=99:00:00", &alice.running],
        159,
        &expected,
    );
    assert_eq!(
        alice.sandbox.job(&alice.running)["Resource_List"]["walltime"],
        "00:01:00"
    );
    alice.assert_prints("qalter", &["-l", "walltime=30", &alice.running], 0, "");
}

#[test]
fn check_38_users_cannot_rerun_jobs_or_signal_queued_jobs() {
    let sandbox = quiet();
    let waiting = submitted(&sandbox, "");
    let expected = format!("qsig: Request invalid for state of job {waiting}\n");
    assert_prints(
        &sandbox,
        &format!("qsig -s SIGTERM {waiting}"),
        168,
        "",
        &expected,
    );
    let Some(alice) = Alice::new("rerun") else {
        return;
    };
    alice.assert_prints(
        "qrerun",
        &[&alice.running],
        159,
        &format!("qrerun: Unauthorized Request  {}\n", alice.running),
    );
    assert_eq!(alice.sandbox.state(&alice.running), "R");
}
