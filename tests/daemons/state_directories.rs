//! State directories of nodeds: reports of a noded apply only to the jobs of its own state
//! directory. The administrator declares a host gone if it never returns.

use crate::support::played::facts;
use crate::support::sandbox::{Sandbox, kill};
use lanai::wire::frame;
use lanai::wire::order::{AttemptStatus, NodeReport, ScheddOrder};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Child;
use std::sync::Mutex;
use std::time::Duration;

/// Marks each start of a job with a new file, created exclusively.
const MARK: &str =
    "n=1; while ! (set -C; : > start.$PBS_JOBID.$n) 2>/dev/null; do n=$((n+1)); done\n";

/// A cluster in which each noded may have several state directories.
struct Cluster {
    sandbox: Sandbox,
    nodeds: Mutex<BTreeMap<&'static str, Child>>,
}

impl Cluster {
    fn new(nodes: &[&str]) -> Cluster {
        let sandbox = Sandbox::new();
        let mut config = "[launch]\nlogin = false\nretry = \"1s\"\ngrace = \"1s\"\n".to_string();
        for node in nodes {
            let socket = sandbox.home().join(format!("{node}.sock"));
            config += &format!(
                "[[node]]\nname = \"{node}\"\nsocket = \"{}\"\n",
                socket.display()
            );
        }
        fs::write(sandbox.home().join("lanai.toml"), config).unwrap();
        sandbox.run("schedd", &[]).ok();
        Cluster {
            sandbox,
            nodeds: Mutex::default(),
        }
    }

    /// Starts the noded of a node with one of its state directories. `boot` identifies the boot of
    /// the host.
    fn start(&self, node: &'static str, directory: &str, boot: &str) {
        let home = self.sandbox.home();
        let boot_file = home.join(format!("boot.{boot}"));
        fs::write(&boot_file, boot).unwrap();
        let environment = [("LANAI_TEST_BOOT", boot_file.to_str().unwrap())];
        let noded = self
            .sandbox
            .start_noded(node, "4", node, directory, &environment);
        self.nodeds.lock().unwrap().insert(node, noded);
    }

    /// Kills the noded of a node; its jobs continue under their shepherds.
    fn kill(&self, node: &str) {
        let mut noded = self.nodeds.lock().unwrap().remove(node).unwrap();
        noded.kill().unwrap();
        noded.wait().unwrap();
    }

    /// Kills all processes of the host: noded, shepherds and jobs.
    fn cut_power(&self, node: &str) {
        self.kill(node);
        for name in ["lanai-spawner", "lanai-shepherd"] {
            self.sandbox
                .pids_of(name)
                .into_iter()
                .for_each(|pid| kill(pid, 9));
        }
        self.sandbox.until("the end of all shepherds", || {
            self.sandbox
                .pids_of("lanai-shepherd")
                .is_empty()
                .then_some(())
        });
    }

    #[track_caller]
    fn until_node(&self, node: &str, text: &str) -> String {
        self.sandbox.until(&format!("{node}: {text}"), || {
            Some(self.sandbox.run("pbsnodes", &[node]).out).filter(|shown| shown.contains(text))
        })
    }

    /// Declares a host gone. schedd refuses this during its first seconds, because the host may
    /// still connect; then the command is repeated.
    #[track_caller]
    fn declare_gone(&self, node: &str) {
        self.sandbox
            .until("the end of schedd's startup period", || {
                let done = self.sandbox.run("pbsnodes", &["--gone", node]);
                (!done.err.contains("has just started")).then(|| done.ok())
            });
    }

    fn starts(&self, id: &str) -> u64 {
        (1..)
            .take_while(|n| self.sandbox.file(&format!("start.{id}.{n}")).exists())
            .count() as u64
    }

    /// Submits a job that marks its start and waits for the file `go`.
    fn waiting(&self, arguments: &[&str]) -> String {
        let id = self.sandbox.submit(
            arguments,
            &format!("{MARK}while [ ! -e go ]; do sleep 0.05; done; exit 4\n"),
        );
        self.sandbox.running(&id);
        self.sandbox
            .until("the start mark", || (self.starts(&id) == 1).then_some(()));
        id
    }

    fn go(&self) {
        fs::write(self.sandbox.file("go"), "").unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("schedd:\n{}", self.sandbox.log());
        }
        self.sandbox.end();
        for noded in self.nodeds.lock().unwrap().values_mut() {
            let _ = noded.kill();
            let _ = noded.wait();
        }
    }
}

fn status(job: &Json) -> i64 {
    job["Exit_status"]
        .as_i64()
        .unwrap_or_else(|| panic!("no exit status: {job}"))
}

