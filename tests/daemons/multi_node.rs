//! Jobs over several nodes: three nodeds on this machine stand for three hosts.

use crate::support::people::two_people;
use crate::support::sandbox::{Done, Sandbox, kill};
use lanai::model::job_id::JobId;
use lanai::sys::procfs;
use lanai::wire::frame;
use lanai::wire::task::{News, Plea};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// Marks each start of a task by a file of its own, made exclusively: `started.<slot>.<how often>`.
const MARK: &str = "n=1; while ! (set -C; : > started.$PBS_VNODENUM.$n) 2>/dev/null; do n=$((n+1)); done; echo $$ > pid.$PBS_VNODENUM";

struct Cluster {
    sandbox: Sandbox,
    nodeds: Mutex<BTreeMap<&'static str, Child>>,
}

impl Cluster {
    fn new() -> Cluster {
        Cluster::of(Sandbox::new())
    }

    fn of(sandbox: Sandbox) -> Cluster {
        // Ids of its own, and so TMPDIRs: other tests look for theirs under their usual names.
        let folder = sandbox
            .home()
            .parent()
            .unwrap()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let name: String = folder.chars().filter(char::is_ascii_alphanumeric).collect();
        let mut config = format!(
            "[server]\nname = \"{name}\"\n[launch]\nlogin = false\nretry = \"1s\"\ngrace = \"1s\"\n"
        );
        for node in NODES {
            let socket = sandbox.home().join(format!("{node}.sock"));
            config += &format!(
                "[[node]]\nname = \"{node}\"\nsocket = \"{}\"\n",
                socket.display()
            );
        }
        fs::write(sandbox.home().join("lanai.toml"), config).unwrap();
        let cluster = Cluster {
            sandbox,
            nodeds: Mutex::default(),
        };
        // One after another: their order is that in which they are first met.
        for node in NODES {
            cluster.start(node, &[]);
            let known = || {
                cluster
                    .sandbox
                    .run("pbsnodes", &[node])
                    .out
                    .contains("state = free")
                    .then_some(())
            };
            cluster.start_schedd();
            cluster.sandbox.until(node, known);
        }
        cluster
    }

    /// Starts the noded of a node.
    fn start(&self, node: &'static str, environment: &[(&str, &str)]) {
        let home = self.sandbox.home();
        let mut command: Command = self.sandbox.command("noded");
        command.args([
            "--foreground",
            "--name",
            node,
            "--ncpus",
            "4",
            "--mem",
            "1gb",
            "--socket",
        ]);
        command
            .arg(home.join(format!("{node}.sock")))
            .arg("--state")
            .arg(home.join(node));
        command.envs(environment.iter().copied());
        let log = fs::File::options()
            .append(true)
            .create(true)
            .open(home.join(format!("{node}.log")))
            .unwrap();
        let noded = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.nodeds.lock().unwrap().insert(node, noded);
    }

    /// Kills the noded of a node where it stands.
    fn kill(&self, node: &str) {
        let mut noded = self.nodeds.lock().unwrap().remove(node).unwrap();
        noded.kill().unwrap();
        noded.wait().unwrap();
    }

    /// Starts schedd where none serves any more.
    #[track_caller]
    fn start_schedd(&self) {
        self.sandbox.run("schedd", &[]).ok();
    }

    /// Submits a script over all three nodes; output and errors go to `out`.
    #[track_caller]
    fn submit(&self, script: &str) -> String {
        self.submit_with("select=3:ncpus=1", script)
    }

    #[track_caller]
    fn submit_with(&self, select: &str, script: &str) -> String {
        self.try_submit(select, script).line()
    }

    fn try_submit(&self, select: &str, script: &str) -> Done {
        let arguments = [
            "-l",
            select,
            "-l",
            "place=scatter",
            "-j",
            "oe",
            "-o",
            "out",
            "-N",
            "wide",
            "-v",
            "PATH",
        ];
        self.sandbox.run_with_input("qsub", &arguments, script)
    }

    /// Runs a script to its end: its exit status, and its output sorted by lines.
    #[track_caller]
    fn run(&self, script: &str) -> (i64, Vec<String>) {
        let job = self.sandbox.ended(&self.submit(script));
        let mut lines: Vec<String> = self.sandbox.read("out").lines().map(String::from).collect();
        lines.sort();
        (status(&job), lines)
    }

