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

fn submit_counting(sandbox: &Sandbox, arguments: &[&str]) -> String {
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

/// True if a process is stopped: by a signal, by a frozen control group, or in state D. A shell is
/// in state D if its child was stopped between fork and exec; it handles no signal until the child
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
fn await_stopped(sandbox: &Sandbox) -> u64 {
    let worker = number(sandbox, "worker");
    let stopped_count = || {
        let counted = count(sandbox);
        std::thread::sleep(Duration::from_millis(150));
        (is_stopped(worker) && count(sandbox) == counted).then_some(counted)
    };
    let counted = sandbox.until("the worker to stop", stopped_count);
    assert_eq!(stopped_count(), Some(counted), "the worker remains stopped");
    counted
}

#[track_caller]
fn await_resumed(sandbox: &Sandbox, from: u64) {
    let worker = number(sandbox, "worker");
    sandbox.until("the worker to continue", || {
        (!is_stopped(worker) && count(sandbox) > from + 3).then_some(())
    });
}

fn send_signal(sandbox: &Sandbox, signal: &str, id: &str) {
    assert_eq!(sandbox.run("qsig", &["-s", signal, id]).ok(), "");
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
    let id = submit_counting(&sandbox, &["-l", "select=1:ncpus=2:mem=1gb"]);
    let waiting = sandbox.submit(
        &["-l", "select=1:ncpus=2", "-l", "walltime=1:00:00"],
        "while [ ! -e enough ]; do sleep 0.02; done\n",
    );
    let greedy = sandbox.submit(&["-l", "select=1:ncpus=0:mem=4gb"], "true\n");
    send_signal(&sandbox, "suspend", &id);
    let job = sandbox.job(&id);
    assert_eq!(
        (&job["job_state"], &job["substate"], &job["comment"]),
        (&json!("S"), &json!(43), &Value::Null)
    );
    let counted = await_stopped(&sandbox);
    let why = sandbox.run("qstat", &["--why", &id]).ok();
    assert!(why.contains("; qsig -s resume resumes it."), "{why}");
    let forecast = sandbox.run("qstat", &["--start", &id]).ok();
    assert!(
        !forecast.ends_with(&format!(" {}\n", host())),
        "no start can be predicted: {forecast}"
    );
    sandbox.running(&waiting);
    assert_eq!(
        sandbox.state(&greedy),
        "Q",
        "a suspended job keeps its memory"
    );
    send_signal(&sandbox, "resume", &id);
    let job = sandbox.job(&id);
    assert_eq!(
        (&job["job_state"], &job["substate"]),
        (&json!("S"), &json!(45)),
        "its processors are in use"
    );
    assert!(
        job["comment"]
            .as_str()
            .unwrap()
            .contains("until resources are free"),
        "{job}"
    );
    let forecast = sandbox.run("qstat", &["--start", &id]).ok();
    assert!(
        forecast
            .lines()
            .last()
            .unwrap()
            .ends_with(&format!(" {}", host())),
        "{forecast}"
    );
    let why = sandbox.run("qstat", &["--why", &id]).ok();
    assert!(
        why.contains("has been suspended since")
            && why.contains("resumes when its resources are free"),
        "{why}"
    );
    assert_eq!(await_stopped(&sandbox), counted);
    fs::write(sandbox.file("enough"), "").unwrap();
    sandbox.ended(&waiting);
    sandbox.until("the job to resume", || {
        (sandbox.state(&id) == "R").then_some(())
    });
    await_resumed(&sandbox, counted);
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
    for event in [
        "Job to be suspended at request of",
        "all processes stopped",
        "Job to be resumed at",
        "Resumed, attempt 1",
    ] {
        assert!(output.contains(event), "{event}: {output}");
    }
}

/// Without a control group every process is stopped by a signal, including those with a session of
/// their own. A process that the job itself had stopped remains stopped.
#[test]
fn without_control_groups_every_process_is_stopped_by_a_signal() {
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
    // State D: a shell with a child that was stopped between fork and exec.
    let are_stopped = || {
        states()
            .iter()
            .all(|state| b"TD".contains(state))
            .then_some(())
    };
    send_signal(&sandbox, "suspend", &id);
    sandbox.until("all processes to stop", are_stopped);
    let counted = await_stopped(&sandbox);
    let other = sandbox.submit(&["-l", "ncpus=2"], "true\n");
    assert_eq!(sandbox.ended(&other)["Exit_status"], 0);
    // A process continued from outside is stopped again.
    crate::support::sandbox::kill(pids[2], 18);
    sandbox.until("the second stop", are_stopped);
    let counted = counted.max(count(&sandbox));
    send_signal(&sandbox, "resume", &id);
    await_resumed(&sandbox, counted);
    assert_eq!(
        (states()[0], states()[1] == b'T'),
        (b'T', false),
        "a process that the job had stopped remains stopped"
    );
    send_signal(&sandbox, "suspend", &id);
    await_stopped(&sandbox);
    let started = Instant::now();
    sandbox.run("qdel", &[&id]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 271);
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    sandbox.until("the end of all processes", || {
        pids.iter()
            .all(|&pid| procfs::process(pid).is_none())
            .then_some(())
    });
}

/// The job is charged for the time it runs, in two rows with their own begin and end.
#[test]
fn a_job_is_not_charged_while_it_is_suspended() {
    let sandbox = two_processors();
    let id = submit_counting(&sandbox, &["-l", "ncpus=2"]);
    send_signal(&sandbox, "suspend", &id);
    await_stopped(&sandbox);
    std::thread::sleep(Duration::from_secs(3));
    send_signal(&sandbox, "resume", &id);
    await_resumed(&sandbox, count(&sandbox));
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
    let [(_, _, stopped), (0, resumed, _)] = rows[..] else {
        panic!("{rows:?}")
    };
    assert!(resumed - stopped >= 3000, "{rows:?}");
    let charged: i64 = rows.iter().map(|(_, from, to)| to - from).sum();
    assert!(
        (charged / 1000 - walltime).abs() <= 1,
        "{rows:?} {walltime}"
    );
}

#[test]
fn suspended_time_does_not_count_as_walltime() {
    let sandbox = two_processors();
    let id = submit_counting(&sandbox, &["-l", "ncpus=1,walltime=3"]);
    send_signal(&sandbox, "suspend", &id);
    await_stopped(&sandbox);
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(sandbox.state(&id), "S", "its walltime has not expired");
    send_signal(&sandbox, "resume", &id);
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
    // The four suspended seconds are not included. A loaded machine may detect the end late.
    assert!(
        walltime.is_some_and(|walltime| walltime.starts_with("3.")),
        "{accounts}"
    );
}

#[test]
fn a_job_stays_suspended_and_resumable_when_daemons_are_killed() {
    let sandbox = two_processors();
    let id = submit_counting(&sandbox, &["-l", "ncpus=1"]);
    send_signal(&sandbox, "suspend", &id);
    let counted = await_stopped(&sandbox);
    for victims in [&["schedd"][..], &["noded"], &["schedd", "noded"]] {
        victims.iter().for_each(|victim| sandbox.kill(victim));
        sandbox.run("schedd", &[]).ok();
        let is_up = || {
            sandbox
                .run("pbsnodes", &["-F", "json", &host()])
                .out
                .contains("free")
        };
        sandbox.until("the node", || is_up().then_some(()));
        assert_eq!(
            (sandbox.state(&id).as_str(), await_stopped(&sandbox)),
            ("S", counted),
            "{victims:?}"
        );
    }
    send_signal(&sandbox, "resume", &id);
    sandbox.until("the job to resume", || {
        (sandbox.state(&id) == "R").then_some(())
    });
    await_resumed(&sandbox, counted);
    // The shepherd is older than the current noded, which still controls it.
    send_signal(&sandbox, "suspend", &id);
    let counted = await_stopped(&sandbox);
    let other = sandbox.submit(&["-l", "ncpus=2"], "true\n");
    assert_eq!(
        sandbox.ended(&other)["Exit_status"],
        0,
        "the processors of the suspended job are free"
    );
    send_signal(&sandbox, "resume", &id);
    await_resumed(&sandbox, counted);
    end(&sandbox);
    let job = sandbox.ended(&id);
    assert_eq!(
        (&job["Exit_status"], &job["run_count"]),
        (&json!(0), &json!(1))
    );
}

#[test]
fn suspend_and_resume_are_carried_out_when_noded_returns() {
    let sandbox = two_processors();
    let id = submit_counting(&sandbox, &["-l", "ncpus=2"]);
    sandbox.kill("noded");
    send_signal(&sandbox, "suspend", &id);
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    let counted = await_stopped(&sandbox);
    sandbox.kill("noded");
    send_signal(&sandbox, "resume", &id);
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    await_resumed(&sandbox, counted);
    end(&sandbox);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
}

#[test]
fn a_suspended_job_that_is_deleted_or_requeued_ends_at_once() {
    for (command, state) in [("qdel", "F"), ("qrerun", "R")] {
        let sandbox = two_processors();
        let id = submit_counting(&sandbox, &["-l", "ncpus=2"]);
        send_signal(&sandbox, "suspend", &id);
        await_stopped(&sandbox);
        let (worker, started) = (number(&sandbox, "worker"), Instant::now());
        sandbox.run(command, &[&id]).ok();
        sandbox.until("the end of the worker", || {
            (procfs::process(worker).is_none_or(|process| !process.lives())).then_some(())
        });
        sandbox.until("the new job state", || {
            (sandbox.state(&id) == state).then_some(())
        });
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{command}: {:?}",
            started.elapsed()
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
fn a_job_resumes_on_the_cpus_that_are_free_then() {
    let sandbox = two_processors();
    let one = ["-l", "ncpus=1"];
    let id = submit_counting(&sandbox, &one);
    let worker = number(&sandbox, "worker");
    let cpus_before = allowed(worker);
    if cpus_before.parse::<u16>().is_err() {
        return println!("skipped: this host binds no jobs to processors");
    }
    let submit_until = |file: &str| {
        sandbox.submit(
            &one,
            &format!("while [ ! -e {file} ]; do sleep 0.02; done\n"),
        )
    };
    let second = submit_until("enough");
    sandbox.running(&second);
    send_signal(&sandbox, "suspend", &id);
    let counted = await_stopped(&sandbox);
    // The third job gets the released processor; the resumed job gets the second job's processor.
    let third = submit_until("end");
    sandbox.running(&third);
    fs::write(sandbox.file("enough"), "").unwrap();
    sandbox.ended(&second);
    send_signal(&sandbox, "resume", &id);
    await_resumed(&sandbox, counted);
    let cpus_after = allowed(worker);
    assert!(
        cpus_after != cpus_before && cpus_after.parse::<u16>().is_ok(),
        "{cpus_before} before, {cpus_after} now"
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
fn tasks_on_other_nodes_are_suspended_too() {
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
    send_signal(&sandbox, "suspend", &id);
    await_stopped(&sandbox);
    sandbox.until("the task to stop", || is_stopped(task).then_some(()));
    let other = sandbox.submit(&["-l", "select=2:ncpus=2", "-l", "place=scatter"], "true\n");
    assert_eq!(
        sandbox.ended(&other)["Exit_status"],
        0,
        "the processors of both nodes are free"
    );
    send_signal(&sandbox, "resume", &id);
    await_resumed(&sandbox, count(&sandbox));
    sandbox.until("the task to continue", || (!is_stopped(task)).then_some(()));
    end(&sandbox);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
}

#[test]
fn signals_except_kill_reach_a_suspended_job_after_its_resume() {
    let sandbox = two_processors();
    let script = "trap 'echo signaled > signaled' USR1\necho $$ > worker\n\
                  while [ ! -e end ]; do i=$((i+1)); echo $i > new; mv new count; sleep 0.01; done\n";
    let id = sandbox.submit(&["-l", "ncpus=1"], script);
    sandbox.until("the first count", || (count(&sandbox) > 0).then_some(()));
    sandbox.running(&id);
    send_signal(&sandbox, "suspend", &id);
    let counted = await_stopped(&sandbox);
    for signal in ["CONT", "USR1"] {
        sandbox.run("qsig", &["-s", signal, &id]).ok();
        assert_eq!(await_stopped(&sandbox), counted, "{signal}");
    }
    assert!(!sandbox.file("signaled").exists());
    send_signal(&sandbox, "resume", &id);
    sandbox.until("the signal", || {
        sandbox.file("signaled").exists().then_some(())
    });
    await_resumed(&sandbox, counted);
    send_signal(&sandbox, "suspend", &id);
    await_stopped(&sandbox);
    sandbox.run("qsig", &["-s", "KILL", &id]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 265);
}

#[test]
fn refused_suspensions_and_resumptions_are_reported() {
    let sandbox = two_processors();
    let id = submit_counting(&sandbox, &["-l", "ncpus=1"]);
    let (held, number) = (sandbox.submit(&["-h"], "true\n"), id.clone());
    let qsig = |signal: &str, id: &str| sandbox.run("qsig", &["-s", signal, id]);
    let bad_state = format!("qsig: Request invalid for state of job {number}");
    let wrong = format!("qsig: Job can not be resumed with the requested resume signal {number}");
    for signal in ["suspend", "resume", "admin-suspend", "admin-resume"] {
        refused_exactly(
            qsig(signal, &held),
            168,
            &format!("qsig: Request invalid for state of job {held}"),
        );
    }
    refused_exactly(qsig("resume", &id), 168, &bad_state);
    send_signal(&sandbox, "suspend", &id);
    refused_exactly(qsig("suspend", &id), 168, &bad_state);
    refused_exactly(qsig("admin-resume", &id), 73, &wrong);
    send_signal(&sandbox, "resume", &id);
    sandbox.until("the job to resume", || {
        (sandbox.state(&id) == "R").then_some(())
    });
    send_signal(&sandbox, "admin-suspend", &id);
    refused_exactly(qsig("resume", &id), 73, &wrong);
    await_stopped(&sandbox);
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
    send_signal(&sandbox, "admin-resume", &id);
    assert_eq!(sandbox.ended(&other)["Exit_status"], 0);
    end(&sandbox);
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    refused_exactly(qsig("suspend", &id), 35, "qsig: Job has finished");
}

#[test]
fn all_running_subjobs_are_suspended_and_resumed_together() {
    let sandbox = two_processors();
    let script = "while [ ! -e end ]; do echo >> count.$PBS_ARRAY_INDEX; sleep 0.02; done\n";
    let array = sandbox.submit(&["-J", "1-3", "-l", "ncpus=1"], script);
    let subjob = |index: u32| array.replace("[]", &format!("[{index}]"));
    [1, 2]
        .iter()
        .for_each(|&index| drop(sandbox.running(&subjob(index))));
    send_signal(&sandbox, "suspend", &subjob(1));
    sandbox.until("the third subjob", || {
        (sandbox.state(&subjob(3)) == "R").then_some(())
    });
    sandbox.running(&subjob(3));
    send_signal(&sandbox, "suspend", &array);
    let states = || {
        [1, 2, 3]
            .map(|index| sandbox.state(&subjob(index)))
            .concat()
    };
    assert_eq!(
        (states().as_str(), sandbox.state(&array).as_str()),
        ("SSS", "B")
    );
    send_signal(&sandbox, "resume", &array);
    sandbox.until("two running subjobs", || {
        (states().matches('R').count() == 2).then_some(())
    });
    end(&sandbox);
    assert_eq!(sandbox.ended(&array)["Exit_status"], 0);
}