fn identity(cluster: &Cluster, directory: &str) -> String {
    fs::read_to_string(cluster.sandbox.home().join(directory).join("identity"))
        .unwrap()
        .trim()
        .to_string()
}

#[test]
fn another_state_directory_is_refused_while_jobs_of_the_first_run() {
    let cluster = Cluster::new(&["n1"]);
    cluster.start("n1", "a", "one");
    cluster.until_node("n1", "state = free");
    let id = cluster.waiting(&[]);
    cluster.kill("n1");
    cluster.start("n1", "b", "one");
    let shown = cluster.until_node("n1", "comment = ");
    assert!(shown.contains("state = down"), "{shown}");
    for part in [
        &*id,
        "pbsnodes --gone n1",
        &identity(&cluster, "a")[..8],
        &identity(&cluster, "b")[..8],
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let document: Json =
        serde_json::from_str(&cluster.sandbox.run("pbsnodes", &["-F", "json", "n1"]).out).unwrap();
    assert!(
        document["nodes"]["n1"]["comment"]
            .as_str()
            .unwrap()
            .contains("pbsnodes --gone n1"),
        "{document}"
    );
    // After some more connections, the job is unchanged and the reason has been logged once.
    std::thread::sleep(Duration::from_secs(5));
    let job = cluster.sandbox.job(&id);
    assert_eq!(
        (&job["job_state"], &job["run_count"], cluster.starts(&id)),
        (&json!("R"), &json!(1), 1),
        "{job}"
    );
    assert_eq!(
        cluster.sandbox.log().matches("pbsnodes --gone n1").count(),
        1,
        "{}",
        cluster.sandbox.log()
    );
    let log = fs::read_to_string(cluster.sandbox.home().join("b.log")).unwrap();
    assert_eq!(log.matches("pbsnodes --gone n1").count(), 1, "{log}");
    assert!(
        log.lines().count() < 12,
        "the refused noded logs every connection:\n{log}"
    );
    cluster.kill("n1");
    cluster.start("n1", "a", "one");
    let shown = cluster.until_node("n1", "state = free");
    assert!(!shown.contains("comment"), "{shown}");
    cluster.go();
    let job = cluster.sandbox.ended(&id);
    assert_eq!(
        (status(&job), &job["run_count"], cluster.starts(&id)),
        (4, &json!(1), 1),
        "{job}"
    );
    // No job of the first directory is left, so the second directory is accepted.
    cluster.kill("n1");
    cluster.start("n1", "b", "one");
    let id = cluster.sandbox.submit(&[], "exit 5\n");
    assert_eq!(status(&cluster.sandbox.ended(&id)), 5);
}

#[test]
fn after_a_reboot_with_the_same_state_directory_jobs_are_rerun() {
    let cluster = Cluster::new(&["n1"]);
    cluster.start("n1", "a", "one");
    let id = cluster.waiting(&[]);
    cluster.cut_power("n1");
    cluster.start("n1", "a", "two");
    cluster.go();
    let job = cluster.sandbox.ended(&id);
    assert_eq!(
        (status(&job), &job["run_count"], cluster.starts(&id)),
        (4, &json!(2), 2),
        "{job}"
    );
}

#[test]
fn a_reinstalled_node_gets_jobs_after_it_is_declared_gone() {
    let cluster = Cluster::new(&["n1"]);
    cluster.start("n1", "a", "one");
    let rerunnable = cluster.waiting(&["-r", "y"]);
    let once = cluster.waiting(&["-r", "n"]);
    cluster.cut_power("n1");
    cluster.start("n1", "b", "two");
    cluster.until_node("n1", "pbsnodes --gone n1");
    for id in [&rerunnable, &once] {
        let job = cluster.sandbox.job(id);
        assert_eq!(
            (&job["job_state"], &job["run_count"]),
            (&json!("R"), &json!(1)),
            "{job}"
        );
    }
    cluster.go();
    cluster.declare_gone("n1");
    let job = cluster.sandbox.ended(&once);
    assert_eq!(
        (status(&job), &job["run_count"], cluster.starts(&once)),
        (-4, &json!(1), 1),
        "{job}"
    );
    let comment = job["comment"].as_str().unwrap();
    assert!(comment.contains("n1 was declared gone by "), "{comment}");
    let job = cluster.sandbox.ended(&rerunnable);
    assert_eq!(
        (status(&job), &job["run_count"], cluster.starts(&rerunnable)),
        (4, &json!(2), 2),
        "{job}"
    );
    let attempts = |id: &str| {
        cluster
            .sandbox
            .run("qacct", &["-j", id, "--list", "-F", "csv"])
            .ok()
    };
    assert_eq!(
        attempts(&rerunnable).lines().count(),
        3,
        "{}",
        attempts(&rerunnable)
    );
    assert_eq!(attempts(&once).lines().count(), 2, "{}", attempts(&once));
    let shown = cluster.until_node("n1", "state = free");
    assert!(!shown.contains("comment"), "{shown}");
}

#[test]
fn declaring_a_host_gone_requeues_or_terminates_its_jobs_once() {
    let cluster = Cluster::new(&["n1"]);
    cluster.start("n1", "a", "one");
    let rerunnable = cluster.waiting(&["-r", "y"]);
    let once = cluster.waiting(&["-r", "n"]);
    let refused = cluster.sandbox.run("pbsnodes", &["--gone", "n1"]);
    assert!(
        refused.code != 0 && refused.err.contains("node n1 is up"),
        "{refused:?}"
    );
    assert_eq!(cluster.sandbox.state(&rerunnable), "R");
    cluster.kill("n1");
    cluster.until_node("n1", "state = down");
    // A node that does not respond keeps its jobs.
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(
        [&rerunnable, &once].map(|id| cluster.sandbox.state(id)),
        ["R", "R"]
    );
    for _ in 0..2 {
        cluster.sandbox.run("pbsnodes", &["--gone", "n1"]).ok();
    }
    cluster.until_node("n1", "state = down");
    let job = cluster.sandbox.job(&rerunnable);
    assert_eq!(
        (&job["job_state"], &job["run_count"]),
        (&json!("Q"), &json!(1)),
        "{job}"
    );
    assert_eq!(status(&cluster.sandbox.ended(&once)), -4);
    let output = cluster.sandbox.run("tracejob", &[&rerunnable]).ok();
    assert_eq!(
        output.matches("n1 was declared gone by ").count(),
        1,
        "{output}"
    );
    // The host is alive after all: its old attempts are ended before the node gets new jobs.
    let shepherds = cluster.sandbox.pids_of("lanai-shepherd");
    assert_eq!(shepherds.len(), 2);
    cluster.go();
    cluster.start("n1", "a", "one");
    let job = cluster.sandbox.ended(&rerunnable);
    assert_eq!((status(&job), &job["run_count"]), (4, &json!(2)), "{job}");
    cluster.sandbox.until("the end of the old attempts", || {
        let left = cluster.sandbox.pids_of("lanai-shepherd");
        (!shepherds.iter().any(|pid| left.contains(pid))).then_some(())
    });
    assert_eq!(status(&cluster.sandbox.job(&once)), -4);
}

#[test]
fn unknown_hosts_and_other_node_states_are_refused() {
    let cluster = Cluster::new(&["n1"]);
    let done = cluster.sandbox.run("pbsnodes", &["--gone", "nowhere"]);
    assert!(
        done.code == 1 && done.err.contains("Unknown node"),
        "{done:?}"
    );
    for arguments in [
        &["--gone"][..],
        &["--gone", "-o", "n1"],
        &["--gone", "-a"],
        &["--gone", "-C", "x", "n1"],
    ] {
        assert_eq!(
            cluster.sandbox.run("pbsnodes", arguments).code,
            1,
            "{arguments:?}"
        );
    }
}

#[test]
fn an_old_attempt_is_ended_if_its_job_was_restarted_on_another_host() {
    let cluster = Cluster::new(&["n1", "n2"]);
    cluster.start("n1", "a", "one");
    cluster.until_node("n1", "state = free");
    let id = cluster.waiting(&["-l", "select=1:ncpus=1"]);
    let old = cluster.sandbox.pids_of("lanai-shepherd");
    cluster.kill("n1");
    cluster.start("n2", "c", "three");
    cluster.until_node("n2", "state = free");
    cluster.until_node("n1", "state = down");
    cluster.declare_gone("n1");
    cluster.sandbox.until("the second start", || {
        (cluster.starts(&id) == 2).then_some(())
    });
    cluster.start("n1", "a", "one");
    cluster.sandbox.until("the end of the first attempt", || {
        let left = cluster.sandbox.pids_of("lanai-shepherd");
        (!old.iter().any(|pid| left.contains(pid))).then_some(())
    });
    cluster.go();
    let job = cluster.sandbox.ended(&id);
    assert_eq!(
        (status(&job), &job["run_count"], &job["exec_host"]),
        (4, &json!(2), &json!("n2/0")),
        "{job}"
    );
    let folder = cluster.sandbox.home().join("a/attempts");
    cluster.sandbox.until("the removal of all records", || {
        (fs::read_dir(&folder).unwrap().count() == 0).then_some(())
    });
}

/// Starts a job with one task on each of two nodes; returns its id.
fn start_on_two_nodes(cluster: &Cluster) -> String {
    cluster.start("n1", "a", "one");
    cluster.until_node("n1", "state = free");
    cluster.start("n2", "b", "two");
    cluster.until_node("n2", "state = free");
    let task =
        "(set -C; : > task.$PBS_VNODENUM.$$); while [ ! -e go ]; do sleep 0.05; done; exit 6";
    cluster.sandbox.script("task", task);
    let arguments = [
        "-l",
        "select=2:ncpus=1",
        "-l",
        "place=scatter",
        "-v",
        "PATH",
    ];
    let id = cluster
        .sandbox
        .submit(&arguments, "pbsdsh ./task; exit $?\n");
    cluster
        .sandbox
        .until("both tasks", || (tasks(cluster) == 2).then_some(()));
    id
}

fn tasks(cluster: &Cluster) -> usize {
    let names = fs::read_dir(cluster.sandbox.work())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name());
    names
        .filter(|name| name.to_string_lossy().starts_with("task."))
        .count()
}

