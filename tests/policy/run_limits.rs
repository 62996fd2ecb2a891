//! Limits on running and considered jobs of a user, with real daemons.

use crate::support::sandbox::Sandbox;
use serde_json::{Value, json};

fn sandbox(limits: &str) -> Sandbox {
    let sandbox = Sandbox::configured(limits);
    sandbox
        .run("noded", &["--ncpus", "4", "--mem", "4gb", "--name", "n"])
        .ok();
    sandbox.run("schedd", &[]).ok();
    sandbox
}

fn submit(sandbox: &Sandbox, arguments: &[&str]) -> String {
    sandbox.submit(
        &[arguments, &["-l", "walltime=1:00:00"]].concat(),
        "sleep 600\n",
    )
}

/// Waits until a job's comment contains this text.
fn until_comment(sandbox: &Sandbox, id: &str, text: &str) {
    let matches = || {
        sandbox.job(id)["comment"]
            .as_str()
            .is_some_and(|comment| comment.contains(text))
            .then_some(())
    };
    sandbox.until(text, matches);
}

/// M5, P9: PBS's message, its numbers, and the jobs that count, also after a restart of schedd.
#[test]
fn a_blocked_user_sees_the_limit_and_the_counted_jobs() {
    let sandbox = sandbox("[[limit]]\nuser = \"*\"\nrunning = { ncpus = 2 }\n");
    let running = submit(&sandbox, &["-l", "select=2:ncpus=1"]);
    sandbox.running(&running);
    let waiting = submit(&sandbox, &["-l", "select=1:ncpus=1"]);
    let comment = "Not Running: Server per-user limit reached on resource ncpus";
    until_comment(&sandbox, &waiting, comment);
    let why = || {
        let out = sandbox
            .run("qstat", &["--why", "-F", "json", &waiting])
            .ok();
        let answer: Value = serde_json::from_str(&out).unwrap();
        answer["Jobs"][&waiting]["why"].clone()
    };
    let limited = || Some(why()).filter(|why| why["reason"]["code"] == "active_limit.hard");
    let answer = sandbox.until("the reason", limited);
    let limit = &answer["limits"][0];
    assert_eq!(
        (&limit["used"], &limit["value"], &limit["by"]),
        (&json!("2"), &json!("2"), &json!([running])),
        "{answer}"
    );
    let numbers = &answer["reason"]["numbers"];
    assert_eq!(
        (&numbers["asked"], &numbers["by"], &numbers["counts"]),
        (&json!("1"), &json!([running]), &json!("running"))
    );
    assert!(
        numbers["whom"]["user"].is_string() && numbers["until"].is_null(),
        "{numbers}"
    );
    let output = sandbox.run("qstat", &["--why", &waiting]).ok();
    assert!(
        output.contains(&format!("in use: 2, by {running}")),
        "{output}"
    );
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    let late = submit(&sandbox, &["-l", "select=1:ncpus=2"]);
    until_comment(&sandbox, &late, comment);
    assert_eq!(sandbox.state(&waiting), "Q");
    // The scheduler may start either job first, so delete the other one.
    sandbox.run("qdel", &[&late, &running]).ok();
    sandbox.running(&waiting);
}

/// M24: some of several equal jobs are considered and some are not; each shows its own reason.
#[test]
fn equal_jobs_show_individually_whether_they_are_considered() {
    let sandbox = sandbox("[[limit]]\nuser = \"*\"\nidle = { jobs = 1 }\n");
    let running = submit(&sandbox, &["-l", "select=1:ncpus=4"]);
    sandbox.running(&running);
    let [first, second] = [(); 2].map(|()| submit(&sandbox, &["-l", "select=1:ncpus=1"]));
    until_comment(&sandbox, &first, "Insufficient amount of resource: ncpus");
    until_comment(&sandbox, &second, "Limit on idle jobs of user ");
    sandbox.run("qdel", &[&running]).ok();
    sandbox.running(&first);
    sandbox.running(&second);
}
