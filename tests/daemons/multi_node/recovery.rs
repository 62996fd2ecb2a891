//! Killed daemons, unreachable and rebooted nodes.

use super::{Cluster, NODES, all_ended, is_alive, status};
use crate::support::sandbox::{Sandbox, kill};
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// Asserts that the tasks of a job survive the death of `victims` and end with their own status.
fn survive(victims: &[&'static str]) {
    let cluster = Cluster::new();
    let (id, pids) = cluster.waiting("; echo pbsdsh $?; exit 6");
    for &victim in victims {
        match victim {
            "schedd" => cluster.sandbox.kill("schedd"),
            node => cluster.kill(node),
        }
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!(pids.iter().all(|&pid| is_alive(pid)));
    // A task that ends without a noded is reported later.
    if victims.contains(&"n3") {
        cluster.go();
        cluster
            .sandbox
            .until("the end of the task on n3", || all_ended(&pids[2..]));
    }
    victims
        .iter()
        .filter(|victim| **victim != "schedd")
        .for_each(|node| cluster.start(node, &[]));
    cluster.start_schedd();
    cluster.go();
    let job = cluster.sandbox.ended(&id);
    assert_eq!((status(&job), &job["run_count"]), (6, &json!(1)), "{job}");
    let out = cluster.sandbox.read("out");
    for line in [
        "over 0",
        "over 1",
        "over 2",
        "pbsdsh: task 0x00000001 exit status 1",
        "pbsdsh 2",
    ] {
        assert_eq!(
            out.matches(&format!("{line}\n")).count(),
            1,
            "{line}: {out}"
        );
    }
    (0..3).for_each(|slot| assert_eq!(cluster.starts(slot), 1, "task {slot}"));
    cluster.wait_for_cleanup();
}

#[test]
fn killing_the_noded_of_a_sister_node_loses_no_task() {
    survive(&["n3"]);
}

#[test]
fn requests_for_an_unreachable_node_are_refused() {
    let cluster = Cluster::new();
    let id = cluster.submit("trap 'echo caught; exit 4' USR1; while :; do sleep 0.02; done\n");
    cluster.sandbox.running(&id);
    cluster.kill("n1");
    cluster.sandbox.until("n1 to be down", || {
        cluster
            .sandbox
            .run("pbsnodes", &["n1"])
            .out
            .contains("state = down")
            .then_some(())
    });
    for (command, arguments) in [
        ("qsig", &["-s", "USR1", &id]),
        ("qmsg", &["-O", "hello", &id]),
    ] {
        let done = cluster.sandbox.run(command, arguments);
        assert!(
            done.code != 0 && done.err.contains("the job's node does not respond"),
            "{done:?}"
        );
    }
    cluster.start("n1", &[]);
    cluster.sandbox.until("the signal", || {
        (cluster.sandbox.run("qsig", &["-s", "USR1", &id]).code == 0).then_some(())
    });
    assert_eq!(status(&cluster.sandbox.ended(&id)), 4);
    assert!(cluster.sandbox.read("out").ends_with("caught\n"));
}

#[test]
fn killing_the_noded_of_the_first_node_loses_no_task() {
    survive(&["n1"]);
}

#[test]
fn killing_schedd_loses_no_task() {
    survive(&["schedd"]);
}

#[test]
fn killing_all_daemons_at_once_loses_no_task() {
    survive(&["schedd", "n1", "n2", "n3"]);
}

#[test]
fn tasks_requested_while_daemons_are_killed_run_once() {
    let cluster = Cluster::new();
    let task = "n=1; while ! (set -C; : > ran.$PBS_TASKNUM.$n) 2>/dev/null; do n=$((n+1)); done; echo task";
    cluster.sandbox.script("task", task);
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do pbsdsh ./task || exit 1; : > round.$i; done\n";
    let id = cluster.submit(script);
    for (round, victim) in [(2, "n2"), (4, "schedd"), (6, "n1"), (8, "n3")] {
        cluster.sandbox.until("a round", || {
            cluster
                .sandbox
                .file(&format!("round.{round}"))
                .exists()
                .then_some(())
        });
        match NODES.into_iter().find(|node| *node == victim) {
            Some(node) => {
                cluster.kill(node);
                cluster.start(node, &[]);
            }
            None => {
                cluster.sandbox.kill("schedd");
                cluster.start_schedd();
            }
        }
    }
    assert_eq!(status(&cluster.sandbox.ended(&id)), 0);
    assert_eq!(cluster.sandbox.read("out").matches("task\n").count(), 30);
    let ran = fs::read_dir(cluster.sandbox.work()).unwrap().flatten();
    let ran: Vec<String> = ran
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(
        ran.iter()
            .filter(|name| name.starts_with("ran.") && name.ends_with(".1"))
            .count(),
        30
    );
    assert_eq!(
        ran.iter().filter(|name| name.starts_with("ran.")).count(),
        30,
        "a task ran twice: {ran:?}"
    );
}

/// Faults in daemons and commands: operations that fail, are truncated, or end the process.
const FAULTS: &str = "socket.read:1/300:fail,socket.write:1/300:short,socket.write:1/1000:fail,\
    socket.connect:1/200:fail,spool.commit:1/100:fail,spool.committed:1/300:crash,attempt.exit:1/100:fail,\
    attempt.tombstone:1/50:fail,noded.epoch:1/20:fail";

#[test]
#[ignore = "takes a minute: make torture"]
fn torture_tasks_with_kills() {
    torture(Sandbox::new());
}

#[test]
#[ignore = "takes a minute: make torture"]
fn torture_tasks_with_kills_and_faults() {
    torture(Sandbox::new().with("LANAI_FAULTS", FAULTS));
}

/// Kills every noded and schedd repeatedly, at varying times.
fn torture(sandbox: Sandbox) {
    let cluster = Cluster::in_sandbox(sandbox);
    let task =
        "n=1; while ! (set -C; : > ran.$PBS_TASKNUM.$n) 2>/dev/null; do n=$((n+1)); done; exit 3";
    cluster.sandbox.script("task", task);
    let script = "i=0; while [ $i -lt 100 ]; do pbsdsh ./task 2>>errors; [ $? = 3 ] || echo round $i >> wrong; i=$((i+1)); done\n";
    // A fault may cause the submission to be refused, with a message.
    let accepted =
        || Some(cluster.try_submit("select=3:ncpus=1", script)).filter(|done| done.code == 0);
    let id = cluster
        .sandbox
        .until("an accepted submission", accepted)
        .line();
    let seed = std::env::var("TORTURE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let mut pause: u64 = seed.unwrap_or(u64::from(std::process::id()) % 400 + 1);
    println!("TORTURE_SEED={pause}");
    for victim in ["n2", "schedd", "n1", "n3"].into_iter().cycle() {
        pause = pause * 31 % 401;
        std::thread::sleep(Duration::from_millis(pause));
        if cluster.sandbox.state(&id) == "F" {
            break;
        }
        match NODES.into_iter().find(|node| *node == victim) {
            Some(node) => {
                cluster.kill(node);
                cluster.start(node, &[]);
            }
            None => {
                cluster
                    .sandbox
                    .pids_of("schedd")
                    .into_iter()
                    .for_each(|pid| kill(pid, 9));
                // A fault may end schedd during startup, with a message.
                let starts = || (cluster.sandbox.run("schedd", &[]).code == 0).then_some(());
                cluster.sandbox.until("schedd", starts);
            }
        }
    }
    let wrong = fs::read_to_string(cluster.sandbox.file("wrong")).unwrap_or_default();
    assert_eq!(wrong, "", "{}", cluster.sandbox.read("errors"));
    let ran = fs::read_dir(cluster.sandbox.work()).unwrap().flatten();
    let ran: Vec<String> = ran
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    let ran: Vec<&String> = ran.iter().filter(|name| name.starts_with("ran.")).collect();
    assert_eq!(
        (
            ran.len(),
            ran.iter().filter(|name| name.ends_with(".1")).count()
        ),
        (300, 300),
        "{ran:?}"
    );
    cluster.wait_for_cleanup();
}

#[test]
fn a_job_deleted_while_a_sister_node_is_down_finishes_at_once() {
    let cluster = Cluster::new();
    let (id, pids) = cluster.waiting("");
    cluster.kill("n2");
    cluster.sandbox.run("qdel", &[&id]).ok();
    assert_eq!(status(&cluster.sandbox.ended(&id)), 271);
    cluster.sandbox.until("the end of the other tasks", || {
        all_ended(&[pids[0], pids[2]])
    });
    assert!(is_alive(pids[1]));
    let next = cluster.sandbox.submit(
        &["-l", "select=3:ncpus=4", "-l", "place=scatter"],
        "exit 0\n",
    );
    cluster.sandbox.kill("schedd");
    cluster.start_schedd();
    assert_eq!(cluster.sandbox.state(&next), "Q");
    let two = cluster.sandbox.submit(
        &["-l", "select=2:ncpus=4", "-l", "place=scatter"],
        "exit 0\n",
    );
    assert_eq!(
        status(&cluster.sandbox.ended(&two)),
        0,
        "the nodes that respond must be free"
    );
    cluster.start("n2", &[]);
    cluster
        .sandbox
        .until("the end of the task", || all_ended(&pids[1..2]));
    assert_eq!(status(&cluster.sandbox.ended(&next)), 0);
    cluster.wait_for_cleanup();
}

/// M32, G4: after a restart of schedd, no job starts that would delay a planned start while some
/// nodes have not reconnected.
#[test]
fn a_planned_start_on_all_nodes_survives_a_late_node_after_a_restart() {
    let cluster = Cluster::new();
    let sandbox = &cluster.sandbox;
    let hold = "while [ ! -e go ]; do sleep 0.05; done\n";
    let first = sandbox.submit(&["-l", "select=1:ncpus=4", "-l", "walltime=1:00:00"], hold);
    sandbox.running(&first);
    let wide = sandbox.submit(
        &[
            "-l",
            "select=3:ncpus=4",
            "-l",
            "place=scatter",
            "-l",
            "walltime=600",
        ],
        "true\n",
    );
    let promise =
        || Some(sandbox.job(&wide)["estimated"].clone()).filter(|estimated| !estimated.is_null());
    let promised = sandbox.until("the planned start", promise);
    let long = sandbox.submit(
        &["-l", "select=1:ncpus=4", "-l", "walltime=2:00:00"],
        "true\n",
    );
    sandbox.kill("schedd");
    let late = cluster.nodeds.lock().unwrap()["n2"].id() as i32;
    kill(late, 19);
    cluster.start_schedd();
    sandbox.until("n3", || {
        sandbox
            .run("pbsnodes", &["n3"])
            .out
            .contains("state = free")
            .then_some(())
    });
    std::thread::sleep(Duration::from_millis(300));
    kill(late, 18);
    let short = sandbox.submit(&["-l", "select=1:ncpus=4", "-l", "walltime=60"], "true\n");
    assert_eq!(
        status(&sandbox.ended(&short)),
        0,
        "a job that delays no planned start must start"
    );
    assert_eq!(
        (sandbox.state(&long).as_str(), promise()),
        ("Q", Some(promised))
    );
    cluster.go();
    assert_eq!(status(&sandbox.ended(&wide)), 0);
    assert_eq!(status(&sandbox.ended(&long)), 0);
}

/// schedd waits for an absent node only once after its start, and only for a short time.
#[test]
fn an_unreachable_node_blocks_no_job_after_a_restart() {
    let cluster = Cluster::new();
    cluster.sandbox.kill("schedd");
    cluster.kill("n2");
    for _ in 0..2 {
        cluster.start_schedd();
        let job = cluster.sandbox.submit(
            &["-l", "select=2:ncpus=4", "-l", "place=scatter"],
            "exit 3\n",
        );
        assert_eq!(status(&cluster.sandbox.ended(&job)), 3);
        cluster.sandbox.until("n2 to be down", || {
            cluster
                .sandbox
                .run("pbsnodes", &["n2"])
                .out
                .contains("state = down")
                .then_some(())
        });
        cluster.sandbox.kill("schedd");
    }
    cluster.start_schedd();
}

#[test]
fn the_comment_shows_an_unreachable_sister_node_until_it_reconnects() {
    let cluster = Cluster::new();
    let (id, _) = cluster.waiting("");
    let comment = || {
        cluster.sandbox.job(&id)["comment"]
            .as_str()
            .unwrap_or_default()
            .to_string()
    };
    cluster.kill("n2");
    cluster
        .sandbox
        .until("the lost contact in the comment", || {
            comment()
                .starts_with("Lost contact with node n2 on ")
                .then_some(())
        });
    assert_eq!(cluster.sandbox.state(&id), "R");
    cluster.start("n2", &[]);
    cluster.sandbox.until("the comment to be restored", || {
        comment().starts_with("Job run at ").then_some(())
    });
    cluster.go();
    assert_eq!(status(&cluster.sandbox.ended(&id)), 2);
}

#[test]
fn a_rebooted_sister_node_loses_its_tasks_and_the_job_continues() {
    let cluster = Cluster::new();
    let (id, pids) = cluster.waiting("; echo pbsdsh $?; exit 6");
    cluster.kill("n3");
    let home = cluster.sandbox.home();
    simulate_power_failure(&home.join("n3"), pids[2]);
    let boot = home.join("boot");
    fs::write(&boot, "another\n").unwrap();
    cluster.start("n3", &[("LANAI_TEST_BOOT", boot.to_str().unwrap())]);
    let loss = "task 0x00000002 exit status 254";
    cluster.sandbox.until("the lost task", || {
        cluster.output_so_far(&id).contains(loss).then_some(())
    });
    cluster.go();
    assert_eq!(status(&cluster.sandbox.ended(&id)), 6);
    assert!(cluster.sandbox.read("out").contains("pbsdsh 254\n"));
    assert_eq!(cluster.starts(2), 1);
}

/// Simulates a power failure of one host: kills the shepherds of its node and the process `task`.
fn simulate_power_failure(state: &std::path::Path, task: i32) {
    for entry in fs::read_dir(state.join("attempts")).unwrap().flatten() {
        let record = fs::read(entry.path().join("record")).unwrap();
        let text = String::from_utf8_lossy(&record[..512]).into_owned();
        let identity: Value = serde_json::from_str(text.trim()).unwrap();
        kill(identity["pid"].as_i64().unwrap() as i32, 9);
    }
    kill(task, 9);
}
