//! Every ended job, even one that never started, is in the history with an `Exit_status`, in every
//! format.

use crate::support::sandbox::{Sandbox, kill};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

const CONFIG: &str =
    "[server]\nname = \"head\"\nrefuse_impossible = false\n[launch]\ngrace = \"1s\"\n";

struct Endings {
    sandbox: Sandbox,
    expected: BTreeMap<String, i64>,
}

impl Endings {
    /// Submits a job that is expected to end with this status.
    #[track_caller]
    fn job(&mut self, status: i64, options: &[&str], script: &str) -> String {
        let id = self.sandbox.submit(options, script);
        self.expected.insert(id.clone(), status);
        id
    }

    fn delete(&self, arguments: &[&str]) {
        self.sandbox.run("qdel", arguments).ok();
    }

    /// Jobs deleted while queued, each waiting for a different reason.
    fn end_before_start(&mut self) {
        for options in [
            &["-h"][..],
            &["-a", "12312359"],
            &["-l", "ncpus=4000"],
            &["-q", "in"],
            &["-h", "-J", "1-3"],
            &["-W", "block=false", "-h", "-r", "n"],
        ] {
            let id = self.job(271, options, "true\n");
            self.delete(&[&id]);
        }
        let by_force = self.job(271, &["-h"], "true\n");
        self.delete(&["-W", "force", &by_force]);
    }

    /// Jobs that end because of other jobs.
    fn end_through_other_jobs(&mut self) {
        let fails = self.job(1, &["-h"], "exit 1\n");
        let child = self.job(271, &["-W", &format!("depend=afterok:{fails}")], "true\n");
        self.job(271, &["-W", &format!("depend=afterok:{child}")], "true\n");
        let first = self.job(0, &["-h"], "true\n");
        self.job(
            271,
            &["-h", "-W", &format!("depend=runone:{first}")],
            "true\n",
        );
        let deleted = self.job(271, &["-h"], "true\n");
        self.job(271, &["-W", &format!("depend=afterok:{deleted}")], "true\n");
        self.delete(&[&deleted]);
        self.sandbox.run("qrls", &[&fails, &first]).ok();
    }

    /// Jobs that have started.
    fn end_after_start(&mut self) {
        self.job(0, &[], "true\n");
        self.job(7, &[], "exit 7\n");
        self.job(-29, &["-l", "walltime=1"], "sleep 60\n");
        self.job(-1, &["-W", "stagein=x@localhost:/no/such/file"], "true\n");
        self.job(1, &["-J", "1-2"], "exit 5\n");
        let forced = self.job(265, &[], "sleep 60\n");
        let deleted = self.job(271, &[], "sleep 60\n");
        let signalled = self.job(258, &[], "sleep 60\n");
        let lost = self.job(-4, &["-r", "n"], "sleep 60\n");
        for id in [&forced, &deleted, &signalled, &lost] {
            self.sandbox.running(id);
        }
        self.delete(&["-W", "force", &forced]);
        self.delete(&[&deleted]);
        self.sandbox.run("qsig", &["-s", "INT", &signalled]).ok();
        self.kill_shepherd(&lost);
    }

    /// Kills the shepherd of a job.
    fn kill_shepherd(&self, id: &str) {
        let session = self.sandbox.job(id)["session_id"].as_i64().unwrap();
        let parent = lanai::sys::procfs::process(session as i32).unwrap().parent;
        kill(parent, 9);
    }
}

#[test]
fn every_finished_job_has_an_exit_status() {
    let queues = "[[queue]]\nname = \"workq\"\n[[queue]]\nname = \"in\"\nroute_destinations = [\"shut\"]\n\
                  [[queue]]\nname = \"shut\"\nenabled = false\n[[node]]\nname = \"HOST\"\nncpus = 64\n";
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = queues.replace("HOST", host.split('.').next().unwrap());
    let sandbox = Sandbox::configured(&format!("{CONFIG}{node}"));
    let mut endings = Endings {
        sandbox,
        expected: BTreeMap::new(),
    };
    endings.end_before_start();
    endings.end_through_other_jobs();
    endings.end_after_start();
    for (id, status) in &endings.expected {
        let job = endings.sandbox.ended(id);
        assert_eq!(job["Exit_status"], *status, "{job:#}");
    }
    assert_shown_in_each_format(&endings.sandbox, endings.expected.len());
}

