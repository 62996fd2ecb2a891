//! No job is lost and none runs twice, at whatever time a daemon or its host fails.

use crate::support::sandbox::{Sandbox, kill};
use lanai::sys::procfs;
use nix::libc::SIGSTOP;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// Marks each start of a job with a new file, created exclusively.
const MARK: &str =
    "n=1; while ! (set -C; : > start.$PBS_JOBID.$n) 2>/dev/null; do n=$((n+1)); done\n";

/// Number of starts of a job's script.
fn starts(sandbox: &Sandbox, id: &str) -> u64 {
    (1..)
        .take_while(|n| sandbox.file(&format!("start.{id}.{n}")).exists())
        .count() as u64
}

fn touch(sandbox: &Sandbox, name: &str) {
    fs::write(sandbox.file(name), "").unwrap();
}

/// A script that marks its start, waits for a file and exits.
fn script_that_awaits(file: &str, status: i32) -> String {
    format!("{MARK}while [ ! -e {file} ]; do sleep 0.05; done; exit {status}\n")
}

fn status(job: &Value) -> i64 {
    job["Exit_status"]
        .as_i64()
        .unwrap_or_else(|| panic!("no exit status: {job}"))
}

/// Starts the daemons if they are not running.
fn start(sandbox: &Sandbox) {
    sandbox.run("schedd", &[]).ok();
}

/// Asserts that jobs in all states survive the death of `victims`.
fn survive(victims: &[&str]) {
    let sandbox = Sandbox::configured("[server]\nrefuse_impossible = false\n");
    let before = sandbox.submit(&[], &format!("{MARK}exit 3\n"));
    assert_eq!(status(&sandbox.ended(&before)), 3);
    let ends_meanwhile = sandbox.submit(&[], &script_that_awaits("meanwhile", 4));
    let runs_on = sandbox.submit(&[], &script_that_awaits("later", 5));
    let held = sandbox.submit(&["-h"], &format!("{MARK}exit 6\n"));
    let waiting = sandbox.submit(&["-a", "203801010000"], &format!("{MARK}exit 7\n"));
    let huge = sandbox.submit(&["-l", "ncpus=100000"], "true\n");
    sandbox.running(&ends_meanwhile);
    let session = sandbox.running(&runs_on)["session_id"].clone();
    sandbox.until("the marks of both jobs", || {
        (starts(&sandbox, &runs_on) + starts(&sandbox, &ends_meanwhile) == 2).then_some(())
    });
    victims.iter().for_each(|victim| sandbox.kill(victim));
    touch(&sandbox, "meanwhile");
    std::thread::sleep(Duration::from_millis(200));
    start(&sandbox);
    assert_eq!(status(&sandbox.ended(&ends_meanwhile)), 4);
    assert_eq!(status(&sandbox.job(&before)), 3);
    let states = [&runs_on, &held, &waiting, &huge].map(|id| sandbox.state(id));
    assert_eq!(states, ["R", "H", "W", "Q"]);
    assert_eq!(sandbox.job(&runs_on)["session_id"], session);
    let after = sandbox.submit(&[], &format!("{MARK}exit 8\n"));
    assert_eq!(status(&sandbox.ended(&after)), 8, "new jobs must run");
    touch(&sandbox, "later");
    assert_eq!(status(&sandbox.ended(&runs_on)), 5);
    sandbox.run("qrls", &[&held]).ok();
    assert_eq!(status(&sandbox.ended(&held)), 6);
    sandbox.run("qdel", &[&waiting, &huge]).ok();
    for id in [&before, &ends_meanwhile, &runs_on, &held, &after] {
        assert_eq!(
            (starts(&sandbox, id), &sandbox.job(id)["run_count"]),
            (1, &json!(1)),
            "{id}"
        );
    }
    assert_eq!(
        (
            sandbox.pids_of("schedd").len(),
            sandbox.pids_of("noded").len()
        ),
        (1, 1)
    );
}

