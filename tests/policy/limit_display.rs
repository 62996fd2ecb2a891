//! Limits in `qstat --limits` and `qstat --why`, with the real programs (P9, M22).

use crate::support::sandbox::{Sandbox, number, user};
use serde_json::{Value, json};

/// A node with 8 processors and these limits.
fn limited(limits: &str) -> Sandbox {
    let sandbox = Sandbox::configured(limits);
    sandbox
        .run("noded", &["--ncpus", "8", "--mem", "8gb", "--name", "n1"])
        .ok();
    sandbox
}

fn limits(sandbox: &Sandbox, arguments: &[&str]) -> Vec<Value> {
    let output = sandbox
        .run("qstat", &[&["--limits", "-F", "json"], arguments].concat())
        .ok();
    let document: Value =
        serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"));
    document["Limits"]
        .as_array()
        .unwrap_or_else(|| panic!("{output}"))
        .clone()
}

/// P9, M22: two jobs may run, three are submitted.
#[test]
fn a_limit_is_shown_with_its_usage_and_the_jobs_it_blocks() {
    let sandbox = limited("[[limit]]\nuser = \"*\"\nrunning = { jobs = 2 }\n");
    let ids: Vec<String> = (0..3)
        .map(|_| sandbox.submit(&[], "sleep 1000\n"))
        .collect();
    ids[..2].iter().for_each(|id| drop(sandbox.running(id)));
    let blocked = || {
        limits(&sandbox, &[])
            .first()
            .is_some_and(|one| one["barred"] == 1)
            .then_some(())
    };
    sandbox.until("a cycle with all three jobs", blocked);

    let text = sandbox.run("qstat", &["--limits"]).ok();
    let row: Vec<&str> = text
        .lines()
        .nth(2)
        .unwrap_or_else(|| panic!("{text}"))
        .split_whitespace()
        .collect();
    let by = format!("{},{}", number(&ids[0]), number(&ids[1]));
    assert_eq!(
        row,
        ["user", &user(), "running", "jobs", "2", "--", "2", "1", &by],
        "{text}"
    );

    let rows = limits(&sandbox, &[]);
    assert_eq!(rows.len(), 1, "{rows:?}");
    let row = &rows[0];
    assert_eq!(
        (&row["used"], &row["hard"], &row["soft"]),
        (&json!(2), &json!(2), &Value::Null),
        "{row}"
    );
    assert_eq!(
        (&row["jobs"], &row["unit"]),
        (&json!([ids[0], ids[1]]), &json!("jobs")),
        "{row}"
    );
    assert_eq!(
        (&row["waiting"], &row["barred"], &row["scope"]["user"]),
        (&json!(1), &json!(1), &json!(user())),
        "{row}"
    );

    assert!(
        limits(&sandbox, &["-u", "no-such-user"]).is_empty(),
        "limits of other users must not be shown"
    );
    assert_eq!(
        limits(&sandbox, &["-u", &format!("{}@somewhere", user())]).len(),
        1
    );
    assert_eq!(
        sandbox.run("qstat", &["--limits", &ids[0]]).code,
        2,
        "--limits takes no operands"
    );

    let why = sandbox.run("qstat", &["--why", &ids[2]]).ok();
    for part in [
        format!("user {}", user()),
        "running jobs".to_string(),
        ids[0].clone(),
        ids[1].clone(),
    ] {
        assert!(why.contains(&part), "{part}: {why}");
    }
    sandbox.run("qdel", &[&ids[0]]).ok();
    sandbox.running(&ids[2]);
}

/// P9: the stage of a limit determines which jobs count.
#[test]
fn held_jobs_and_subjobs_count_as_documented() {
    let limit = "[[limit]]\nuser = \"*\"\nrunning = { ncpus = 4 }\nidle = { jobs = 9 }\n\
                 queued = { jobs = 30, mem = \"20gb\" }\nwaiting = { jobs = 20 }\n";
    let sandbox = limited(limit);
    let array = sandbox.submit(
        &["-J", "1-6", "-l", "select=1:ncpus=1:mem=1gb"],
        "sleep 1000\n",
    );
    sandbox.submit(&["-h", "-l", "select=1:ncpus=1:mem=2gb"], "true\n");
    let is_running = |line: &&str| line.split_whitespace().nth(4) == Some("R");
    let running = || {
        sandbox
            .run("qstat", &["-t"])
            .out
            .lines()
            .filter(is_running)
            .count()
    };
    sandbox.until("four running subjobs", || (running() == 4).then_some(()));
    let used = |rows: &[Value], stage: &str, quantity: &str| -> Value {
        let row = rows
            .iter()
            .find(|row| row["stage"] == stage && row["quantity"] == quantity);
        row.unwrap_or_else(|| panic!("{stage} {quantity}: {rows:?}"))["used"].clone()
    };
    let rows = sandbox.until("a cycle with all jobs", || {
        let rows = limits(&sandbox, &[]);
        (used(&rows, "idle", "jobs") == 2).then_some(rows)
    });
    let usage = |stage, quantity| used(&rows, stage, quantity);
    assert_eq!(
        (
            usage("running", "ncpus"),
            usage("queued", "jobs"),
            usage("waiting", "jobs")
        ),
        (json!(4), json!(7), json!(2)),
        "a held job counts as queued, not as waiting"
    );
    assert_eq!(usage("queued", "mem"), json!(8u64 << 30), "in bytes");
    let nearest: Vec<&Value> = rows.iter().map(|row| &row["quantity"]).collect();
    assert_eq!(
        nearest[0], "ncpus",
        "the exhausted limit must come first: {rows:?}"
    );
    let text = sandbox.run("qstat", &["--limits"]).ok();
    assert!(
        text.contains("8gb") && text.contains(number(&array)),
        "{text}"
    );
}

#[test]
fn the_absence_of_limits_is_shown() {
    let sandbox = limited("");
    assert_eq!(
        sandbox.run("qstat", &["--limits"]).ok(),
        "There are no active limits to show.\n"
    );
    assert!(limits(&sandbox, &[]).is_empty());
}