    /// Runs a script in which pbsdsh starts what waits for the file `go`, on all nodes; the job,
    /// and the processes of its tasks.
    fn waiting(&self, rest: &str) -> (String, Vec<i32>) {
        let task = format!(
            "{MARK}; while [ ! -e go ]; do sleep 0.02; done; echo over $PBS_VNODENUM; exit $PBS_VNODENUM"
        );
        self.sandbox.script("task", &task);
        let id = self.submit(&format!("pbsdsh ./task{rest}\n"));
        let pids = NODES
            .iter()
            .enumerate()
            .map(|(slot, _)| self.number(&format!("pid.{slot}")))
            .collect();
        (id, pids)
    }

    fn number(&self, file: &str) -> i32 {
        self.sandbox.until(file, || {
            fs::read_to_string(self.sandbox.file(file))
                .ok()?
                .trim()
                .parse()
                .ok()
        })
    }

    /// What a running job has written to its file `out`.
    fn so_far(&self, id: &str) -> String {
        self.sandbox
            .read(&format!("out.{}.part", id.split('.').next().unwrap()))
    }

    fn go(&self) {
        fs::write(self.sandbox.file("go"), "").unwrap();
    }

    /// How often the task on a line of the node file has been started.
    fn starts(&self, slot: usize) -> usize {
        (1..)
            .take_while(|n| self.sandbox.file(&format!("started.{slot}.{n}")).exists())
            .count()
    }