/// Every format shows the status, also for subjobs with `-t`.
fn assert_shown_in_each_format(sandbox: &Sandbox, jobs: usize) {
    let json = sandbox.run("qstat", &["-x", "-f", "-t", "-F", "json"]).ok();
    let document: Value = serde_json::from_str(&json).unwrap();
    let listed = document["Jobs"].as_object().unwrap();
    assert_eq!(listed.len(), jobs + 5);
    for (id, job) in listed {
        let has_ended = job["job_state"] == "F" || job["job_state"] == "X";
        assert!(has_ended && job["Exit_status"].is_i64(), "{id}: {job:#}");
    }
    let text = sandbox.run("qstat", &["-xft"]).ok();
    assert_eq!(text.matches("\n    Exit_status = ").count(), listed.len());
    let dsv = sandbox.run("qstat", &["-x", "-f", "-t", "-F", "dsv"]).ok();
    assert_eq!(
        dsv.lines()
            .filter(|line| line.contains("|Exit_status="))
            .count(),
        listed.len()
    );
}

#[test]
fn the_history_duration_can_be_changed_at_run_time() {
    let sandbox = Sandbox::configured("[server]\nname = \"head\"\n");
    let [one, array] = [&[][..], &["-J", "1-2"]].map(|options| sandbox.submit(options, "true\n"));
    for id in [&one, &array] {
        sandbox.ended(id);
    }
    sandbox
        .run(
            "qmgr",
            &["-c", "set server job_history_duration = 00:00:01"],
        )
        .ok();
    let all = || sandbox.run("qstat", &["-x", "-t"]).ok();
    sandbox.until("an empty history", || all().is_empty().then_some(()));
    for id in [&one, &array, &array.replace("[]", "[1]")] {
        let done = sandbox.run("qstat", &["-x", id]);
        assert_eq!(
            (done.code, done.err),
            (153, format!("qstat: Unknown Job Id {id}\n"))
        );
    }
    sandbox
        .run("qmgr", &["-c", "set server job_history_duration = 1:00:00"])
        .ok();
    let kept = sandbox.submit(&[], "true\n");
    sandbox.ended(&kept);
    sandbox.run("schedd", &["--stop"]).ok();
    sandbox.until("the end of schedd", || {
        sandbox.pid_of("schedd").is_none().then_some(())
    });
    sandbox.run("schedd", &[]).ok();
    assert_eq!(
        sandbox.ended(&kept)["Exit_status"],
        0,
        "the job and the history duration survive a restart"
    );
}

/// Orders that noded has passed to the shepherds of this sandbox.
fn orders(sandbox: &Sandbox) -> String {
    let attempts = fs::read_dir(sandbox.home().join("node/attempts")).unwrap();
    let files = attempts.map(|attempt| attempt.unwrap().path().join("orders"));
    files
        .filter_map(|file| fs::read_to_string(file).ok())
        .collect()
}

/// Runs a command on a subjob after its script has exited with status 3. Its shepherd is stopped
/// until then and receives both events at once. Returns the finished subjob.
#[track_caller]
fn run_after_exit(program: &str) -> Value {
    let sandbox = Sandbox::configured(CONFIG);
    let script = "echo $$ > pid; until [ -e go ]; do sleep 0.05; done; exit 3\n";
    let array = sandbox.submit(&["-J", "1-2", "-r", "y", "-h"], script);
    let [one, other] = [1, 2].map(|index| array.replace("[]", &format!("[{index}]")));
    sandbox.run("qdel", &[&other]).ok();
    sandbox.run("qrls", &[&array]).ok();
    let script: i32 = sandbox.until("the pid of the script", || {
        fs::read_to_string(sandbox.file("pid"))
            .ok()?
            .trim()
            .parse()
            .ok()
    });
    sandbox.running(&one);
    let shepherd = sandbox.pid_of("lanai-shepherd").unwrap();
    kill(shepherd, 19);
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.until("the end of the script", || {
        let stat = fs::read_to_string(format!("/proc/{script}/stat")).unwrap();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('Z'))
            .then_some(())
    });
    sandbox.run(program, &[&one]).ok();
    sandbox.until("the cancel order", || {
        orders(&sandbox).contains("cancel").then_some(())
    });
    kill(shepherd, 18);
    sandbox.ended(&one)
}

#[test]
fn a_job_that_ended_before_its_deletion_keeps_its_exit_status() {
    let job = run_after_exit("qdel");
    assert_eq!(
        (job["Exit_status"].as_i64(), job["substate"].as_i64()),
        (Some(3), Some(93)),
        "{job}"
    );
}

#[test]
fn a_job_that_ended_before_qrerun_does_not_run_again() {
    let job = run_after_exit("qrerun");
    assert_eq!(
        (job["Exit_status"].as_i64(), job["run_count"].as_i64()),
        (Some(3), Some(1)),
        "{job}"
    );
}
