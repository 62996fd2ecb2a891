//! Accounts that have expired or may not log in run no jobs. Needs root.

use crate::support::installation::shared;
use crate::support::people::{TestUser, change_accounts, people};
use crate::support::sandbox::Sandbox;
use std::process::Command;

/// Asserts that noded refuses each kind of job of this user with this text.
#[track_caller]
fn assert_all_refused(person: &TestUser, sandbox: &Sandbox, text: &str) {
    let submissions: [&[&str]; 4] = [
        &["--", "/usr/bin/touch", "ran"],
        &["-S", "/bin/sh", "job.sh"],
        &["job.sh"],
        &["-J", "1-2", "job.sh"],
    ];
    for arguments in submissions {
        let id = person.run(sandbox, "qsub", arguments).line();
        let one = id.replace("[]", "[1]");
        let job = sandbox.ended(&one);
        let comment = job["comment"].as_str().unwrap_or_default();
        assert!(
            comment.contains(text) && comment.contains(&person.name),
            "{arguments:?}: {job}"
        );
        assert_ne!(job["Exit_status"], 0, "{arguments:?}: {job}");
    }
    assert!(!person.file("ran").exists());
}

#[test]
fn closed_accounts_run_no_jobs() {
    let Some([expired, nologin, unlisted, open]) = people("closed") else {
        return;
    };
    let sandbox = shared("");
    for person in [&expired, &nologin, &unlisted, &open] {
        std::fs::write(person.file("job.sh"), "touch ran\n").unwrap();
    }
    let changes = [
        (&expired, ["--expiredate", "2020-01-01"]),
        (&nologin, ["--shell", "/usr/sbin/nologin"]),
        (&unlisted, ["--shell", "/usr/bin/env"]),
        (&open, ["--expiredate", "2199-01-01"]),
    ];
    for (person, change) in changes {
        change_accounts(Command::new("usermod").args(change).arg(&person.name));
    }
    assert_all_refused(&expired, &sandbox, "expired on 2020-01-01");
    assert_all_refused(&nologin, &sandbox, "cannot log in");
    assert_all_refused(&unlisted, &sandbox, "is not in /etc/shells");
    // The password of this account is locked, as for users who log in with a key.
    let id = open.submit(&sandbox, &[], "touch ran\n");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    assert!(open.file("ran").exists());
}