    /// Nothing of a job is kept by any node once it is over.
    fn nothing_is_kept(&self) {
        for node in NODES {
            for folder in ["attempts", "tombstones"] {
                let folder = self.sandbox.home().join(node).join(folder);
                self.sandbox
                    .until(&format!("{} to be empty", folder.display()), || {
                        (fs::read_dir(&folder).unwrap().count() == 0).then_some(())
                    });
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for node in NODES {
                println!(
                    "{node}:\n{}",
                    fs::read_to_string(self.sandbox.home().join(format!("{node}.log")))
                        .unwrap_or_default()
                );
            }
            println!(
                "schedd:\n{}\nout:\n{}",
                self.sandbox.log(),
                fs::read_to_string(self.sandbox.file("out")).unwrap_or_default()
            );
        }
        self.sandbox.end();
        for noded in self.nodeds.lock().unwrap().values_mut() {
            let _ = noded.kill();
            let _ = noded.wait();
        }
    }
}

fn status(job: &Value) -> i64 {
    job["Exit_status"]
        .as_i64()
        .unwrap_or_else(|| panic!("no exit status: {job}"))
}

fn lives(pid: i32) -> bool {
    procfs::process(pid).is_some_and(|process| process.lives())
}

fn all_over(pids: &[i32]) -> Option<()> {
    (!pids.iter().any(|&pid| lives(pid))).then_some(())
}

#[test]
fn a_task_runs_on_each_node_as_the_job_does() {
    let cluster = Cluster::new();
    let script = "cd /; export GIVEN='a b'; trap '' USR2
pbsdsh -- sh -c 'echo $PBS_NODENUM $PBS_VNODENUM $PBS_TASKNUM $GIVEN $PWD $PBS_JOBNAME $(wc -l < $PBS_NODEFILE) $(cat)'
";
    let (status, lines) = cluster.run(script);
    let place = cluster.sandbox.work().canonicalize().unwrap();
    let expected = [0, 1, 2].map(|n| format!("{n} {n} {} a b {} wide 3", n + 2, place.display()));
    assert_eq!((status, lines), (0, expected.to_vec()));
    cluster.nothing_is_kept();
}

#[test]
fn the_tasks_run_under_their_own_nodeds() {
    let cluster = Cluster::new();
    let (id, _) = cluster.waiting("");
    for (node, task) in [("n1", "1.1.1"), ("n2", "1.1.2"), ("n3", "1.1.3")] {
        assert!(
            cluster
                .sandbox
                .home()
                .join(node)
                .join("attempts")
                .join(task)
                .exists(),
            "{node}"
        );
    }
    let job = cluster.sandbox.job(&id);
    assert_eq!(job["exec_host"], "n1/0+n2/0+n3/0");
    assert_eq!(job["exec_vnode"], "(n1:ncpus=1)+(n2:ncpus=1)+(n3:ncpus=1)");
    cluster.go();
    let job = cluster.sandbox.ended(&id);
    assert_eq!(
        (status(&job), &job["resources_used"]["ncpus"]),
        (2, &json!(3))
    );
    assert!(
        cluster
            .sandbox
            .read("out")
            .contains("pbsdsh: task 0x00000002 exit status 2\n")
    );
}

#[test]
fn the_status_is_that_of_the_last_task_that_failed() {
    let cluster = Cluster::new();
    let (code, lines) = cluster.run("pbsdsh -- sh -c 'exit $((PBS_VNODENUM == 1 ? 7 : 0))'\n");
    assert_eq!(
        (code, lines),
        (7, vec!["pbsdsh: task 0x00000001 exit status 7".to_string()])
    );
    let (code, lines) = cluster.run("pbsdsh ./no-such-program\n");
    assert_eq!(code, 254, "{lines:?}");
    assert!(
        lines.contains(&"lanai: command: ./no-such-program: No such file or directory".to_string()),
        "{lines:?}"
    );
    assert!(
        lines.contains(&"pbsdsh: task 0x00000002 exit status 254".to_string()),
        "{lines:?}"
    );
    assert_eq!(cluster.run("pbsdsh -n 2 -- sh -c 'kill -9 $$'\n").0, 137);
}

#[test]
fn tasks_run_where_and_how_they_are_asked_to() {
    let cluster = Cluster::new();
    let place = "-- sh -c 'echo $PBS_VNODENUM'";
    assert_eq!(
        cluster.run(&format!("pbsdsh -n 1 {place}\n")),
        (0, vec!["1".into()])
    );
    assert_eq!(
        cluster.run(&format!("pbsdsh -h n3 {place}\n")),
        (0, vec!["2".into()])
    );
    assert_eq!(cluster.run(&format!("pbsdsh -c 2 {place}\n")).1, ["0", "1"]);
    assert_eq!(
        cluster.run(&format!("pbsdsh -c 4 {place}\n")).1,
        ["0", "0", "1", "2"]
    );
    let (code, lines) = cluster.run(&format!("pbsdsh -n 9 {place}\n"));
    assert_eq!(
        (code, lines),
        (
            0,
            vec!["pbsdsh: this job has no node 9: there are 3, counted from 0".into()]
        )
    );
    let (code, lines) = cluster.run(&format!("pbsdsh -h n9 {place}\n"));
    assert_eq!(
        (code, lines),
        (
            1,
            vec!["pbsdsh: this job has no host n9: it has n1, n2, n3".into()]
        )
    );
    let one_by_one = "pbsdsh -s -- sh -c 'mkdir turn || exit 9; sleep 0.1; rmdir turn'\n";
    assert_eq!(cluster.run(one_by_one), (0, vec![]));
    let (_, lines) = cluster.run("pbsdsh -v -n 1 -- sh -c 'exit 3'\n");
    for line in [
        "pbsdsh: spawned task 0x00000000 on logical node 1 event 2",
        "pbsdsh: waiting on 1 spawned and 0 obits",
        "pbsdsh: task 0x00000000 exit status 3",
    ] {
        assert!(lines.contains(&line.to_string()), "{line}: {lines:?}");
    }
}

#[test]
fn a_task_may_start_tasks_and_need_not_be_waited_for() {
    let cluster = Cluster::new();
    let (code, lines) = cluster.run("pbsdsh -n 2 -- pbsdsh -n 1 -- sh -c 'echo $PBS_NODENUM'\n");
    assert_eq!((code, lines), (0, vec!["1".into()]));
    let script = "pbsdsh -o -- sh -c 'echo $$ > pid.$PBS_VNODENUM; sleep 60'; echo left; while [ ! -e go ]; do sleep 0.05; done\n";
    let id = cluster.submit(script);
    let pids: Vec<i32> = (0..3)
        .map(|slot| cluster.number(&format!("pid.{slot}")))
        .collect();
    cluster.sandbox.until("pbsdsh to leave", || {
        cluster.so_far(&id).contains("left").then_some(())
    });
    assert!(pids.iter().all(|&pid| lives(pid)));
    cluster.go();
    assert_eq!(status(&cluster.sandbox.ended(&id)), 0);
    cluster
        .sandbox
        .until("the end of what was left behind", || all_over(&pids));
    cluster.nothing_is_kept();
}

#[test]
fn deleting_the_job_ends_its_tasks_everywhere() {
    let cluster = Cluster::new();
    let (id, pids) = cluster.waiting("");
    assert!(pids.iter().all(|&pid| lives(pid)));
    cluster.sandbox.run("qdel", &[&id]).ok();
    assert_eq!(status(&cluster.sandbox.ended(&id)), 271);
    cluster
        .sandbox
        .until("the end of its tasks", || all_over(&pids));
    cluster.nothing_is_kept();
    let used: BTreeSet<String> = NODES
        .iter()
        .map(|node| cluster.sandbox.run("pbsnodes", &["-S", node]).ok())
        .collect();
    assert!(
        !used.iter().any(|text| text.contains("job-busy")),
        "{used:?}"
    );
}

#[test]
fn what_the_script_leaves_behind_ends_with_it_and_its_node_is_free_only_then() {
    let cluster = Cluster::new();
    // Deaf to TERM: it ends when the grace is over.
    let task = "trap '' TERM; echo $$ > pid.$PBS_VNODENUM; while :; do sleep 0.1; done";
    cluster.sandbox.script("task", task);
    let id = cluster.submit_with(
        "select=3:ncpus=4",
        "pbsdsh ./task & while [ ! -e go ]; do sleep 0.02; done; exit 5\n",
    );
    let pids: Vec<i32> = (0..3)
        .map(|slot| cluster.number(&format!("pid.{slot}")))
        .collect();
    let next = cluster.sandbox.submit(
        &["-l", "ncpus=4:host=n1"],
        "kill -0 $(cat pid.0) && exit 1; exit 0\n",
    );
    cluster.go();
    assert_eq!(status(&cluster.sandbox.ended(&id)), 5);
    assert_eq!(
        status(&cluster.sandbox.ended(&next)),
        0,
        "it ran beside what was left"
    );
    cluster
        .sandbox
        .until("the end of all tasks", || all_over(&pids));
    cluster.nothing_is_kept();
}

#[test]
fn a_signal_reaches_the_tasks_and_ending_pbsdsh_ends_them() {
    let cluster = Cluster::new();
    let task = "trap 'echo caught $PBS_VNODENUM; exit 0' USR1; echo $$ > pid.$PBS_VNODENUM; while :; do sleep 0.02; done";
    cluster.sandbox.script("task", task);
    let id = cluster.submit("trap '' USR1; pbsdsh ./task; echo done\n");
    (0..3).for_each(|slot| assert!(cluster.number(&format!("pid.{slot}")) > 0));
    cluster.sandbox.run("qsig", &["-s", "USR1", &id]).ok();
    cluster.sandbox.ended(&id);
    let out = cluster.sandbox.read("out");
    (0..3).for_each(|slot| assert!(out.contains(&format!("caught {slot}\n")), "{out}"));

    let script = "pbsdsh -- sh -c 'echo $$ > term.$PBS_VNODENUM; exec sleep 60' & p=$!
while [ ! -s term.0 ] || [ ! -s term.1 ] || [ ! -s term.2 ]; do sleep 0.02; done; kill $p; wait $p; echo status $?
for pid in $(cat term.?); do kill -0 $pid 2>/dev/null && echo alive; done; exit 0\n";
    let (code, lines) = cluster.run(script);
    assert_eq!(code, 0);
    assert!(
        lines.contains(&"status 143".to_string()) && !lines.contains(&"alive".to_string()),
        "{lines:?}"
    );
}

/// The tasks of a job live through the death of `victims`, and end as they would have.
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
    assert!(pids.iter().all(|&pid| lives(pid)));
    // What ends while nobody is there to hear it is heard later.
    if victims.contains(&"n3") {
        cluster.go();
        cluster
            .sandbox
            .until("the end of the task on n3", || all_over(&pids[2..]));
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
    cluster.nothing_is_kept();
}

#[test]
fn a_sisters_noded_killed_in_mid_job_loses_nothing() {
    survive(&["n3"]);
}

#[test]
fn what_a_node_that_is_away_cannot_be_told_is_refused() {
    let cluster = Cluster::new();
    let id = cluster.submit("trap 'echo heard; exit 4' USR1; while :; do sleep 0.02; done\n");
    cluster.sandbox.running(&id);
    cluster.kill("n1");
    cluster.sandbox.until("n1 to be away", || {
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
            done.code != 0 && done.err.contains("its node does not answer"),
            "{done:?}"
        );
    }
    cluster.start("n1", &[]);
    cluster.sandbox.until("the signal", || {
        (cluster.sandbox.run("qsig", &["-s", "USR1", &id]).code == 0).then_some(())
    });
    assert_eq!(status(&cluster.sandbox.ended(&id)), 4);
    assert!(cluster.sandbox.read("out").ends_with("heard\n"));
}

#[test]
fn the_first_nodes_noded_killed_in_mid_job_loses_nothing() {
    survive(&["n1"]);
}

#[test]
fn schedd_killed_in_mid_job_loses_nothing() {
    survive(&["schedd"]);
}

#[test]
fn all_killed_at_once_lose_nothing() {
    survive(&["schedd", "n1", "n2", "n3"]);
}

#[test]
fn tasks_asked_for_while_daemons_die_run_once() {
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
        "one ran twice: {ran:?}"
    );
}

