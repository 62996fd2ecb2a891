//! Reservation rights of users in a shared installation. Skipped with a message without root.

use crate::policy::reservations::ahead;
use crate::support::installation::installed;
use crate::support::people::{TestUser, people, two_users};
use crate::support::sandbox::{Done, Sandbox};

/// Nodes with 8 processors in total, and `more` in the `[server]` section.
fn cluster(more: &str) -> Sandbox {
    let sandbox = installed(more);
    sandbox
        .run(
            "noded",
            &[
                "--nodes", "4", "--ncpus", "2", "--mem", "1gb", "--name", "n",
            ],
        )
        .ok();
    sandbox.run("schedd", &[]).ok();
    sandbox.until("the nodes", || {
        sandbox
            .run("pbsnodes", &["-a"])
            .out
            .contains("n4")
            .then_some(())
    });
    sandbox
}

fn reserve(person: &TestUser, sandbox: &Sandbox, from: u64, duration: &str, select: &str) -> Done {
    let (from, select) = (ahead(from), format!("select={select}"));
    person.run(
        sandbox,
        "pbs_rsub",
        &["-R", &from, "-D", duration, "-l", &select, "-I", "5"],
    )
}

#[track_caller]
fn confirmed(done: Done) -> String {
    let line = done.line();
    let id = line
        .strip_suffix(" CONFIRMED")
        .unwrap_or_else(|| panic!("{line}"));
    id.to_string()
}

#[track_caller]
fn refused(done: &Done, text: &str) {
    assert!(
        done.code != 0 && done.err.contains(text),
        "{text:?}: {done:?}"
    );
}

#[test]
fn reservations_of_users_are_limited_by_default() {
    let Some([ann, bob]) = two_users("bounds") else {
        return;
    };
    let sandbox = cluster("");
    let hour = 3600;
    refused(
        &reserve(&ann, &sandbox, hour, "100:00:00", "1:ncpus=1"),
        "Maximum duration of a reservation (resv_max_duration): 24:00:00; 100:00:00 requested",
    );
    let share =
        "Maximum number of processors in overlapping reservations of a user (resv_max_share): 4";
    refused(
        &reserve(&ann, &sandbox, hour, "1:00:00", "4:ncpus=2"),
        &format!("{share}; 0 reserved, 8 requested"),
    );
    let id = confirmed(reserve(&ann, &sandbox, hour, "1:00:00", "3:ncpus=1"));
    refused(
        &reserve(&ann, &sandbox, hour + 60, "1:00:00", "2:ncpus=1"),
        &format!("{share}; 3 reserved, 2 requested"),
    );
    // The limit does not apply to another time or another user.
    confirmed(reserve(&ann, &sandbox, 3 * hour, "1:00:00", "2:ncpus=2"));
    confirmed(reserve(&bob, &sandbox, hour, "1:00:00", "2:ncpus=2"));
    // The same limits apply to changes.
    let alter = |arguments: &[&str]| ann.run(&sandbox, "pbs_ralter", &[arguments, &[&id]].concat());
    refused(
        &alter(&["-D", "30:00:00"]),
        "Maximum duration of a reservation",
    );
    refused(
        &alter(&["-l", "select=4:ncpus=2"]),
        &format!("{share}; 0 reserved, 8 requested"),
    );
    alter(&["-N", "renamed"]).ok();
    // Operators have no limits.
    let from = ahead(100 * hour);
    sandbox
        .run(
            "pbs_rsub",
            &[
                "-R",
                &from,
                "-D",
                "100:00:00",
                "-l",
                "select=4:ncpus=2",
                "-I",
                "5",
            ],
        )
        .ok();
}

#[test]
fn the_number_of_reservations_per_user_is_limited() {
    let Some([ann]) = people("many") else { return };
    let sandbox = cluster("resv_max_number = 2\n");
    for day in [1, 2] {
        confirmed(reserve(&ann, &sandbox, day * 86_400, "60", "1:ncpus=1"));
    }
    let text = "Maximum number of reservations per user: 2; 2 exist, 1 requested";
    refused(
        &reserve(&ann, &sandbox, 3 * 86_400, "60", "1:ncpus=1"),
        text,
    );
    sandbox
        .run("qmgr", &["-c", "set server resv_max_number = 3"])
        .ok();
    confirmed(reserve(&ann, &sandbox, 3 * 86_400, "60", "1:ncpus=1"));
}

#[test]
fn resv_users_limits_which_users_may_reserve() {
    let Some([ann, bob]) = two_users("reserver") else {
        return;
    };
    let sandbox = cluster("resv_users = []\n");
    let reserve_an_hour_ahead =
        |person: &TestUser| reserve(person, &sandbox, 3600, "60", "1:ncpus=1");
    refused(
        &reserve_an_hour_ahead(&ann),
        "only operators and users in resv_users may reserve",
    );
    let users = format!("set server resv_users = {}@*", ann.name);
    sandbox.run("qmgr", &["-c", &users]).ok();
    confirmed(reserve_an_hour_ahead(&ann));
    refused(
        &reserve_an_hour_ahead(&bob),
        "only operators and users in resv_users may reserve",
    );
    let list = sandbox.run("qmgr", &["-c", "list server"]).ok();
    for line in [
        "resv_max_number = 10",
        "resv_max_duration = 86400",
        "resv_max_share = 0.5",
    ] {
        assert!(list.contains(line), "{line}: {list}");
    }
    sandbox
        .run(
            "qmgr",
            &[
                "-c",
                "set server resv_max_share = 0.1, resv_max_duration = 2:00:00",
            ],
        )
        .ok();
    refused(
        &reserve_an_hour_ahead(&ann),
        "(resv_max_share): 0; 1 reserved, 1 requested",
    );
}
