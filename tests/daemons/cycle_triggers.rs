//! Triggers of scheduling cycles (Q1, X2), as `qstat --cycles` shows them. A cycle also runs
//! periodically, even if no event has arrived (Q30).

use crate::support::installation::shared;
use crate::support::people::two_users;
use crate::support::sandbox::Sandbox;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Configuration of this host as a node with one processor, followed by `more`.
fn one_processor_with(more: &str) -> String {
    let host = lanai::sys::sensors::short_host_name();
    format!("[server]\nname = \"head\"\n[[node]]\nname = \"{host}\"\nncpus = 1\n{more}")
}

/// All recorded cycles.
#[track_caller]
fn cycles(sandbox: &Sandbox) -> Vec<Value> {
    let output = sandbox.run("qstat", &["--cycles", "-F", "json"]).ok();
    let document: Value = serde_json::from_str(&output).unwrap();
    document["Cycles"].as_array().unwrap().clone()
}

/// Triggers of a cycle, such as `slot_free:n1`.
fn triggers(cycle: &Value) -> Vec<String> {
    let label = |trigger: &Value| {
        let object = ["host", "job", "resource", "node", "for"]
            .iter()
            .find_map(|kind| trigger[*kind].as_str());
        let name = trigger["trigger"].as_str().unwrap();
        object.map_or(name.to_string(), |object| format!("{name}:{object}"))
    };
    cycle["triggers"]
        .as_array()
        .unwrap()
        .iter()
        .map(label)
        .collect()
}

#[test]
fn q1_each_cycle_shows_its_triggers() {
    let sandbox = Sandbox::configured(&one_processor_with("[cycle]\npoll_interval = \"1h\"\n"));
    let host = lanai::sys::sensors::short_host_name();
    let first = sandbox.submit(&["-l", "select=1:ncpus=1"], "sleep 1\n");
    sandbox.running(&first);
    let second = sandbox.submit(&["-l", "select=1:ncpus=1"], "sleep 60\n");
    let ended = sandbox.ended(&first);
    sandbox.running(&second);
    let third = sandbox.submit(&["-l", "select=1:ncpus=1"], "true\n");
    sandbox.run("qalter", &["--shove", &third]).ok();
    let all = cycles(&sandbox);
    let starts: Vec<(Vec<String>, i64)> = all
        .iter()
        .map(|cycle| (triggers(cycle), cycle["started"].as_i64().unwrap()))
        .collect();
    let slot_free = starts
        .iter()
        .find(|(names, _)| names.contains(&format!("slot_free:{host}")));
    assert_eq!(
        slot_free.map(|(_, started)| *started),
        Some(1),
        "{ended} {starts:?}"
    );
    assert_eq!(
        starts.last().unwrap(),
        &(vec![format!("shove:{third}")], 0),
        "{starts:?}"
    );
    assert!(
        starts
            .iter()
            .any(|(names, _)| names.contains(&format!("submit:{third}"))),
        "{starts:?}"
    );
    assert!(
        starts
            .iter()
            .all(|(names, _)| !names.is_empty() && !names.contains(&"poll".to_string())),
        "{starts:?}"
    );
    let numbers: Vec<i64> = all
        .iter()
        .map(|cycle| cycle["cycle"].as_i64().unwrap())
        .collect();
    assert!(
        numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{numbers:?}"
    );
    // Recorded cycles are on disk and survive a crash of schedd.
    sandbox.kill("schedd");
    let later = sandbox.run("qstat", &["--cycles"]).ok();
    assert!(
        later
            .lines()
            .last()
            .unwrap()
            .ends_with(&format!("shove:{}", third.split('.').next().unwrap())),
        "{later}"
    );
    sandbox.run("qdel", &[&second, &third]);
}

#[test]
fn an_unauthorized_shove_is_refused_and_a_shoved_deferred_job_starts() {
    let sandbox = Sandbox::configured(&one_processor_with(""));
    let waiting = sandbox.submit(&["-W", "retry=3", "-W", "retry_delay=1:00:00"], "exit 3\n");
    sandbox.until("the failure of the first attempt", || {
        let job = sandbox.job(&waiting);
        (job["job_state"] == "Q" && job["run_count"] == 1).then_some(())
    });
    for attempt in 2..=3 {
        sandbox.run("qalter", &["--shove", &waiting]).ok();
        sandbox.until("the next attempt", || {
            (sandbox.job(&waiting)["run_count"] == attempt).then_some(())
        });
        sandbox.until("the end of the attempt", || {
            (sandbox.state(&waiting) == "Q").then_some(())
        });
    }
    sandbox.run("qhold", &[&waiting]).ok();
    let refused = sandbox.run("qalter", &["--shove", &waiting]);
    assert!(
        refused.code != 0 && refused.err.contains("invalid for state of job"),
        "{refused:?}"
    );
    let output = sandbox.run("tracejob", &[&waiting]).out;
    assert_eq!(
        output.matches("Job to be considered immediately").count(),
        2,
        "{output}"
    );
    sandbox.run("qdel", &[&waiting]);
}