#[test]
fn a_qsub_gets_one_job_id_if_schedd_crashes_before_the_reply() {
    // Every schedd crashes at its nth commit, so that each restarted schedd makes some progress.
    for point in [
        "spool.committed:4",
        "spool.committed:5",
        "spool.committed:6",
    ] {
        let sandbox = Sandbox::new().with("LANAI_FAULTS", format!("{point}:crash"));
        let ids: Vec<String> = (0..6).map(|_| sandbox.submit(&["-h"], "true\n")).collect();
        let listed = sandbox.run("qselect", &[]).ok();
        assert_eq!(listed.lines().collect::<Vec<_>>(), ids, "{point}");
    }
}

#[test]
fn a_killed_schedd_resumes_after_a_restart() {
    survive(&["schedd"]);
}

#[test]
fn a_killed_noded_is_restarted_and_its_jobs_continue() {
    survive(&["noded"]);
}

#[test]
fn killing_schedd_and_noded_at_once_loses_no_job() {
    survive(&["schedd", "noded"]);
}

#[test]
fn a_job_deleted_while_its_noded_is_down_is_ended_later() {
    let sandbox = Sandbox::configured("[launch]\ngrace = \"1s\"\n");
    let id = sandbox.submit(&[], "echo $$ > pid\nwhile :; do sleep 0.05; done\n");
    sandbox.running(&id);
    let pid = sandbox.until("the pid of the job", || {
        fs::read_to_string(sandbox.file("pid"))
            .ok()?
            .trim()
            .parse::<i32>()
            .ok()
    });
    sandbox.kill("noded");
    sandbox.run("qdel", &[&id]).ok();
    sandbox.kill("schedd");
    start(&sandbox);
    assert_eq!(status(&sandbox.ended(&id)), 271);
    assert!(
        !fs::exists(format!("/proc/{pid}")).unwrap(),
        "a process of the job remains"
    );
}

#[test]
fn a_job_deleted_by_force_is_not_restored() {
    let sandbox = Sandbox::configured("[launch]\ngrace = \"1s\"\n");
    let id = sandbox.submit(&[], &format!("{MARK}echo $$ > pid\nsleep 60\n"));
    sandbox.running(&id);
    let pid = sandbox.until("the pid of the job", || {
        fs::read_to_string(sandbox.file("pid"))
            .ok()?
            .trim()
            .parse::<i32>()
            .ok()
    });
    sandbox.kill("noded");
    sandbox.run("qdel", &["-W", "force", &id]).ok();
    assert_eq!(sandbox.state(&id), "F");
    sandbox.kill("schedd");
    start(&sandbox);
    sandbox.until("the end of its processes", || {
        (!fs::exists(format!("/proc/{pid}")).unwrap()).then_some(())
    });
    let next = sandbox.submit(&[], "exit 9\n");
    assert_eq!(status(&sandbox.ended(&next)), 9);
    assert_eq!((status(&sandbox.job(&id)), starts(&sandbox, &id)), (265, 1));
}

// ------------------------------------------------------------------------- crash at every commit

/// Result of each acknowledged job, by name: exit status, run count, starts.
type Results = BTreeMap<&'static str, (i64, u64, u64)>;

/// A fixed workload for a schedd that may crash once.
struct Workload {
    sandbox: Sandbox,
    acknowledged: Vec<(&'static str, String)>,
}

impl Workload {
    /// Submits until the submission is acknowledged.
    fn submit(&mut self, name: &'static str, arguments: &[&str], script: &str) -> String {
        let arguments = [&["-N", name], arguments].concat();
        let id = self.sandbox.until("an acknowledgement", || {
            let done =
                self.sandbox
                    .run_with_input("qsub", &arguments, &format!("{MARK}{script}\n"));
            (done.code == 0).then(|| done.out.trim().to_string())
        });
        self.acknowledged.push((name, id.clone()));
        id
    }