#[test]
fn another_state_directory_on_a_host_with_tasks_is_refused() {
    let cluster = Cluster::new(&["n1", "n2"]);
    let id = start_on_two_nodes(&cluster);
    cluster.kill("n2");
    cluster.start("n2", "c", "two");
    cluster.until_node("n2", "pbsnodes --gone n2");
    assert_eq!(cluster.sandbox.state(&id), "R");
    cluster.kill("n2");
    cluster.start("n2", "b", "two");
    cluster.until_node("n2", "state = free");
    cluster.go();
    let job = cluster.sandbox.ended(&id);
    assert_eq!(
        (status(&job), &job["run_count"], tasks(&cluster)),
        (6, &json!(1), 2),
        "{job}"
    );
}

#[test]
fn a_job_with_a_lost_sister_host_is_requeued() {
    let cluster = Cluster::new(&["n1", "n2"]);
    let id = start_on_two_nodes(&cluster);
    cluster.kill("n2");
    cluster.until_node("n2", "state = down");
    cluster.declare_gone("n2");
    let job = cluster.sandbox.until("the requeue", || {
        Some(cluster.sandbox.job(&id)).filter(|job| job["job_state"] == "Q")
    });
    assert_eq!(job["run_count"], 1, "{job}");
    // All four processors of the remaining node are free: the attempt has ended there.
    let other = cluster.sandbox.submit(&["-l", "ncpus=4"], "exit 3\n");
    assert_eq!(status(&cluster.sandbox.ended(&other)), 3);
}