/// What may fail, be cut short or end its process, in daemons and commands alike.
const FAULTS: &str = "socket.read:1/300:fail,socket.write:1/300:short,socket.write:1/1000:fail,\
    socket.connect:1/200:fail,spool.commit:1/100:fail,spool.committed:1/300:crash,attempt.exit:1/100:fail,\
    attempt.tombstone:1/50:fail,noded.epoch:1/20:fail";

#[test]
#[ignore = "a minute long: make torture"]
fn torture_of_tasks_by_kills() {
    torture(Sandbox::new());
}

#[test]
#[ignore = "a minute long: make torture"]
fn torture_of_tasks_by_kills_among_faults() {
    torture(Sandbox::new().with("LANAI_FAULTS", FAULTS));
}

/// Every noded and schedd is killed again and again, at moments that differ each time.
fn torture(sandbox: Sandbox) {
    let cluster = Cluster::of(sandbox);
    let task =
        "n=1; while ! (set -C; : > ran.$PBS_TASKNUM.$n) 2>/dev/null; do n=$((n+1)); done; exit 3";
    cluster.sandbox.script("task", task);
    let script = "i=0; while [ $i -lt 100 ]; do pbsdsh ./task 2>>said; [ $? = 3 ] || echo round $i >> wrong; i=$((i+1)); done\n";
    // Faults may refuse it, and say so.
    let taken =
        || Some(cluster.try_submit("select=3:ncpus=1", script)).filter(|done| done.code == 0);
    let id = cluster.sandbox.until("a job", taken).line();
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
                // Faults may end it before it has begun, and it says so.
                let begins = || (cluster.sandbox.run("schedd", &[]).code == 0).then_some(());
                cluster.sandbox.until("schedd", begins);
            }
        }
    }
    let wrong = fs::read_to_string(cluster.sandbox.file("wrong")).unwrap_or_default();
    assert_eq!(wrong, "", "{}", cluster.sandbox.read("said"));
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
    cluster.nothing_is_kept();
}