    /// Repeats a command until it succeeds, or until it has taken effect although its reply was
    /// lost.
    fn repeat_until_effective(&self, program: &str, id: &str, done: impl Fn(&Value) -> bool) {
        self.sandbox.until(program, || {
            if self.sandbox.run(program, &[id]).code == 0 {
                return Some(());
            }
            // A restarted schedd completes the requests that were on disk.
            start(&self.sandbox);
            std::thread::sleep(Duration::from_millis(500));
            done(&self.sandbox.job(id)).then_some(())
        });
    }

    fn run(&mut self) -> Results {
        let one = self.submit("one", &[], "exit 0");
        let later = self.submit("later", &["-h"], "exit 1");
        self.submit("fails", &[], "exit 5");
        let gone = self.submit("gone", &["-h"], "exit 2");
        let twice = self.submit("twice", &[], "[ $n -gt 1 ] && exit 4; sleep 60");
        self.repeat_until_effective("qrls", &later, |job| job["job_state"] != "H");
        self.repeat_until_effective("qdel", &gone, |job| job["job_state"] == "F");
        self.sandbox.until("the job to be rerun", || {
            start(&self.sandbox);
            (starts(&self.sandbox, &twice) == 1
                && self.sandbox.job(&twice)["session_id"].is_number())
            .then_some(())
        });
        self.repeat_until_effective("qrerun", &twice, |job| {
            job["run_count"] == 2 || job["job_state"] != "R"
        });
        self.submit("last", &[], "exit 6");
        assert_eq!(self.sandbox.job(&one)["Job_Name"], "one");
        self.acknowledged
            .iter()
            .map(|(name, id)| (*name, self.result(id)))
            .collect()
    }

