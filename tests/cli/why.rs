//! `qstat --why` with real daemons: all job states, nodes and stages.

use crate::support::sandbox::Sandbox;
use serde_json::{Value, json};

/// A sandbox with `count` nodes of four processors and this configuration.
fn nodes(count: usize, config: &str) -> Sandbox {
    let sandbox = Sandbox::configured(config);
    sandbox.start_nodes(count, 4);
    sandbox
}

fn why(sandbox: &Sandbox, id: &str) -> Value {
    let out = sandbox.run("qstat", &["--why", "-F", "json", id]).ok();
    let whole: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
    whole["Jobs"][id]["why"].clone()
}

/// Waits until the first reason has this code: an answer may be a second old.
fn why_for(sandbox: &Sandbox, id: &str, code: &str) -> Value {
    sandbox.until(code, || {
        Some(why(sandbox, id)).filter(|why| why["reason"]["code"] == code)
    })
}

fn failed_stage(why: &Value) -> &str {
    let mut stages = why["stages"].as_array().unwrap().iter();
    stages
        .find(|stage| stage["verdict"] == "failed")
        .map_or("", |stage| stage["stage"].as_str().unwrap())
}

const LONG: &[&str] = &["-l", "walltime=1:00:00"];

fn submit(sandbox: &Sandbox, arguments: &[&str]) -> String {
    sandbox.submit(&[arguments, LONG].concat(), "sleep 600\n")
}

#[test]
fn every_node_shows_its_reason_for_rejecting_the_job() {
    let sandbox = nodes(5, "");
    let on = |node: &str, ncpus: u32| {
        let id = submit(
            &sandbox,
            &["-l", &format!("select=1:ncpus={ncpus}:vnode={node}")],
        );
        sandbox.running(&id);
    };
    on("n1", 2);
    on("n2", 3);
    let alone = submit(
        &sandbox,
        &["-l", "select=1:ncpus=1:vnode=n3", "-l", "place=excl"],
    );
    sandbox.running(&alone);
    on("n5", 1);
    sandbox.run("pbsnodes", &["-o", "n4"]).ok();
    let waits = submit(&sandbox, &["-l", "select=1:ncpus=4:mem=1gb"]);
    let answer = why_for(&sandbox, &waits, "fragmented");
    assert_eq!(failed_stage(&answer), "allocate", "{answer}");
    let nodes = &answer["nodes"];
    assert_eq!(
        (&nodes["chunk"], &nodes["fitting"]),
        (&json!("ncpus=4:mem=1gb"), &json!(0))
    );
    let rejected = nodes["rejected"].as_array().unwrap();
    let brief: Vec<(&str, u64, &Value)> = rejected
        .iter()
        .map(|entry| {
            (
                entry["code"].as_str().unwrap(),
                entry["nodes"].as_u64().unwrap(),
                &entry["named"],
            )
        })
        .collect();
    let (n3, n4, others) = (json!(["n3"]), json!(["n4"]), json!(["n1", "n2", "n5"]));
    assert_eq!(
        brief,
        [
            ("access_policy", 1, &n3),
            ("node_state", 1, &n4),
            ("amount.ncpus", 3, &others)
        ]
    );
    let amounts = ["requested", "least", "most"].map(|key| rejected[2][key].as_str().unwrap());
    assert_eq!(amounts, ["4", "1", "3"]);
    let text = sandbox.run("qstat", &["--why", &waits]).ok();
    assert!(
        text.contains(
            "3 nodes    amount.ncpus         ncpus: 4 requested, 1 to 3 free  [n1,n2,n5]"
        ),
        "{text}"
    );
}

#[test]
fn why_reports_known_jobs_beside_an_unknown_id() {
    let sandbox = nodes(1, "");
    let held = submit(&sandbox, &["-h"]);
    let unknown = held.replacen(char::is_numeric, "9999", 1);
    let output = sandbox.run("qstat", &["--why", &unknown, &held]);
    assert_eq!(output.code, 153, "{output:?}");
    assert!(output.err.contains(&unknown), "{output:?}");
    assert!(output.out.contains(&format!("Job {held}")), "{output:?}");
}