#[test]
fn a_job_deleted_while_a_sister_is_away_is_over_at_once_and_its_task_later() {
    let cluster = Cluster::new();
    let (id, pids) = cluster.waiting("");
    cluster.kill("n2");
    cluster.sandbox.run("qdel", &[&id]).ok();
    assert_eq!(status(&cluster.sandbox.ended(&id)), 271);
    cluster.sandbox.until("the end of the other tasks", || {
        all_over(&[pids[0], pids[2]])
    });
    assert!(lives(pids[1]));
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
        "the nodes that answer are free"
    );
    cluster.start("n2", &[]);
    cluster
        .sandbox
        .until("the end of the task", || all_over(&pids[1..2]));
    assert_eq!(status(&cluster.sandbox.ended(&next)), 0);
    cluster.nothing_is_kept();
}

/// M32, G4: nobody starts in the way of a promise while schedd, started anew, has yet to hear of
/// some of its nodes.
#[test]
fn a_promise_over_all_nodes_is_kept_though_one_answers_late_after_a_restart() {
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
    let promised = sandbox.until("the promise", promise);
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
        "what is in nobody's way starts"
    );
    assert_eq!(
        (sandbox.state(&long).as_str(), promise()),
        ("Q", Some(promised))
    );
    cluster.go();
    assert_eq!(status(&sandbox.ended(&wide)), 0);
    assert_eq!(status(&sandbox.ended(&long)), 0);
}

