//! Suspended and resumed jobs (`qsig -s suspend`): their processes stop and continue without loss.

use crate::support::sandbox::{Sandbox, refused_exactly};
use lanai::sys::procfs;
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

/// Short name of this host, which is also its node name.
fn host() -> String {
    let name = nix::unistd::gethostname().unwrap().into_string().unwrap();
    name.split('.').next().unwrap().to_string()
}

/// This host with two processors.
fn two_processors() -> Sandbox {
    Sandbox::configured(&format!(
        "[[node]]\nname = \"{}\"\nncpus = 2\nmem = \"4gb\"\n",
        host()
    ))
}

/// Script that counts in a file until the file `end` exists. A child process does the work and
/// records its pid.
const COUNTS: &str = "sh -c 'echo $$ > worker; i=0; while [ ! -e end ]; do i=$((i+1)); echo $i > new; mv new count; \
                      sleep 0.01; done' &\nwait $!\n";

fn counting(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let id = sandbox.submit(arguments, COUNTS);
    sandbox.running(&id);
    sandbox.until("the first count", || (count(sandbox) > 0).then_some(()));
    id
}

fn count(sandbox: &Sandbox) -> u64 {
    fs::read_to_string(sandbox.file("count"))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

fn number(sandbox: &Sandbox, file: &str) -> i32 {
    sandbox.until(file, || {
        fs::read_to_string(sandbox.file(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    })
}

/// True if a process is stopped: by a signal, in a frozen control group, or in state D as a shell
/// whose child was stopped between fork and exec, which handles no signal until the child
/// continues.
fn is_stopped(pid: i32) -> bool {
    let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let group = group
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .unwrap_or_default()
        .to_string();
    let frozen = |root: &str| {
        let events = fs::read_to_string(format!("{root}{group}/cgroup.events")).unwrap_or_default();
        events.lines().any(|line| line == "frozen 1")
    };
    procfs::process(pid).is_some_and(|process| b"TtD".contains(&process.state))
        || frozen("/sys/fs/cgroup")
        || frozen("/sys/fs/cgroup/unified")
}

/// Waits until the worker is stopped; returns its count. State D alone may also be a short wait for
/// the disk, so the count must not change.
#[track_caller]
fn still(sandbox: &Sandbox) -> u64 {
    let worker = number(sandbox, "worker");
    let stands = || {
        let counted = count(sandbox);
        std::thread::sleep(Duration::from_millis(150));
        (is_stopped(worker) && count(sandbox) == counted).then_some(counted)
    };
    let counted = sandbox.until("the stop", stands);
    assert_eq!(stands(), Some(counted), "it stays so");
    counted
}

#[track_caller]
fn goes_on(sandbox: &Sandbox, from: u64) {
    let worker = number(sandbox, "worker");
    sandbox.until("the worker", || {
        (!is_stopped(worker) && count(sandbox) > from + 3).then_some(())
    });
}

fn turn(sandbox: &Sandbox, how: &str, id: &str) {
    assert_eq!(sandbox.run("qsig", &["-s", how, id]).ok(), "");
}

fn end(sandbox: &Sandbox) {
    fs::write(sandbox.file("end"), "").unwrap();
}

fn seconds(job: &Value) -> i64 {
    let text = job["resources_used"]["walltime"].as_str().unwrap();
    text.split(':')
        .fold(0, |sum, part| sum * 60 + part.parse::<i64>().unwrap())
}

#[test]
fn a_suspended_job_stops_releases_its_cpus_and_resumes() {
    let sandbox = two_processors();
    let id = counting(&sandbox, &["-l", "select=1:ncpus=2:mem=1gb"]);
    let waiting = sandbox.submit(
        &["-l", "select=1:ncpus=2"],
        "while [ ! -e enough ]; do sleep 0.02; done\n",
    );
    let greedy = sandbox.submit(&["-l", "select=1:ncpus=0:mem=4gb"], "true\n");
    turn(&sandbox, "suspend", &id);
    let job = sandbox.job(&id);
    assert_eq!(
        (&job["job_state"], &job["substate"], &job["comment"]),
        (&json!("S"), &json!(43), &Value::Null)
    );
    let counted = still(&sandbox);
    let why = sandbox.run("qstat", &["--why", &id]).ok();
    assert!(why.contains("; qsig -s resume resumes it."), "{why}");
    let foreseen = sandbox.run("qstat", &["--start", &id]).ok();
    assert!(
        !foreseen.ends_with(&format!(" {}\n", host())),
        "nobody can tell: {foreseen}"
    );
    sandbox.running(&waiting);
    assert_eq!(sandbox.state(&greedy), "Q", "memory is not given up");
    turn(&sandbox, "resume", &id);
    let job = sandbox.job(&id);
    assert_eq!(
        (&job["job_state"], &job["substate"]),
        (&json!("S"), &json!(45)),
        "its processors are taken"
    );
    assert!(
        job["comment"]
            .as_str()
            .unwrap()
            .contains("until resources are free"),
        "{job}"
    );
    let foreseen = sandbox.run("qstat", &["--start", &id]).ok();
    assert!(
        foreseen
            .lines()
            .last()
            .unwrap()
            .ends_with(&format!(" {}", host())),
        "{foreseen}"
    );
    let why = sandbox.run("qstat", &["--why", &id]).ok();
    assert!(
        why.contains("has been suspended since")
            && why.contains("resumes when its resources are free"),
        "{why}"
    );
    assert_eq!(still(&sandbox), counted);
    fs::write(sandbox.file("enough"), "").unwrap();
    sandbox.ended(&waiting);
    sandbox.until("the resumption", || {
        (sandbox.state(&id) == "R").then_some(())
    });
    goes_on(&sandbox, counted);
    let job = sandbox.job(&id);
    assert_eq!(job["substate"], 42);
    assert!(
        job["comment"].as_str().unwrap().starts_with("Job run at "),
        "{job}"
    );
    end(&sandbox);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    assert_eq!(sandbox.ended(&greedy)["Exit_status"], 0);
    let output = sandbox.run("tracejob", &[&id]).ok();
    for told in [
        "Job to be suspended at request of",
        "all processes stopped",
        "Job to be resumed at",
        "Resumed, attempt 1",
    ] {
        assert!(output.contains(told), "{told}: {output}");
    }
}

/// Without a control group every process is stopped by a signal, including those with a session of
/// their own. A process that the job itself had stopped remains stopped.
#[test]
fn without_control_groups_every_process_of_it_is_stopped_by_a_signal() {
    let sandbox = Sandbox::new();
    sandbox
        .run(
            "noded",
            &[
                "--no-cgroups",
                "--nodes",
                "1",
                "--ncpus",
                "2",
                "--mem",
                "4gb",
                "--name",
                "h",
            ],
        )
        .ok();
    let script = format!(
        "sleep 600 & echo $! > own; kill -STOP $!\n\
         setsid sh -c 'echo $$ > away; while [ ! -e end ]; do sleep 0.02; done; kill -9 $(cat own)' &\n{COUNTS}wait\n"
    );
    let id = sandbox.submit(&["-l", "ncpus=2"], &script);
    sandbox.running(&id);
    let pids = ["own", "away", "worker"].map(|file| number(&sandbox, file));
    let states = || pids.map(|pid| procfs::process(pid).map_or(b'-', |process| process.state));
    // State D: a shell whose child was stopped between fork and exec.
    let are_stopped = || {
        states()
            .iter()
            .all(|state| b"TD".contains(state))
            .then_some(())
    };
    turn(&sandbox, "suspend", &id);
    sandbox.until("the stop", are_stopped);
    let counted = still(&sandbox);
    let other = sandbox.submit(&["-l", "ncpus=2"], "true\n");
    assert_eq!(sandbox.ended(&other)["Exit_status"], 0);
    // A process continued from outside is stopped again.
    crate::support::sandbox::kill(pids[2], 18);
    sandbox.until("the second stop", are_stopped);
    let counted = counted.max(count(&sandbox));
    turn(&sandbox, "resume", &id);
    goes_on(&sandbox, counted);
    assert_eq!(
        (states()[0], states()[1] == b'T'),
        (b'T', false),
        "what it had stopped itself stays so"
    );
    turn(&sandbox, "suspend", &id);
    still(&sandbox);
    let began = Instant::now();
    sandbox.run("qdel", &[&id]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 271);
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    sandbox.until("the end of all", || {
        pids.iter()
            .all(|&pid| procfs::process(pid).is_none())
            .then_some(())
    });
}

/// The job is charged for the time it runs, in two rows with their own begin and end.
#[test]
fn it_is_charged_for_each_stretch_that_it_runs_and_not_for_the_pause() {
    let sandbox = two_processors();
    let id = counting(&sandbox, &["-l", "ncpus=2"]);
    turn(&sandbox, "suspend", &id);
    still(&sandbox);
    std::thread::sleep(Duration::from_secs(3));
    turn(&sandbox, "resume", &id);
    goes_on(&sandbox, count(&sandbox));
    std::thread::sleep(Duration::from_millis(500));
    end(&sandbox);
    let walltime = seconds(&sandbox.ended(&id));
    let spool = rusqlite::Connection::open(sandbox.home().join("spool/spool.db")).unwrap();
    let mut rows = spool
        .prepare("SELECT part, began, ended FROM charge ORDER BY began")
        .unwrap();
    let rows = rows
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap();
    let rows: Vec<(i64, i64, i64)> = rows.map(Result::unwrap).collect();
    let [(_, _, stopped), (0, went_on, _)] = rows[..] else {
        panic!("{rows:?}")
    };
    assert!(went_on - stopped >= 3000, "{rows:?}");
    let charged: i64 = rows.iter().map(|(_, from, to)| to - from).sum();
    assert!(
        (charged / 1000 - walltime).abs() <= 1,
        "{rows:?} {walltime}"
    );
}

#[test]
fn the_time_that_it_stands_still_is_none_of_its_walltime() {
    let sandbox = two_processors();
    let id = counting(&sandbox, &["-l", "ncpus=1,walltime=3"]);
    turn(&sandbox, "suspend", &id);
    still(&sandbox);
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(sandbox.state(&id), "S", "its walltime is not over");
    turn(&sandbox, "resume", &id);
    sandbox.running(&id);
    let job = sandbox.ended(&id);
    assert_eq!(
        (&job["Exit_status"], seconds(&job)),
        (&json!(-29), 3),
        "{job}"
    );
    let accounts = sandbox.run("qacct", &["-j", &id]).ok();
    let walltime = accounts
        .lines()
        .find_map(|line| line.strip_prefix("walltime "))
        .map(str::trim);
    // The four suspended seconds are not included. The test machine may detect the end late.
    assert!(
        walltime.is_some_and(|walltime| walltime.starts_with("3.")),
        "{accounts}"
    );
}

#[test]
fn it_stays_suspended_and_can_be_resumed_though_all_daemons_are_killed_meanwhile() {
    let sandbox = two_processors();
    let id = counting(&sandbox, &["-l", "ncpus=1"]);
    turn(&sandbox, "suspend", &id);
    let counted = still(&sandbox);
    for victims in [&["schedd"][..], &["noded"], &["schedd", "noded"]] {
        victims.iter().for_each(|victim| sandbox.kill(victim));
        sandbox.run("schedd", &[]).ok();
        let is_up = || {
            sandbox
                .run("pbsnodes", &["-F", "json", &host()])
                .out
                .contains("free")
        };
        sandbox.until("its node", || is_up().then_some(()));
        assert_eq!(
            (sandbox.state(&id).as_str(), still(&sandbox)),
            ("S", counted),
            "{victims:?}"
        );
    }
    turn(&sandbox, "resume", &id);
    sandbox.until("the resumption", || {
        (sandbox.state(&id) == "R").then_some(())
    });
    goes_on(&sandbox, counted);
    // The shepherd is older than the current noded, which still controls it.
    turn(&sandbox, "suspend", &id);
    let counted = still(&sandbox);
    let other = sandbox.submit(&["-l", "ncpus=2"], "true\n");
    assert_eq!(
        sandbox.ended(&other)["Exit_status"],
        0,
        "its processors are free"
    );
    turn(&sandbox, "resume", &id);
    goes_on(&sandbox, counted);
    end(&sandbox);
    let job = sandbox.ended(&id);
    assert_eq!(
        (&job["Exit_status"], &job["run_count"]),
        (&json!(0), &json!(1))
    );
}

#[test]
fn requests_are_carried_out_after_an_absent_noded_returns() {
    let sandbox = two_processors();
    let id = counting(&sandbox, &["-l", "ncpus=2"]);
    sandbox.kill("noded");
    turn(&sandbox, "suspend", &id);
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    let counted = still(&sandbox);
    sandbox.kill("noded");
    turn(&sandbox, "resume", &id);
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    goes_on(&sandbox, counted);
    end(&sandbox);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
}

#[test]
fn a_suspended_job_that_is_deleted_or_requeued_ends_at_once() {
    for (command, state) in [("qdel", "F"), ("qrerun", "R")] {
        let sandbox = two_processors();
        let id = counting(&sandbox, &["-l", "ncpus=2"]);
        turn(&sandbox, "suspend", &id);
        still(&sandbox);
        let (worker, began) = (number(&sandbox, "worker"), Instant::now());
        sandbox.run(command, &[&id]).ok();
        sandbox.until("its end", || {
            (procfs::process(worker).is_none_or(|process| !process.lives())).then_some(())
        });
        sandbox.until("its state", || (sandbox.state(&id) == state).then_some(()));
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{command}: {:?}",
            began.elapsed()
        );
        end(&sandbox);
        let exit = if command == "qdel" { 271 } else { 0 };
        assert_eq!(sandbox.ended(&id)["Exit_status"], exit);
    }
}

/// Processors on which a process may run.
fn allowed(pid: i32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap().trim().to_string()
}

#[test]
fn it_resumes_on_the_cpus_that_are_free_then() {
    let sandbox = two_processors();
    let one = ["-l", "ncpus=1"];
    let id = counting(&sandbox, &one);
    let worker = number(&sandbox, "worker");
    let had = allowed(worker);
    if had.parse::<u16>().is_err() {
        return println!("skipped: nothing is bound to processors here");
    }
    let until = |file: &str| {
        sandbox.submit(
            &one,
            &format!("while [ ! -e {file} ]; do sleep 0.02; done\n"),
        )
    };
    let second = until("enough");
    sandbox.running(&second);
    turn(&sandbox, "suspend", &id);
    let counted = still(&sandbox);
    // The third job has the processor that was released; the resumed job gets that of the second.
    let third = until("end");
    sandbox.running(&third);
    fs::write(sandbox.file("enough"), "").unwrap();
    sandbox.ended(&second);
    turn(&sandbox, "resume", &id);
    goes_on(&sandbox, counted);
    let has = allowed(worker);
    assert!(
        has != had && has.parse::<u16>().is_ok(),
        "{had} before, {has} now"
    );
    end(&sandbox);
    assert_eq!(
        (
            &sandbox.ended(&id)["Exit_status"],
            &sandbox.ended(&third)["Exit_status"]
        ),
        (&json!(0), &json!(0))
    );
}

#[test]
fn its_tasks_on_other_nodes_stand_still_too() {
    let sandbox = Sandbox::new();
    sandbox
        .run(
            "noded",
            &[
                "--nodes", "2", "--ncpus", "2", "--mem", "4gb", "--name", "h",
            ],
        )
        .ok();
    let script = "pbsdsh -n 1 -o -- sh -c 'echo $$ > task; while [ ! -e end ]; do sleep 0.02; done'\n\
                  echo $$ > worker; while [ ! -e end ]; do i=$((i+1)); echo $i > new; mv new count; sleep 0.01; done\n";
    let id = sandbox.submit(
        &[
            "-l",
            "select=2:ncpus=2",
            "-l",
            "place=scatter",
            "-v",
            "PATH",
        ],
        script,
    );
    sandbox.running(&id);
    let task = number(&sandbox, "task");
    sandbox.until("the first count", || (count(&sandbox) > 0).then_some(()));
    turn(&sandbox, "suspend", &id);
    still(&sandbox);
    sandbox.until("the task", || is_stopped(task).then_some(()));
    let other = sandbox.submit(&["-l", "select=2:ncpus=2", "-l", "place=scatter"], "true\n");
    assert_eq!(
        sandbox.ended(&other)["Exit_status"],
        0,
        "the processors of both nodes are free"
    );
    turn(&sandbox, "resume", &id);
    goes_on(&sandbox, count(&sandbox));
    sandbox.until("the task", || (!is_stopped(task)).then_some(()));
    end(&sandbox);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
}

#[test]
fn signals_wait_for_it_but_for_those_that_would_wake_it() {
    let sandbox = two_processors();
    let script = "trap 'echo told > told' USR1\necho $$ > worker\n\
                  while [ ! -e end ]; do i=$((i+1)); echo $i > new; mv new count; sleep 0.01; done\n";
    let id = sandbox.submit(&["-l", "ncpus=1"], script);
    sandbox.until("the first count", || (count(&sandbox) > 0).then_some(()));
    sandbox.running(&id);
    turn(&sandbox, "suspend", &id);
    let counted = still(&sandbox);
    for signal in ["CONT", "USR1"] {
        sandbox.run("qsig", &["-s", signal, &id]).ok();
        assert_eq!(still(&sandbox), counted, "{signal}");
    }
    assert!(!sandbox.file("told").exists());
    turn(&sandbox, "resume", &id);
    sandbox.until("the signal", || sandbox.file("told").exists().then_some(()));
    goes_on(&sandbox, counted);
    turn(&sandbox, "suspend", &id);
    still(&sandbox);
    sandbox.run("qsig", &["-s", "KILL", &id]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 265);
}

#[test]
fn refused_suspensions_and_resumptions_are_reported() {
    let sandbox = two_processors();
    let id = counting(&sandbox, &["-l", "ncpus=1"]);
    let (held, number) = (sandbox.submit(&["-h"], "true\n"), id.clone());
    let said = |how: &str, id: &str| sandbox.run("qsig", &["-s", how, id]);
    let bad_state = format!("qsig: Request invalid for state of job {number}");
    let wrong = format!("qsig: Job can not be resumed with the requested resume signal {number}");
    for how in ["suspend", "resume", "admin-suspend", "admin-resume"] {
        refused_exactly(
            said(how, &held),
            168,
            &format!("qsig: Request invalid for state of job {held}"),
        );
    }
    refused_exactly(said("resume", &id), 168, &bad_state);
    turn(&sandbox, "suspend", &id);
    refused_exactly(said("suspend", &id), 168, &bad_state);
    refused_exactly(said("admin-resume", &id), 73, &wrong);
    turn(&sandbox, "resume", &id);
    sandbox.until("the resumption", || {
        (sandbox.state(&id) == "R").then_some(())
    });
    turn(&sandbox, "admin-suspend", &id);
    refused_exactly(said("resume", &id), 73, &wrong);
    still(&sandbox);
    assert!(
        sandbox
            .run("pbsnodes", &[&host()])
            .ok()
            .contains("state = maintenance")
    );
    let other = sandbox.submit(&["-l", "ncpus=1"], "true\n");
    sandbox.until("the reason", || {
        sandbox.job(&other)["comment"]
            .as_str()
            .is_some_and(|why| why.contains("No nodes available"))
            .then_some(())
    });
    turn(&sandbox, "admin-resume", &id);
    assert_eq!(sandbox.ended(&other)["Exit_status"], 0);
    end(&sandbox);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    refused_exactly(said("suspend", &id), 35, "qsig: Job has finished");
}

#[test]
fn all_running_subjobs_are_suspended_and_resumed_together() {
    let sandbox = two_processors();
    let script = "while [ ! -e end ]; do echo >> count.$PBS_ARRAY_INDEX; sleep 0.02; done\n";
    let array = sandbox.submit(&["-J", "1-3", "-l", "ncpus=1"], script);
    let element = |index: u32| array.replace("[]", &format!("[{index}]"));
    [1, 2]
        .iter()
        .for_each(|&index| drop(sandbox.running(&element(index))));
    turn(&sandbox, "suspend", &element(1));
    sandbox.until("the third", || {
        (sandbox.state(&element(3)) == "R").then_some(())
    });
    sandbox.running(&element(3));
    turn(&sandbox, "suspend", &array);
    let states = || {
        [1, 2, 3]
            .map(|index| sandbox.state(&element(index)))
            .concat()
    };
    assert_eq!(
        (states().as_str(), sandbox.state(&array).as_str()),
        ("SSS", "B")
    );
    turn(&sandbox, "resume", &array);
    sandbox.until("two of three", || {
        (states().matches('R').count() == 2).then_some(())
    });
    end(&sandbox);
    assert_eq!(sandbox.ended(&array)["Exit_status"], 0);
}
