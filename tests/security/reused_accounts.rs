//! The uid or name of a deleted account is reused: the new account has neither the rights nor the
//! jobs of the old one. Skipped with a message without root.

use crate::support::installation::shared;
use crate::support::people::{TestUser, people};
use crate::support::sandbox::{Done, Sandbox};

/// A manager with a queue, a held job and a reservation.
struct Manager {
    sandbox: Sandbox,
    person: TestUser,
    job: String,
    reservation: String,
}

impl Manager {
    fn new(tag: &str) -> Option<Manager> {
        let [person] = people(tag)?;
        let sandbox = shared("");
        let grant = format!("set server managers = {}@*", person.name);
        sandbox.run("qmgr", &["-c", &grant]).ok();
        let create = "create queue made queue_type=e, enabled=t, started=t";
        person.run(&sandbox, "qmgr", &["-c", create]).ok();
        let job = person.submit(&sandbox, &["-h", "-v", "SECRET=1", "-m", "n"], "true");
        let options = ["-E", "12312359", "-D", "60", "-l", "select=1:ncpus=1"];
        let reserved = person.run(&sandbox, "pbs_rsub", &options).line();
        let reservation = reserved.split_whitespace().next().unwrap().to_string();
        Some(Manager {
            sandbox,
            person,
            job,
            reservation,
        })
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Done {
        self.person.run(&self.sandbox, program, arguments)
    }

    /// Asserts that the new owner of the account has no special rights.
    #[track_caller]
    fn assert_no_rights(&self) {
        // schedd caches user names for a few seconds.
        let set_comment = ["-c", "set server comment = mine"];
        self.sandbox.until("the new account to be recognized", || {
            (self.run("qmgr", &set_comment).code != 0).then_some(())
        });
        for (program, arguments) in [
            ("qmgr", &["-c", "create queue other"][..]),
            ("qmgr", &["-c", "set server managers += daemon@*"]),
            ("qmgr", &["-c", "delete queue made"]),
            ("qrls", &[&self.job]),
            ("qalter", &["-N", "mine", &self.job]),
            ("qdel", &[&self.job]),
            ("qdel", &["-W", "force", &self.job]),
            ("pbs_rdel", &[&self.reservation]),
            ("qterm", &[]),
        ] {
            let done = self.run(program, arguments);
            assert!(
                done.code != 0 && done.err.contains("nauthorized"),
                "{program} {arguments:?}: {done:?}"
            );
        }
        let seen = self.run("qstat", &["-f", &self.job]).ok();
        assert!(!seen.contains("SECRET"), "{seen}");
        assert_eq!(self.sandbox.state(&self.job), "H");
    }

    /// Asserts that jobs of the new owner run, and the held job of the previous owner does not.
    #[track_caller]
    fn assert_only_own_jobs_run(&self) {
        let own = self.person.submit(&self.sandbox, &[], "id -un > who");
        assert_eq!(self.sandbox.ended(&own)["Exit_status"], 0);
        assert_eq!(self.person.read("who").trim(), self.person.name);
        self.sandbox.run("qrls", &[&self.job]).ok();
        self.sandbox.until("the refusal by the node", || {
            let comment = self.sandbox.job(&self.job)["comment"].to_string();
            (comment.contains("is not known") || comment.contains("has uid")).then_some(())
        });
    }
}

#[test]
fn a_reused_uid_grants_no_access() {
    let Some(mut manager) = Manager::new("number") else {
        return;
    };
    let (name, uid) = (format!("{}n", manager.person.name), manager.person.uid);
    manager.person.replace(name, uid);
    manager.assert_no_rights();
    manager.assert_only_own_jobs_run();
}

#[test]
fn a_reused_account_name_grants_no_access() {
    let Some(mut manager) = Manager::new("name") else {
        return;
    };
    let (name, uid) = (manager.person.name.clone(), manager.person.uid);
    manager.person.replace(name.clone(), uid + 4000);
    manager.assert_no_rights();
    manager.sandbox.run("schedd", &["--stop"]).ok();
    manager.sandbox.run("schedd", &[]).ok();
    manager.assert_no_rights();
    assert!(
        manager
            .sandbox
            .log()
            .contains("has no operator rights: `managers` and `operators` refer to an")
    );
    manager.assert_only_own_jobs_run();
    // The new account can be made a manager.
    let grant = format!("set server managers += {name}@*");
    manager.sandbox.run("qmgr", &["-c", &grant]).ok();
    manager.run("qmgr", &["-c", "create queue other"]).ok();
}
