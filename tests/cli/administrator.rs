//! Daily commands of an administrator: create a queue and a limit, drain nodes and bring them back,
//! show usage, hold all jobs of a user, raise a limit, change the configuration while jobs run, and
//! find its errors in the log.

use crate::support::sandbox::{Sandbox, kill, user};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

/// Cycles are triggered by events only.
const CONFIG: &str = "[cycle]\npoll_interval = \"1h\"\n";

#[track_caller]
fn qmgr(sandbox: &Sandbox, command: &str) -> String {
    sandbox.run("qmgr", &["-c", command]).ok()
}

/// States of these jobs, one letter each.
fn states(sandbox: &Sandbox, ids: &[String]) -> String {
    ids.iter().map(|id| sandbox.state(id)).collect()
}

#[track_caller]
fn until(sandbox: &Sandbox, ids: &[String], expected: &str) {
    sandbox.until(&format!("{expected} of {ids:?}"), || {
        (states(sandbox, ids) == expected).then_some(())
    });
}

/// First listed limit of this quantity.
fn limit(sandbox: &Sandbox, quantity: &str) -> Value {
    let output = sandbox.run("qstat", &["--limits", "-F", "json"]).ok();
    let document: Value = serde_json::from_str(&output).unwrap();
    let rows = document["Limits"].as_array().cloned().unwrap_or_default();
    rows.into_iter()
        .find(|row| row["quantity"] == quantity)
        .unwrap_or_else(|| panic!("{quantity}: {output}"))
}

/// Rewrites `lanai.toml`, makes schedd reload it, and waits until the log contains this text.
#[track_caller]
fn reload(sandbox: &Sandbox, config: &str, text: &str) -> String {
    let before = sandbox.log().len();
    let login = "[launch]\nlogin = false\n";
    fs::write(
        sandbox.home().join("lanai.toml"),
        format!("{config}{login}"),
    )
    .unwrap();
    kill(sandbox.pid_of("schedd").unwrap(), nix::libc::SIGHUP);
    sandbox.until(text, || {
        sandbox.log()[before..]
            .lines()
            .find(|line| line.contains(text))
            .map(String::from)
    })
}