    fn result(&self, id: &str) -> (i64, u64, u64) {
        let job = self.sandbox.until(&format!("the end of {id}"), || {
            start(&self.sandbox);
            Some(self.sandbox.job(id)).filter(|job| job["job_state"] == "F")
        });
        (
            status(&job),
            job["run_count"].as_u64().unwrap_or(0),
            starts(&self.sandbox, id),
        )
    }
}

/// Runs the workload with a schedd that crashes when it passes a fault point for the nth time. The
/// flag is true if it crashed.
fn run_with_crash(point: &str, n: u32) -> (Results, bool) {
    let sandbox = Sandbox::configured("[launch]\ngrace = \"1s\"\n");
    let faulty = sandbox
        .command("schedd")
        .env("LANAI_FAULTS", format!("{point}:{n}:crash"))
        .output()
        .unwrap();
    let first = sandbox.pid_of("schedd").filter(|_| faulty.status.success());
    let mut workload = Workload {
        sandbox,
        acknowledged: Vec::new(),
    };
    let results = workload.run();
    let crashed = first.is_none_or(|pid| !workload.sandbox.pids_of("schedd").contains(&pid));
    (results, crashed)
}

fn assert_results_after_each_crash(point: &str) {
    let expected: Results = [
        ("one", (0, 1, 1)),
        ("later", (1, 1, 1)),
        ("fails", (5, 1, 1)),
        ("gone", (271, 0, 0)),
        ("twice", (4, 2, 2)),
        ("last", (6, 1, 1)),
    ]
    .into();
    for first in (1..).step_by(4) {
        let rounds: Vec<(u32, (Results, bool))> = std::thread::scope(|scope| {
            let threads: Vec<_> = (first..first + 4)
                .map(|n| scope.spawn(move || (n, run_with_crash(point, n))))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        for (n, (results, _)) in &rounds {
            assert_eq!(results, &expected, "{point}:{n}");
        }
        if rounds.iter().all(|(_, (_, crashed))| !crashed) {
            assert!(first > 8, "schedd crashed at fewer than {first} commits");
            return;
        }
    }
}

#[test]
fn a_crash_before_any_commit_gives_the_same_results() {
    assert_results_after_each_crash("spool.commit");
}

#[test]
fn a_crash_after_any_commit_gives_the_same_results() {
    assert_results_after_each_crash("spool.committed");
}

// -------------------------------------------------------------------- reboots and failing nodes

#[test]
fn after_a_reboot_rerunnable_jobs_run_once_more() {
    let mut sandbox = Sandbox::new();
    let boot = sandbox.file("boot");
    fs::write(&boot, "first\n").unwrap();
    sandbox.set("LANAI_TEST_BOOT", boot.display());
    let finished = sandbox.submit(&[], &format!("{MARK}exit 5\n"));
    sandbox.ended(&finished);
    let again = sandbox.submit(&[], &format!("{MARK}[ $n -gt 1 ] && exit 4; sleep 60\n"));
    let never = sandbox.submit(&["-r", "n"], &format!("{MARK}sleep 60\n"));
    let held = sandbox.submit(&["-h"], "exit 3\n");
    sandbox.running(&again);
    sandbox.running(&never);
    sandbox.until("the marks of both jobs", || {
        (starts(&sandbox, &again) + starts(&sandbox, &never) == 2).then_some(())
    });
    sandbox.cut_power();
    fs::write(&boot, "second\n").unwrap();
    assert_eq!(
        sandbox.state(&again),
        "R",
        "schedd has not run since the reboot"
    );
    start(&sandbox);
    let job = sandbox.ended(&again);
    assert_eq!(
        (status(&job), &job["run_count"], starts(&sandbox, &again)),
        (4, &json!(2), 2)
    );
    let job = sandbox.ended(&never);
    assert_eq!(
        (status(&job), &job["run_count"], starts(&sandbox, &never)),
        (-4, &json!(1), 1)
    );
    assert_eq!(
        (sandbox.state(&held), status(&sandbox.job(&finished))),
        ("H".to_string(), 5)
    );
    assert_eq!(starts(&sandbox, &finished), 1);
}

#[test]
fn the_spool_survives_a_power_failure_at_any_time() {
    let mut sandbox = Sandbox::configured("[launch]\nretry = \"1s\"\n");
    let boot = sandbox.file("boot");
    fs::write(&boot, "0\n").unwrap();
    sandbox.set("LANAI_TEST_BOOT", boot.display());
    let mut ids = Vec::new();
    for round in 0..4 {
        for _ in 0..3 {
            ids.push(sandbox.submit(&[], &format!("{MARK}sleep 0.1; exit 7\n")));
        }
        std::thread::sleep(Duration::from_millis(60 * round));
        sandbox.cut_power();
        fs::write(&boot, format!("{}\n", round + 1)).unwrap();
    }
    start(&sandbox);
    for id in &ids {
        let job = sandbox.ended(id);
        assert_eq!(status(&job), 7, "{job}");
        let counted = job["run_count"].as_u64().unwrap();
        // A start on disk may not have happened, but every start that has happened is on disk.
        assert!(
            (1..=counted).contains(&starts(&sandbox, id)),
            "{} of {job}",
            starts(&sandbox, id)
        );
    }
}

#[test]
fn a_job_that_cannot_start_is_held_after_max_failed_starts() {
    let sandbox = Sandbox::configured("[launch]\nretry = \"1ms\"\nmax_failed_starts = 8\n");
    let faulty = sandbox
        .command("noded")
        .env("LANAI_FAULTS", "attempt.build:1/1:fail")
        .output()
        .unwrap();
    assert!(faulty.status.success(), "{faulty:?}");
    let id = sandbox.submit(&[], &format!("{MARK}exit 3\n"));
    let job = sandbox.until("the hold", || {
        Some(sandbox.job(&id)).filter(|job| job["job_state"] == "H")
    });
    assert_eq!(
        (&job["Hold_Types"], &job["run_count"]),
        (&json!("s"), &json!(8)),
        "{job}"
    );
    let comment = job["comment"].as_str().unwrap();
    assert!(
        comment.starts_with("job held, too many failed attempts to run"),
        "{comment}"
    );
    assert!(
        comment.contains("injected fault at attempt.build"),
        "{comment}"
    );
    assert_eq!(starts(&sandbox, &id), 0);
    sandbox.kill("noded");
    sandbox.run("qrls", &["-h", "s", &id]).ok();
    assert_eq!(status(&sandbox.ended(&id)), 3);
}

#[test]
fn the_default_limit_of_failed_starts_is_20() {
    assert_eq!(
        lanai::config::Config::default().launch.rules.retries.most,
        20
    );
}

/// A shepherd can hang because it is stopped or because its disk blocks; here it is stopped.
#[test]
fn a_deletion_by_force_ends_a_hanging_shepherd_and_its_job() {
    let sandbox = Sandbox::new();
    let id = sandbox.submit(&[], "setsid sleep 300 & sleep 300");
    let session = sandbox.running(&id)["session_id"].as_i64().unwrap() as i32;
    let shepherd = procfs::process(session).unwrap().parent;
    let family = || {
        procfs::family(shepherd)
            .into_iter()
            .map(|process| process.pid)
    };
    let processes = sandbox.until("all processes of the job", || {
        Some(family().collect::<Vec<_>>()).filter(|pids| pids.len() > 2)
    });
    kill(shepherd, SIGSTOP);
    sandbox.run("qdel", &["-W", "force", &id]).ok();
    let is_alive = |pid: &i32| procfs::process(*pid).is_some_and(|process| process.lives());
    let is_gone = || !processes.iter().chain([&shepherd]).any(is_alive);
    sandbox.until("the end of the shepherd and its job", || {
        is_gone().then_some(())
    });
    assert_eq!(sandbox.job(&id)["Exit_status"], 265);
}

/// Every write of the exit record fails, as on a read-only disk.
#[test]
fn an_exit_status_that_cannot_be_recorded_is_reported_and_the_shepherd_ends() {
    let sandbox = Sandbox::new().with("LANAI_FAULTS", "attempt.exit:1/1:fail");
    let id = sandbox.submit(&[], "sleep 1; exit 3");
    let session = sandbox.running(&id)["session_id"].as_i64().unwrap() as i32;
    let shepherd = procfs::process(session).unwrap().parent;
    assert_eq!(sandbox.ended(&id)["Exit_status"], 3);
    sandbox.until("the end of the shepherd", || {
        procfs::process(shepherd)
            .is_none_or(|process| !process.lives())
            .then_some(())
    });
    assert!(
        sandbox.log().contains("outcome cannot be recorded"),
        "{}",
        sandbox.log()
    );
}

/// If the spool refuses a node's list of attempts, schedd keeps the list and records it later, even
/// if the noded has exited by then.
#[test]
fn a_lost_connection_with_an_unrecorded_inventory_loses_no_job() {
    for commit in 2..=4 {
        let mut sandbox = Sandbox::new();
        sandbox.run("noded", &["--ncpus", "2", "--mem", "1gb"]).ok();
        let id = sandbox.submit(&[], "while [ ! -e go ]; do sleep 0.05; done\n");
        sandbox.running(&id);
        sandbox.kill("schedd");
        sandbox.set("LANAI_FAULTS", format!("spool.commit:{commit}:fail"));
        let _ = sandbox.run("schedd", &[]);
        sandbox.unset("LANAI_FAULTS");
        let failed = || {
            sandbox
                .log()
                .contains("cannot store the changes of a transaction")
        };
        let started = Instant::now();
        while !failed() && started.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(2));
        }
        sandbox.kill("noded");
        std::thread::sleep(Duration::from_millis(500));
        // schedd restarts its noded, too.
        sandbox.until("schedd", || {
            (sandbox.run("schedd", &[]).code == 0).then_some(())
        });
        fs::write(sandbox.file("go"), "").unwrap();
        assert_eq!(sandbox.ended(&id)["run_count"], 1, "commit {commit}");
    }
}
