//! schedd crashes after a submission is on disk and before it replies to qsub. Requires root,
//! because otherwise qsub starts schedd itself; skipped with a message without root.

use crate::support::installation::installed;
use crate::support::people::{TestUser, people};
use crate::support::sandbox::{Done, Sandbox};
use std::thread;

/// A shared installation with a schedd that crashes before its first reply to a client.
fn with_crashing_schedd() -> Sandbox {
    let mut sandbox = installed("").with("LANAI_FAULTS", "reply:1:crash");
    sandbox.run("schedd", &[]).ok();
    sandbox.unset("LANAI_FAULTS");
    sandbox
}

fn submit(sandbox: &Sandbox, person: &TestUser) -> Done {
    person.run(sandbox, "qsub", &["-h", "-N", "once", "--", "/bin/true"])
}

/// Number of submitted jobs; starts schedd first.
fn jobs(sandbox: &Sandbox) -> usize {
    sandbox.run("schedd", &[]).ok();
    sandbox.run("qselect", &["-N", "once"]).ok().lines().count()
}

#[test]
fn qsub_waits_for_schedd_and_submits_once() {
    let Some([ann]) = people("lost") else { return };
    let sandbox = with_crashing_schedd();
    let done = thread::scope(|scope| {
        let submission = scope.spawn(|| submit(&sandbox, &ann));
        sandbox.until("the end of schedd", || {
            sandbox.pid_of("schedd").is_none().then_some(())
        });
        assert!(!submission.is_finished());
        sandbox.run("schedd", &[]).ok();
        submission.join().unwrap()
    });
    assert_eq!((done.code, jobs(&sandbox)), (0, 1), "{done:?}");
}

#[test]
fn qsub_reports_that_a_job_may_have_been_accepted() {
    let Some([ann]) = people("unsure") else {
        return;
    };
    let sandbox = with_crashing_schedd();
    let done = submit(&sandbox, &ann);
    assert!(
        done.code != 0
            && done
                .err
                .contains("check with qstat whether it accepted the request"),
        "{done:?}"
    );
    assert_eq!(jobs(&sandbox), 1);
}