/// A node that is away when schedd starts is waited for once, and not for long.
#[test]
fn a_node_that_does_not_answer_holds_up_nobody_after_a_restart() {
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
        cluster.sandbox.until("n2 to be away", || {
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
fn a_silent_sister_is_shown_until_it_answers_again() {
    let cluster = Cluster::new();
    let (id, _) = cluster.waiting("");
    let comment = || {
        cluster.sandbox.job(&id)["comment"]
            .as_str()
            .unwrap_or_default()
            .to_string()
    };
    cluster.kill("n2");
    cluster.sandbox.until("the loss to be told", || {
        comment()
            .starts_with("Lost contact with node n2 on ")
            .then_some(())
    });
    assert_eq!(cluster.sandbox.state(&id), "R");
    cluster.start("n2", &[]);
    cluster.sandbox.until("the return to be told", || {
        comment().starts_with("Job run at ").then_some(())
    });
    cluster.go();
    assert_eq!(status(&cluster.sandbox.ended(&id)), 2);
}

#[test]
fn a_sister_that_boots_loses_its_tasks_and_the_job_goes_on() {
    let cluster = Cluster::new();
    let (id, pids) = cluster.waiting("; echo pbsdsh $?; exit 6");
    cluster.kill("n3");
    let home = cluster.sandbox.home();
    kill_all_under(&home.join("n3"), pids[2]);
    let boot = home.join("boot");
    fs::write(&boot, "another\n").unwrap();
    cluster.start("n3", &[("LANAI_TEST_BOOT", boot.to_str().unwrap())]);
    let loss = "task 0x00000002 exit status 254";
    cluster.sandbox.until("the loss", || {
        cluster.so_far(&id).contains(loss).then_some(())
    });
    cluster.go();
    assert_eq!(status(&cluster.sandbox.ended(&id)), 6);
    assert!(cluster.sandbox.read("out").contains("pbsdsh 254\n"));
    assert_eq!(cluster.starts(2), 1);
}

/// As a power cut does to one host: the shepherds of its node and their processes are gone.
fn kill_all_under(state: &std::path::Path, task: i32) {
    for entry in fs::read_dir(state.join("attempts")).unwrap().flatten() {
        let record = fs::read(entry.path().join("record")).unwrap();
        let text = String::from_utf8_lossy(&record[..512]).into_owned();
        let identity: Value = serde_json::from_str(text.trim()).unwrap();
        kill(identity["pid"].as_i64().unwrap() as i32, 9);
    }
    kill(task, 9);
}

#[test]
fn the_node_file_has_a_line_for_each_process_in_the_order_of_the_chunks() {
    let cluster = Cluster::new();
    let script = "cat $PBS_NODEFILE; echo $NCPUS $OMP_NUM_THREADS $PBS_NP $PBS_NUM_NODES; pbsdsh -s -- sh -c 'echo $PBS_VNODENUM $PBS_NODENUM'\n";
    let id = cluster.submit_with(
        "select=1:ncpus=4:mpiprocs=2:ompthreads=2+2:ncpus=2:mpiprocs=1",
        script,
    );
    assert_eq!(status(&cluster.sandbox.ended(&id)), 0);
    assert_eq!(
        cluster.sandbox.read("out"),
        "n1\nn1\nn2\nn3\n2 2 4 3\n0 0\n1 0\n2 1\n3 2\n"
    );
    let job = cluster.sandbox.job(&id);
    assert_eq!(job["exec_host"], "n1/0*4+n2/0*2+n3/0*2");
}

#[test]
fn outside_of_a_job_and_without_its_secret_nothing_is_started() {
    let cluster = Cluster::new();
    let done = cluster.sandbox.run("pbsdsh", &["true"]);
    assert_eq!(
        (done.code, done.err.as_str()),
        (1, "pbsdsh: not executing under PBS\n")
    );
    assert_eq!(cluster.sandbox.run("pbsdsh", &[]).code, 1);
    for forged in [
        "PBS_JOBCOOKIE=guessed",
        "LANAI_ATTEMPT=9",
        "PBS_TASKNUM=7",
        "PBS_JOBID=99.x",
    ] {
        let (code, lines) = cluster.run(&format!("{forged} pbsdsh -- echo ran\n"));
        assert_eq!(code, 1, "{forged}: {lines:?}");
        assert!(
            lines.len() == 1 && lines[0].contains("is not part of job"),
            "{forged}: {lines:?}"
        );
    }
}

#[test]
fn in_a_shared_installation_tasks_run_as_the_owner_and_nobody_else_starts_any() {
    let Some([ann, bob]) = two_people("task") else {
        return;
    };
    let server = format!(
        "[server]\nname = \"tasks{}\"\nshared = true\n",
        std::process::id()
    );
    let sandbox = Sandbox::configured(&server);
    for folder in [sandbox.home().parent().unwrap(), &sandbox.home()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    sandbox.run("schedd", &[]).ok();
    let script = "env > all; mv all mine; while [ ! -e go ]; do sleep 0.02; done
pbsdsh -- sh -c 'id -u; grep -c . $PBS_NODEFILE; stat -c %u $TMPDIR; grep NoNewPrivs /proc/self/status'\n";
    let id = ann.submit(
        &sandbox,
        &[
            "-N",
            "wide",
            "-v",
            "PATH",
            "-l",
            "select=1:mpiprocs=2",
            "-j",
            "oe",
        ],
        script,
    );
    sandbox.running(&id);
    let mine = sandbox.until("the environment", || {
        fs::read_to_string(ann.file("mine")).ok()
    });
    let nodes = sandbox.home().parent().unwrap().join("nodes");
    fs::write(&nodes, "n1\n").unwrap();
    let value = |name: &str| {
        mine.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .unwrap()
    };
    let names = [
        "LANAI_TASKS",
        "PBS_JOBID",
        "LANAI_ATTEMPT",
        "PBS_TASKNUM",
        "PBS_JOBCOOKIE",
    ];
    let secrets: String = names
        .map(|name| format!("{name}={} ", value(name)))
        .concat();
    let forged = format!(
        "PBS_NODEFILE={} {secrets} pbsdsh -n 0 -- touch /tmp/forged",
        nodes.display()
    );
    let done = bob.shell(&sandbox, &forged);
    assert!(
        done.code == 1 && done.err.contains("is not part of job 1 on this node"),
        "{done:?}"
    );
    fs::write(ann.file("go"), "").unwrap();
    let job = sandbox.ended(&id);
    let out = ann.read("wide.o1");
    assert_eq!(job["Exit_status"], 0, "{out}");
    let uid = ann.uid.to_string();
    let count = |line: &str| out.lines().filter(|other| *other == line).count();
    assert_eq!(
        [
            count(&uid),
            count("2"),
            count("NoNewPrivs:\t1"),
            out.lines().count()
        ],
        [4, 2, 2, 8],
        "{out}"
    );
}

#[test]
fn garbage_at_the_tasks_socket_disturbs_nobody() {
    let cluster = Cluster::new();
    let socket = cluster.sandbox.home().join("n1/tasks.sock");
    let huge = [
        b"LN".as_slice(),
        &1u16.to_le_bytes(),
        &(20u32 << 20).to_le_bytes(),
        &[7; 100_000],
    ]
    .concat();
    let mut open = Vec::new();
    for words in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &huge, b"LN", b""].repeat(50) {
        let mut stranger = UnixStream::connect(&socket).unwrap();
        let _ = stranger.write_all(words);
        open.push(stranger);
    }
    // Only as many as one user may have are let in: the others make room for those of jobs.
    open.truncate(20);
    let (code, lines) = cluster.run("pbsdsh -- echo fine\n");
    assert_eq!((code, lines), (0, vec!["fine".to_string(); 3]));
}

#[test]
fn one_that_greets_without_end_is_sent_away() {
    let cluster = Cluster::new();
    let stranger = UnixStream::connect(cluster.sandbox.home().join("n1/tasks.sock")).unwrap();
    let hello = Plea::Hello {
        job: JobId::job(1),
        attempt: 1,
        task: 0,
        cookie: String::new(),
    };
    let words = frame::encode(&hello).unwrap().repeat(100_000);
    let _ = (&stranger).write_all(&words);
    let mut said = Vec::new();
    let _ = (&stranger).read_to_end(&mut said);
    assert!(matches!(
        frame::read(&mut said.as_slice()),
        Ok(News::Refused(_))
    ));
    let once = frame::encode(&News::Refused(
        "this process is not part of job 1 on this node".into(),
    ))
    .unwrap();
    assert_eq!(said.len(), once.len(), "it is told once");
}

#[test]
fn a_job_over_its_walltime_ends_with_its_tasks() {
    let cluster = Cluster::new();
    let script = "pbsdsh -- sh -c 'echo $$ > pid.$PBS_VNODENUM; exec sleep 60'\n";
    let id = cluster.submit_with("select=3:ncpus=1,walltime=4", script);
    let pids: Vec<i32> = (0..3)
        .map(|slot| cluster.number(&format!("pid.{slot}")))
        .collect();
    assert_eq!(status(&cluster.sandbox.ended(&id)), -29);
    cluster
        .sandbox
        .until("the end of its tasks", || all_over(&pids));
    cluster.nothing_is_kept();
}

#[test]
fn a_job_put_back_starts_again_only_when_its_tasks_are_gone() {
    let cluster = Cluster::new();
    let task = "trap '' TERM; echo $$ > pid.$PBS_VNODENUM; while :; do sleep 0.05; done";
    cluster.sandbox.script("task", task);
    let script =
        "if [ -e again ]; then for pid in $(cat pid.?); do kill -0 $pid 2>/dev/null && exit 1; done; exit 4; fi
: > again; pbsdsh ./task\n";
    let id = cluster.submit(script);
    (0..3).for_each(|slot| assert!(cluster.number(&format!("pid.{slot}")) > 0));
    cluster.sandbox.run("qrerun", &[&id]).ok();
    let job = cluster.sandbox.ended(&id);
    assert_eq!((status(&job), &job["run_count"]), (4, &json!(2)));
    cluster.nothing_is_kept();
}

#[test]
fn memory_is_bounded_for_all_that_a_job_runs_on_a_node() {
    let cluster = Cluster::new();
    let task = "head -c 70m /dev/zero | tail | sleep $1\n";
    cluster.sandbox.script("task", task);
    let within = cluster.submit_with("select=1:ncpus=2:mpiprocs=2:mem=400mb", "pbsdsh ./task 2\n");
    assert_eq!(
        status(&cluster.sandbox.ended(&within)),
        0,
        "{}",
        cluster.sandbox.read("out")
    );
    let over = cluster.submit_with("select=1:ncpus=2:mpiprocs=2:mem=110mb", "pbsdsh ./task 8\n");
    let job = cluster.sandbox.ended(&over);
    // Whoever's shepherd looks first is ended, the script or a task; what is left then fits.
    assert!([-27, 254].contains(&status(&job)), "{job}");
    cluster.nothing_is_kept();
}

#[test]
fn what_tasks_use_is_the_jobs() {
    let cluster = Cluster::new();
    let busy =
        "import time\nuntil=time.process_time()+0.7\nwhile time.process_time()<until: pass\n";
    fs::write(cluster.sandbox.file("busy.py"), busy).unwrap();
    let id = cluster.submit("pbsdsh python3 busy.py\n");
    let job = cluster.sandbox.ended(&id);
    assert_eq!(status(&job), 0, "{}", cluster.sandbox.read("out"));
    cluster.nothing_is_kept();
    let used = cluster.sandbox.job(&id)["resources_used"]["cput"]
        .as_str()
        .unwrap()
        .to_string();
    assert!(("00:00:02".."00:00:10").contains(&used.as_str()), "{used}");
}

#[test]
fn a_hundred_tasks_at_once_and_what_they_used() {
    let cluster = Cluster::new();
    let script = "pbsdsh -c 100 -- sh -c 'i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; echo x' || exit 1\n";
    let id = cluster.submit(script);
    let job = cluster.sandbox.ended(&id);
    assert_eq!(
        (
            status(&job),
            cluster.sandbox.read("out").matches("x\n").count()
        ),
        (0, 100)
    );
    cluster.nothing_is_kept();
}
