//! Jobs on several nodes: three nodeds on this machine simulate three hosts.

mod recovery;
mod security;

use crate::support::sandbox::{Done, Sandbox};
use lanai::sys::procfs;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Child;
use std::sync::Mutex;

const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// Marks each start of a task with a new file `started.SLOT.N`, created exclusively.
const MARK: &str = "n=1; while ! (set -C; : > started.$PBS_VNODENUM.$n) 2>/dev/null; do n=$((n+1)); done; echo $$ > pid.$PBS_VNODENUM";

struct Cluster {
    sandbox: Sandbox,
    nodeds: Mutex<BTreeMap<&'static str, Child>>,
}

impl Cluster {
    fn new() -> Cluster {
        Cluster::in_sandbox(Sandbox::new())
    }

    fn in_sandbox(sandbox: Sandbox) -> Cluster {
        // A unique server name gives unique job ids and TMPDIRs: other tests check TMPDIRs of the
        // default names.
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
        // One after another, because schedd orders nodes by their first connection.
        for node in NODES {
            cluster.start(node, &[]);
            let is_free = || {
                cluster
                    .sandbox
                    .run("pbsnodes", &[node])
                    .out
                    .contains("state = free")
                    .then_some(())
            };
            cluster.start_schedd();
            cluster.sandbox.until(node, is_free);
        }
        cluster
    }

    /// Starts the noded of a node.
    fn start(&self, node: &'static str, environment: &[(&str, &str)]) {
        let noded = self.sandbox.start_noded(node, "4", node, node, environment);
        self.nodeds.lock().unwrap().insert(node, noded);
    }

    /// Kills the noded of a node with SIGKILL.
    fn kill(&self, node: &str) {
        let mut noded = self.nodeds.lock().unwrap().remove(node).unwrap();
        noded.kill().unwrap();
        noded.wait().unwrap();
    }

    /// Starts schedd if it is not running.
    #[track_caller]
    fn start_schedd(&self) {
        self.sandbox.run("schedd", &[]).ok();
    }

    /// Submits a script on all three nodes; output and errors go to `out`.
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

    /// Runs a script until it ends. Returns its exit status and its sorted output lines.
    #[track_caller]
    fn run(&self, script: &str) -> (i64, Vec<String>) {
        let job = self.sandbox.ended(&self.submit(script));
        let mut lines: Vec<String> = self.sandbox.read("out").lines().map(String::from).collect();
        lines.sort();
        (status(&job), lines)
    }

    /// Runs a job in which pbsdsh starts a task on each node. The tasks wait for the file `go`.
    /// Returns the job id and the pids of the tasks.
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

    /// Output of a running job so far.
    fn output_so_far(&self, id: &str) -> String {
        self.sandbox
            .read(&format!("out.{}.part", id.split('.').next().unwrap()))
    }

    fn go(&self) {
        fs::write(self.sandbox.file("go"), "").unwrap();
    }

    /// Number of starts of the task on this line of the node file.
    fn starts(&self, slot: usize) -> usize {
        (1..)
            .take_while(|n| self.sandbox.file(&format!("started.{slot}.{n}")).exists())
            .count()
    }