/// Connects as the noded of `n1` with this state directory; returns the first orders.
fn greet(listener: &UnixListener, directory: &str) -> (UnixStream, Vec<ScheddOrder>) {
    let (mut stream, _) = listener.accept().unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(3)))
        .unwrap();
    let mut orders = Vec::new();
    while let Ok(order) = frame::read::<ScheddOrder>(&mut stream) {
        if matches!(order, ScheddOrder::Hello { .. }) {
            let attempts: Vec<(_, _, _, AttemptStatus)> = Vec::new();
            let hello = NodeReport::Hello {
                boot: "b".into(),
                directory: directory.into(),
                nodes: vec![facts()],
                attempts,
            };
            frame::write(&mut stream, &hello).unwrap();
        }
        let is_start = matches!(order, ScheddOrder::Start(_));
        orders.push(order);
        if is_start {
            break;
        }
    }
    (stream, orders)
}

#[test]
fn an_unanswered_start_order_is_repeated_only_to_the_same_directory() {
    let sandbox = Sandbox::new();
    let socket = sandbox.home().join("n1.sock");
    let config = format!(
        "[launch]\nlogin = false\n[[node]]\nname = \"n1\"\nsocket = \"{}\"\n",
        socket.display()
    );
    fs::write(sandbox.home().join("lanai.toml"), config).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    sandbox.run("qsub", &["--", "/bin/true"]).ok();
    let is_start = |order: &ScheddOrder| matches!(order, ScheddOrder::Start(_));
    let (first, second) = ("a".repeat(32), "b".repeat(32));
    let (stream, orders) = greet(&listener, &first);
    assert!(orders.iter().any(is_start), "{orders:?}");
    drop(stream);
    for _ in 0..2 {
        let (_, orders) = greet(&listener, &second);
        assert!(
            !orders.iter().any(is_start),
            "the first noded may have started the job: {orders:?}"
        );
    }
    let (_, orders) = greet(&listener, &first);
    let attempts = orders.iter().filter_map(|order| match order {
        ScheddOrder::Start(launch) => Some(launch.attempt),
        _ => None,
    });
    assert_eq!(attempts.collect::<Vec<_>>(), [1]);
}