#[test]
fn heartbeats_that_change_nothing_start_no_cycle() {
    let sandbox = Sandbox::configured(&one_processor_with("[cycle]\npoll_interval = \"1h\"\n"));
    let running = sandbox.submit(&[], "sleep 60\n");
    let waiting = sandbox.submit(&[], "true\n");
    sandbox.running(&running);
    // Wait until the startup of the node and its first load reports have caused their cycles.
    sandbox.until("cycles to stop", || {
        let before = cycles(&sandbox).len();
        std::thread::sleep(Duration::from_millis(1500));
        (cycles(&sandbox).len() == before).then_some(())
    });
    let before = cycles(&sandbox);
    std::thread::sleep(Duration::from_secs(12));
    let after = cycles(&sandbox);
    assert_eq!(
        after.len(),
        before.len(),
        "{:?}",
        after.iter().map(triggers).collect::<Vec<_>>()
    );
    sandbox.run("qdel", &[&waiting, &running]);
}

/// The scheduler receives no events.
#[test]
fn q30_a_job_with_a_lost_event_starts_at_the_next_poll() {
    let sandbox = Sandbox::configured(&one_processor_with("[cycle]\npoll_interval = \"3s\"\n"));
    let sandbox = sandbox.with("LANAI_FAULTS", "cycle.event:1/1:fail");
    sandbox.run("schedd", &[]).ok();
    sandbox.until("the node", || {
        sandbox
            .run("pbsnodes", &["-a"])
            .out
            .contains("state = free")
            .then_some(())
    });
    for round in 1..=2 {
        let submitted = Instant::now();
        let id = sandbox.submit(&[], "true\n");
        sandbox.ended(&id);
        let waited = submitted.elapsed();
        assert!(waited < Duration::from_secs(3 + 3), "{round}: {waited:?}");
    }
    let all = cycles(&sandbox);
    let starting: Vec<&Value> = all.iter().filter(|cycle| cycle["started"] == 1).collect();
    assert_eq!(starting.len(), 2, "{all:?}");
    for cycle in starting {
        assert!(triggers(cycle).contains(&"poll".to_string()), "{cycle}");
    }
}

/// Only operators may list cycles and set license counts. Users may apply `qalter --shove` to their
/// own jobs, operators to all jobs.
#[test]
fn only_operators_see_cycles_set_license_counts_and_shove() {
    let Some([ann, bob]) = two_users("cycles") else {
        return;
    };
    let nuke = "[[resource]]\nname = \"nuke\"\ntype = \"long\"\nconsumable = true\nhost_level = false\ntotal = 5\n";
    let sandbox = shared(&format!("operators = [\"{}\"]\n{nuke}", bob.name));
    let id = ann.submit(&sandbox, &["-l", "nuke=4"], "sleep 60");
    sandbox.running(&id);
    let waiting = ann.submit(&sandbox, &["-l", "nuke=4"], "true");
    let set_total = ["-c", "set resource nuke total=4"];
    for (program, arguments) in [("qstat", &["--cycles"][..]), ("qmgr", &set_total[..])] {
        let done = ann.run(&sandbox, program, arguments);
        assert!(
            done.code != 0 && done.err.contains("Unauthorized Request"),
            "{done:?}"
        );
        bob.run(&sandbox, program, arguments).ok();
    }
    assert!(
        ann.run(&sandbox, "qstat", &["--resources"])
            .ok()
            .contains(&bob.name)
    );
    ann.run(&sandbox, "qalter", &["--shove", &waiting]).ok();
    bob.run(&sandbox, "qalter", &["--shove", &waiting]).ok();
    let number = waiting.split('.').next().unwrap();
    assert!(
        bob.run(&sandbox, "qstat", &["--cycles"])
            .ok()
            .contains(&format!("shove:{number}"))
    );
    let own = bob.submit(&sandbox, &["-l", "nuke=4"], "true");
    let refused = ann.run(&sandbox, "qalter", &["--shove", &own]);
    assert!(
        refused.code != 0 && refused.err.contains("Unauthorized Request"),
        "{refused:?}"
    );
    sandbox.run("qdel", &[&id, &waiting, &own]);
}