#[test]
#[allow(clippy::too_many_lines, reason = "one sequence of commands")]
fn administrator_commands_apply_while_jobs_run() {
    let sandbox = Sandbox::configured(CONFIG);
    sandbox.start_nodes(2, 4);

    // A night queue in which each user may run two jobs.
    qmgr(
        &sandbox,
        "create queue night queue_type=execution,enabled=True,started=True",
    );
    qmgr(&sandbox, "set queue night max_run = [u:PBS_GENERIC=2]");
    let submit = |_| sandbox.submit(&["-q", "night"], "sleep 1000\n");
    let ids: Vec<String> = (0..5).map(submit).collect();
    until(&sandbox, &ids, "RRQQQ");

    // A queued job shows what it waits for.
    let comment = "Not Running: User has reached queue night running job limit.";
    sandbox.until("the comment", || {
        (sandbox.job(&ids[2])["comment"] == comment).then_some(())
    });
    let why = sandbox.run("qstat", &["--why", &ids[2]]).ok();
    for part in [
        &format!("user {}", user()),
        "night",
        ids[0].as_str(),
        ids[1].as_str(),
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }

    // Usage of the limit.
    let row = limit(&sandbox, "jobs");
    assert_eq!(
        row["whose"],
        format!("user {} in queue night", user()),
        "{row}"
    );
    assert_eq!(
        (&row["used"], &row["hard"], &row["barred"]),
        (&json!(2), &json!(2), &json!(3)),
        "{row}"
    );
    assert_eq!(row["jobs"], json!([ids[0], ids[1]]), "{row}");

    // Drain nodes: running jobs continue and no job starts there until the nodes are back online.
    let others: Vec<String> = (0..2)
        .map(|_| sandbox.submit(&["-l", "select=1:ncpus=3"], "sleep 1000\n"))
        .collect();
    until(&sandbox, &others, "RQ");
    sandbox
        .run("pbsnodes", &["-o", "-C", "fans", "n1", "n2"])
        .ok();
    assert!(sandbox.run("pbsnodes", &["-l"]).ok().contains("offline"));
    sandbox.run("qdel", &[&others[0]]).ok();
    let ended = sandbox.ended(&others[0]);
    assert_eq!(states(&sandbox, &ids[..2]), "RR", "running jobs continue");
    assert_eq!(
        sandbox.state(&others[1]),
        "Q",
        "CPUs are free, but only on offline nodes"
    );
    sandbox.run("pbsnodes", &["-r", "n1", "n2"]).ok();
    sandbox.running(&others[1]);

    // Usage by user and queue.
    let output = sandbox
        .run("qacct", &["--by", "user,queue", "-F", "json"])
        .ok();
    let used: Value =
        serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"));
    assert!(
        output.contains(&user()) && output.contains("workq"),
        "{ended}: {used:#}"
    );

    // Hold and release all queued jobs of a user.
    let hold = format!("qselect -u {} -s Q | xargs qhold", user());
    sandbox.shell(&hold).ok();
    until(&sandbox, &ids, "RRHHH");
    sandbox
        .shell(&format!("qselect -u {} -s H | xargs qrls", user()))
        .ok();
    until(&sandbox, &ids, "RRQQQ");

    // Raise a limit: jobs blocked by it start at once.
    let raised = Instant::now();
    qmgr(&sandbox, "set queue night max_run = [u:PBS_GENERIC=4]");
    until(&sandbox, &ids, "RRRRQ");
    assert!(
        raised.elapsed() < Duration::from_secs(20),
        "{:?}",
        raised.elapsed()
    );
    assert_eq!(limit(&sandbox, "jobs")["hard"], 4);

    // Change the configuration while jobs run.
    let file = format!("{CONFIG}[[limit]]\nuser = \"*\"\nrunning = {{ ncpus = 6 }}\n");
    reload(&sandbox, &file, "reloaded");
    assert_eq!(limit(&sandbox, "ncpus")["hard"], 6);
    assert_eq!(states(&sandbox, &ids), "RRRRQ", "running jobs continue");

    // An invalid configuration is refused as a whole, with the line of the error; nothing changes.
    let bad = format!(
        "{CONFIG}[[limit]]\nuser = \"*\"\nrunning = {{ ncpus = 1 }}\n[order]\nby = \"fcsf\"\n"
    );
    let line = reload(&sandbox, &bad, "not reloaded");
    let name = sandbox.home().join("lanai.toml").display().to_string();
    assert!(
        line.contains(&name) && line.contains("line 7") && line.contains("fcfs"),
        "{line}"
    );
    assert_eq!(limit(&sandbox, "ncpus")["hard"], 6, "the old limit stays");
    assert_eq!(
        limit(&sandbox, "jobs")["hard"],
        4,
        "the limit set by qmgr stays"
    );
    reload(&sandbox, &file, "reloaded");

    // Show the source of each value.
    let checked = sandbox.run("schedd", &["--check"]).ok();
    let has = |words: &[&str]| {
        checked
            .lines()
            .any(|line| words.iter().all(|word| line.contains(word)))
    };
    assert!(has(&["poll_interval", "line 2"]), "{checked}");
    assert!(has(&["by = ", "preset"]), "{checked}");
    assert!(has(&["qmgr"]), "{checked}");
}

/// Warnings of `schedd --check`.
fn warnings(sandbox: &Sandbox) -> Vec<String> {
    let output = sandbox.run("schedd", &["--check", "-F", "json"]).ok();
    let checked: Value = serde_json::from_str(&output).unwrap();
    serde_json::from_value(checked["warnings"].clone()).unwrap()
}

#[test]
fn names_of_missing_objects_are_reported_before_schedd_uses_them() {
    let sandbox = Sandbox::configured(
        "[server]\nmailer = \"/nonexistent\"\n\
         [[limit]]\nqueue = \"nosuch\"\nrunning = { jobs = 4 }\n\
         [[reservation]]\nname = \"office\"\nnodes = [\"n9\"]\nperiod = \"infinity\"\n",
    );
    let limit = "[[limit]] names queue `nosuch`, which does not exist";
    let mailer = "mailer in [server]: program /nonexistent does not exist";
    let node = "[[reservation]] office names node `n9`, which does not exist";
    assert_eq!(warnings(&sandbox), [limit, mailer]);
    sandbox.start_nodes(2, 1);
    assert_eq!(
        warnings(&sandbox),
        [limit, node, mailer],
        "nodes are known once a noded has connected"
    );
    qmgr(&sandbox, "create queue nosuch queue_type=execution");
    assert_eq!(warnings(&sandbox), [node, mailer], "qmgr counts");
    assert_eq!(warnings(&Sandbox::new()), [""; 0]);
}