    /// Waits until no node keeps any state of a finished job.
    fn wait_for_cleanup(&self) {
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

fn is_alive(pid: i32) -> bool {
    procfs::process(pid).is_some_and(|process| process.lives())
}

fn all_ended(pids: &[i32]) -> Option<()> {
    (!pids.iter().any(|&pid| is_alive(pid))).then_some(())
}

#[test]
fn a_task_runs_on_each_node_with_the_environment_of_pbsdsh() {
    let cluster = Cluster::new();
    let script = "cd /; export GIVEN='a b'; trap '' USR2
pbsdsh -- sh -c 'echo $PBS_NODENUM $PBS_VNODENUM $PBS_TASKNUM $GIVEN $PWD $PBS_JOBNAME $(wc -l < $PBS_NODEFILE) $(cat)'
";
    let (status, lines) = cluster.run(script);
    let place = cluster.sandbox.work().canonicalize().unwrap();
    let expected = [0, 1, 2].map(|n| format!("{n} {n} {} a b {} wide 3", n + 2, place.display()));
    assert_eq!((status, lines), (0, expected.to_vec()));
    cluster.wait_for_cleanup();
}

#[test]
fn each_noded_runs_the_tasks_of_its_node() {
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
fn pbsdsh_exits_with_the_status_of_the_last_failed_task() {
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
fn tasks_run_on_the_requested_nodes_with_the_requested_options() {
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
            vec![
                "pbsdsh: no line 9 (counted from 0): the node file of this job has 3 lines".into()
            ]
        )
    );
    let (code, lines) = cluster.run(&format!("pbsdsh -h n9 {place}\n"));
    assert_eq!(
        (code, lines),
        (
            1,
            vec![
                "pbsdsh: host n9 does not belong to this job: the hosts of the job are n1, n2, n3"
                    .into()
            ]
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
fn tasks_can_start_tasks_and_continue_after_pbsdsh_exits() {
    let cluster = Cluster::new();
    let (code, lines) = cluster.run("pbsdsh -n 2 -- pbsdsh -n 1 -- sh -c 'echo $PBS_NODENUM'\n");
    assert_eq!((code, lines), (0, vec!["1".into()]));
    let script = "pbsdsh -o -- sh -c 'echo $$ > pid.$PBS_VNODENUM; sleep 60'; echo left; while [ ! -e go ]; do sleep 0.05; done\n";
    let id = cluster.submit(script);
    let pids: Vec<i32> = (0..3)
        .map(|slot| cluster.number(&format!("pid.{slot}")))
        .collect();
    cluster.sandbox.until("pbsdsh to exit", || {
        cluster.output_so_far(&id).contains("left").then_some(())
    });
    assert!(pids.iter().all(|&pid| is_alive(pid)));
    cluster.go();
    assert_eq!(status(&cluster.sandbox.ended(&id)), 0);
    cluster
        .sandbox
        .until("the end of the remaining tasks", || all_ended(&pids));
    cluster.wait_for_cleanup();
}

#[test]
fn deleting_a_job_ends_its_tasks_on_all_nodes() {
    let cluster = Cluster::new();
    let (id, pids) = cluster.waiting("");
    assert!(pids.iter().all(|&pid| is_alive(pid)));
    cluster.sandbox.run("qdel", &[&id]).ok();
    assert_eq!(status(&cluster.sandbox.ended(&id)), 271);
    cluster
        .sandbox
        .until("the end of its tasks", || all_ended(&pids));
    cluster.wait_for_cleanup();
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
fn remaining_tasks_end_after_the_script_and_only_then_free_their_nodes() {
    let cluster = Cluster::new();
    // The task ignores TERM, so it ends after the grace period.
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
        "the next job ran beside a remaining task"
    );
    cluster
        .sandbox
        .until("the end of all tasks", || all_ended(&pids));
    cluster.wait_for_cleanup();
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
fn a_job_that_exceeds_its_walltime_ends_with_its_tasks() {
    let cluster = Cluster::new();
    let script = "pbsdsh -- sh -c 'echo $$ > pid.$PBS_VNODENUM; exec sleep 60'\n";
    let id = cluster.submit_with("select=3:ncpus=1,walltime=4", script);
    let pids: Vec<i32> = (0..3)
        .map(|slot| cluster.number(&format!("pid.{slot}")))
        .collect();
    assert_eq!(status(&cluster.sandbox.ended(&id)), -29);
    cluster
        .sandbox
        .until("the end of its tasks", || all_ended(&pids));
    cluster.wait_for_cleanup();
}

#[test]
fn a_requeued_job_starts_again_only_after_its_tasks_have_ended() {
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
    cluster.wait_for_cleanup();
}

#[test]
fn the_memory_limit_covers_all_tasks_of_a_job_on_a_node() {
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
    // The shepherd that checks first ends its own processes, either the script or a task. The rest
    // is then within the limit.
    assert!([-27, 254].contains(&status(&job)), "{job}");
    cluster.wait_for_cleanup();
}

#[test]
fn resources_used_includes_the_tasks() {
    let cluster = Cluster::new();
    let busy =
        "import time\nuntil=time.process_time()+0.7\nwhile time.process_time()<until: pass\n";
    fs::write(cluster.sandbox.file("busy.py"), busy).unwrap();
    let id = cluster.submit("pbsdsh python3 busy.py\n");
    let job = cluster.sandbox.ended(&id);
    assert_eq!(status(&job), 0, "{}", cluster.sandbox.read("out"));
    cluster.wait_for_cleanup();
    let used = cluster.sandbox.job(&id)["resources_used"]["cput"]
        .as_str()
        .unwrap()
        .to_string();
    assert!(("00:00:02".."00:00:10").contains(&used.as_str()), "{used}");
}

#[test]
fn a_hundred_tasks_run_at_once() {
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
    cluster.wait_for_cleanup();
}
