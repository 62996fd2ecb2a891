//! Checks 34 to 38: state changes of jobs, and the permissions for them.

use super::{busy, finished, quiet, running, says, shown, submitted};
use crate::support::installation::shared;
use crate::support::people::{TestUser, people};
use crate::support::sandbox::Sandbox;

#[test]
fn check_34_unknown_and_finished_jobs_are_not_deleted() {
    let sandbox = busy();
    says(
        &sandbox,
        "qdel 999",
        153,
        "",
        "qdel: Unknown Job Id 999.head\n",
    );
    let over = finished(&sandbox);
    says(
        &sandbox,
        &format!("qdel {over}"),
        35,
        "",
        &format!("qdel: Job has finished {over}\n"),
    );
}

#[test]
fn check_35_a_deleted_job_is_history_with_status_271() {
    let sandbox = busy();
    let id = running(&sandbox, "");
    says(&sandbox, &format!("qdel {id}"), 0, "", "");
    sandbox.ended(&id);
    let told = ["job_state", "substate", "Exit_status"].map(|name| shown(&sandbox, &id, name));
    assert_eq!(
        told,
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
    fn is_told(&self, program: &str, arguments: &[&str], code: i32, err: &str) {
        let done = self.alice.run(&self.sandbox, program, arguments);
        assert_eq!(
            (done.code, done.out.as_str(), done.err.as_str()),
            (code, "", err),
            "{program} {arguments:?}"
        );
    }
}

#[test]
fn check_36_the_account_of_a_running_job_stays() {
    let sandbox = busy();
    let id = running(&sandbox, "");
    let told = format!("qalter: Cannot modify attribute while job running  Account_Name {id}\n");
    says(&sandbox, &format!("qalter -A x {id}"), 167, "", &told);
    sandbox.run("qdel", &[&id]).ok();
}

#[test]
fn check_37_users_give_their_running_jobs_no_more_time() {
    let Some(at) = Alice::new("time") else { return };
    let told = format!("qalter: Unauthorized Request  {}\n", at.running);
    at.is_told(
        "qalter",
        &["-l", "walltime=99:00:00", &at.running],
        159,
        &told,
    );
    assert_eq!(
        at.sandbox.job(&at.running)["Resource_List"]["walltime"],
        "00:01:00"
    );
    at.is_told("qalter", &["-l", "walltime=30", &at.running], 0, "");
}

#[test]
fn check_38_users_rerun_nothing_and_what_waits_gets_no_signal() {
    let sandbox = quiet();
    let waiting = submitted(&sandbox, "");
    let told = format!("qsig: Request invalid for state of job {waiting}\n");
    says(
        &sandbox,
        &format!("qsig -s SIGTERM {waiting}"),
        168,
        "",
        &told,
    );
    let Some(at) = Alice::new("rerun") else {
        return;
    };
    at.is_told(
        "qrerun",
        &[&at.running],
        159,
        &format!("qrerun: Unauthorized Request  {}\n", at.running),
    );
    assert_eq!(at.sandbox.state(&at.running), "R");
}
