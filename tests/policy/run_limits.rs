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
fn says(sandbox: &Sandbox, id: &str, words: &str) {
    let said = || {
        sandbox.job(id)["comment"]
            .as_str()
            .is_some_and(|comment| comment.contains(words))
            .then_some(())
    };
    sandbox.until(words, said);
}

/// M5, P9: PBS's message, its numbers, and the jobs that count, also from a restarted schedd.
#[test]
fn a_blocked_user_sees_the_limit_and_the_counted_jobs() {
    let sandbox = sandbox("[[limit]]\nuser = \"*\"\nrunning = { ncpus = 2 }\n");
    let runs = submit(&sandbox, &["-l", "select=2:ncpus=1"]);
    sandbox.running(&runs);
    let waits = submit(&sandbox, &["-l", "select=1:ncpus=1"]);
    let words = "Not Running: Server per-user limit reached on resource ncpus";
    says(&sandbox, &waits, words);
    let why = || {
        let out = sandbox.run("qstat", &["--why", "-F", "json", &waits]).ok();
        let answer: Value = serde_json::from_str(&out).unwrap();
        answer["Jobs"][&waits]["why"].clone()
    };
    let of_limit = || Some(why()).filter(|why| why["reason"]["code"] == "active_limit.hard");
    let answer = sandbox.until("the reason", of_limit);
    let limit = &answer["limits"][0];
    assert_eq!(
        (&limit["used"], &limit["value"], &limit["by"]),
        (&json!("2"), &json!("2"), &json!([runs])),
        "{answer}"
    );
    let numbers = &answer["reason"]["numbers"];
    assert_eq!(
        (&numbers["asked"], &numbers["by"], &numbers["counts"]),
        (&json!("1"), &json!([runs]), &json!("running"))
    );
    assert!(
        numbers["whom"]["user"].is_string() && numbers["until"].is_null(),
        "{numbers}"
    );
    let told = sandbox.run("qstat", &["--why", &waits]).ok();
    assert!(told.contains(&format!("in use: 2, by {runs}")), "{told}");
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    let late = submit(&sandbox, &["-l", "select=1:ncpus=2"]);
    says(&sandbox, &late, words);
    assert_eq!(sandbox.state(&waits), "Q");
    // The scheduler may start either job first, so delete the other one.
    sandbox.run("qdel", &[&late, &runs]).ok();
    sandbox.running(&waits);
}

/// M24: some of several equal jobs are considered and some are not; each shows its own reason.
#[test]
fn equal_jobs_show_individually_whether_they_are_considered() {
    let sandbox = sandbox("[[limit]]\nuser = \"*\"\nidle = { jobs = 1 }\n");
    let runs = submit(&sandbox, &["-l", "select=1:ncpus=4"]);
    sandbox.running(&runs);
    let [first, second] = [(); 2].map(|()| submit(&sandbox, &["-l", "select=1:ncpus=1"]));
    says(&sandbox, &first, "Insufficient amount of resource: ncpus");
    says(&sandbox, &second, "Limit on idle jobs of user ");
    sandbox.run("qdel", &[&runs]).ok();
    sandbox.running(&first);
    sandbox.running(&second);
}