#[test]
fn a_held_job_shows_its_hold_and_the_next_obstacle() {
    let sandbox = nodes(1, "");
    let runs = submit(&sandbox, &["-l", "select=1:ncpus=3"]);
    sandbox.running(&runs);
    let held = submit(&sandbox, &["-h", "-l", "select=1:ncpus=4"]);
    let answer = why(&sandbox, &held);
    assert_eq!(
        (&answer["reason"]["code"], &answer["state"]),
        (&json!("held.user"), &json!("H")),
        "{answer}"
    );
    assert_eq!(
        answer["reason"]["help"],
        json!([format!("the owner releases the job: qrls {held}")])
    );
    assert_eq!(answer["objections"][1]["code"], "amount.ncpus", "{answer}");
    assert_eq!(answer["waits_for"][0]["job"], json!(runs), "{answer}");
    sandbox.run("qhold", &["-h", "o", &held]).ok();
    let codes = |answer: &Value| {
        answer["objections"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["code"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        codes(&why(&sandbox, &held)),
        ["held.user", "held.operator", "amount.ncpus"]
    );
    let after = submit(
        &sandbox,
        &[
            "-W",
            &format!("depend=afterok:{runs}"),
            "-l",
            "select=1:ncpus=1",
        ],
    );
    let answer = why(&sandbox, &after);
    assert_eq!(
        (answer["reason"]["code"].as_str(), failed_stage(&answer)),
        (Some("dep_wait"), "state"),
        "{answer}"
    );
    assert_eq!(
        answer["reason"]["numbers"]["depends_on"],
        json!([{"kind": "afterok", "job": runs, "state": "R"}])
    );
    let later = submit(&sandbox, &["-a", "203001010000", "-l", "select=1:ncpus=1"]);
    let answer = why(&sandbox, &later);
    assert_eq!(
        (answer["reason"]["code"].as_str(), answer["state"].as_str()),
        (Some("begin_time"), Some("W"))
    );
    assert_eq!(
        answer["estimated"]["start"], answer["reason"]["numbers"]["at"],
        "{answer}"
    );
    let text = sandbox
        .run("qstat", &["--why", &runs, &held, &after, &later])
        .ok();
    assert_eq!(text.matches("\nJob ").count(), 3, "{text}");
    sandbox.run("qdel", &[&runs]).ok();
    sandbox.ended(&after);
    let answer = why(&sandbox, &after);
    assert_eq!(
        (&answer["reason"]["code"], &answer["state"]),
        (&json!("dep_failed"), &json!("F")),
        "{answer}"
    );
    let finished = why(&sandbox, &runs);
    assert_eq!(
        (
            &finished["exit_status"],
            &finished["reason"],
            &finished["stages"]
        ),
        (&json!(271), &Value::Null, &json!([]))
    );
}

/// The first stage that fails gives the reason; `-v` shows all.
#[test]
fn all_obstacles_are_shown_on_request() {
    let sandbox = nodes(
        1,
        "[[queue]]\nname = \"workq\"\n[[queue]]\nname = \"night\"\nstarted = false\n",
    );
    let runs = submit(&sandbox, &["-l", "select=1:ncpus=3"]);
    sandbox.running(&runs);
    let stopped = submit(&sandbox, &["-q", "night", "-l", "select=1:ncpus=4"]);
    let answer = why_for(&sandbox, &stopped, "queue_stopped");
    assert_eq!(
        (failed_stage(&answer), &answer["objections"][1]["code"]),
        ("admission", &json!("amount.ncpus"))
    );
    let plain = sandbox.run("qstat", &["--why", &stopped]).ok();
    let all = sandbox.run("qstat", &["--why", "-v", &stopped]).ok();
    assert!(
        plain.contains("Queue night is stopped and starts no jobs.  (admission: queue_stopped)"),
        "{plain}"
    );
    assert!(
        !plain.contains("Obstacles:") && all.contains("  Obstacles:  2\n"),
        "{all}"
    );
    let long_option = sandbox.run("qstat", &["--why", "--verbose", &stopped]).ok();
    // The first line has the waiting time, which may differ.
    let without_first_line = |text: &str| text.split_once('\n').map(|(_, rest)| rest.to_string());
    assert_eq!(without_first_line(&long_option), without_first_line(&all));
    assert_eq!(sandbox.run("qstat", &["-v"]).code, 2);
    assert_eq!(sandbox.run("qstat", &["--start", "-v"]).code, 2);
}

/// The suggested command makes the job start.
#[test]
fn the_suggested_walltime_lets_the_job_start() {
    let sandbox = nodes(1, "");
    let runs = submit(&sandbox, &["-l", "select=1:ncpus=3"]);
    sandbox.running(&runs);
    submit(&sandbox, &["-l", "select=1:ncpus=4"]);
    let waits = sandbox.submit(
        &["-l", "select=1:ncpus=1", "-l", "walltime=9:00:00"],
        "sleep 600\n",
    );
    let answer = why_for(&sandbox, &waits, "would_delay_booking");
    assert_eq!(failed_stage(&answer), "allocate");
    let seconds = answer["walltime_to_start_now"].as_i64().unwrap();
    assert!((3000..=3600).contains(&seconds), "{answer}");
    let help = answer["reason"]["help"][0].as_str().unwrap();
    let command = help.split(": ").nth(1).unwrap();
    let done = sandbox.shell(command);
    assert_eq!(done.code, 0, "{command}: {done:?}");
    sandbox.running(&waits);
}

#[test]
fn limits_and_licenses_are_shown_with_their_usage() {
    let sandbox = nodes(
        1,
        "[[resource]]\nname = \"nuke\"\ntype = \"long\"\nconsumable = true\nhost_level = false\ntotal = 3\n",
    );
    let runs = submit(&sandbox, &["-l", "select=1:ncpus=1", "-l", "nuke=2"]);
    sandbox.running(&runs);
    let waits = submit(&sandbox, &["-l", "select=1:ncpus=1", "-l", "nuke=2"]);
    let answer = why_for(&sandbox, &waits, "licence_wait");
    assert_eq!(failed_stage(&answer), "throttle");
    assert_eq!(
        answer["limits"],
        json!([{"limit": "nuke", "value": "3", "used": "2", "by": [], "more": 0}]),
        "{answer}"
    );
    assert_eq!(answer["nodes"]["fitting"], 1, "{answer}");
    let array = submit(&sandbox, &["-J", "1-4%1", "-l", "select=1:ncpus=1"]);
    sandbox.until("its first subjob", || {
        (sandbox.state(&array) == "B").then_some(())
    });
    let answer = why_for(&sandbox, &array, "array_limit");
    let limit = json!({"limit": "max_run_subjobs", "value": "1", "used": "1", "by": [], "more": 0});
    assert_eq!(answer["limits"], json!([limit]), "{answer}");
    assert_eq!(answer["state"], "B");
}
