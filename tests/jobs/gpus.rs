//! GPUs: assignment to jobs, visibility in jobs, and GPUs used by processes that belong to no job.

use crate::support::sandbox::Sandbox;
use serde_json::Value;
use std::fs;
use std::process::{Child, Command};

/// A node `n1` with GPUs 0 and 1, unless the `[[node]]` section differs. Its GPU tool reports the
/// processes in the file `users`.
fn node(node: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let tool = sandbox.file("smi");
    let config = format!(
        "[server]\nname = \"head\"\n[launch]\nlogin = false\ngpu_tool = \"{}\"\ngpu_look = \"1s\"\n[[node]]\nname = \"n1\"\n{node}\n",
        tool.display()
    );
    fs::write(sandbox.home().join("lanai.toml"), config).unwrap();
    let script = format!(
        "while [ -e {} ]; do sleep 0.05; done\ncase $1 in\n--query-gpu*) echo '0, GPU-aa'; echo '1, GPU-bb'; echo '2, GPU-cc';;\n*) cat {} 2> /dev/null;;\nesac",
        sandbox.file("slow").display(),
        sandbox.file("users").display()
    );
    sandbox.script("smi", &script);
    let start = sandbox.run("noded", &["--ncpus", "8", "--ngpus", "2", "--name", "n1"]);
    start.ok();
    sandbox
}

/// Attributes of the node from pbsnodes.
fn node_attributes(sandbox: &Sandbox) -> Value {
    let out = sandbox.run("pbsnodes", &["-a", "-F", "json"]).out;
    let document: Value = serde_json::from_str(&out).unwrap_or_default();
    document["nodes"]["n1"].clone()
}

const SHOW: &str = "echo \"[${CUDA_VISIBLE_DEVICES-unset}] $CUDA_DEVICE_ORDER\"; while [ ! -e go ]; do sleep 0.02; done\n";

#[track_caller]
fn assert_prints(sandbox: &Sandbox, id: &str, expected: &str) {
    let file = format!("STDIN.o{}.part", id.split('.').next().unwrap());
    sandbox.until("the output of the job", || {
        fs::read_to_string(sandbox.file(&file))
            .is_ok_and(|t| !t.is_empty())
            .then_some(())
    });
    assert_eq!(sandbox.read(&file), format!("{expected}\n"));
}

#[test]
fn gpus_are_assigned_in_ascending_order_and_shown() {
    let sandbox = node("");
    let gpus =
        |count: u32| sandbox.submit(&["-l", &format!("select=1:ncpus=1:ngpus={count}")], SHOW);
    let (one, two) = (gpus(1), gpus(1));
    let none = sandbox.submit(&[], SHOW);
    assert_eq!(sandbox.running(&one)["exec_gpus"], "n1:0");
    assert_eq!(sandbox.running(&two)["exec_gpus"], "n1:1");
    assert_prints(&sandbox, &one, "[0] PCI_BUS_ID");
    assert_prints(&sandbox, &two, "[1] PCI_BUS_ID");
    assert_prints(&sandbox, &none, "[] PCI_BUS_ID");
    assert!(sandbox.running(&none)["exec_gpus"].is_null());
    let node = node_attributes(&sandbox);
    assert_eq!(
        (&node["gpus"], &node["gpus_assigned"]),
        (&"0,1".into(), &format!("0={one},1={two}").into())
    );
    let waiting = gpus(1);
    let why = "Not Running: Insufficient amount of resource: ngpus (R: 1 A: 0 T: 2)";
    sandbox.until("the reason", || {
        (sandbox.job(&waiting)["comment"] == why).then_some(())
    });
    sandbox.run("qdel", &[&one]).ok();
    assert_eq!(sandbox.running(&waiting)["exec_gpus"], "n1:0");
}

#[test]
fn the_configuration_selects_and_orders_gpus() {
    let sandbox = node("gpus = [2, 1, 0]\nexclude_gpus = [1]");
    let id = sandbox.submit(&["-l", "select=1:ngpus=1"], SHOW);
    assert_eq!(sandbox.running(&id)["exec_gpus"], "n1:2");
    assert_prints(&sandbox, &id, "[2] PCI_BUS_ID");
    let node = node_attributes(&sandbox);
    assert_eq!(
        (&node["gpus"], &node["resources_available"]["ngpus"]),
        (&"2,0".into(), &2.into())
    );
}

/// A process outside the queue, killed on drop.
struct OutsideProcess(Child);

impl OutsideProcess {
    fn new() -> OutsideProcess {
        OutsideProcess(Command::new("sleep").arg("600").spawn().unwrap())
    }
}

impl Drop for OutsideProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_gpu_is_not_assigned_while_it_is_used_outside_the_queue() {
    let sandbox = node("");
    let process = OutsideProcess::new();
    fs::write(
        sandbox.file("users"),
        format!("GPU-aa, {}, 512 MiB\n", process.0.id()),
    )
    .unwrap();
    // A process of a job does not count as outside use.
    let script = "echo $CUDA_VISIBLE_DEVICES; echo \"GPU-bb, $$, 5 MiB\" >> users; while [ ! -e go ]; do sleep 0.02; done\n";
    sandbox.submit(&["-h"], "true\n");
    let node = sandbox.until("the report of the GPU tool", || {
        Some(node_attributes(&sandbox)).filter(|node| node["gpus_used_outside"] == "0")
    });
    assert_eq!(
        (
            &node["gpus_used_outside"],
            &node["resources_available"]["ngpus"]
        ),
        (&"0".into(), &2.into())
    );
    assert_eq!(
        node["comment"],
        "GPU 0 is in use by processes that belong to no job"
    );
    let id = sandbox.submit(&["-l", "select=1:ngpus=1"], script);
    assert_eq!(sandbox.running(&id)["exec_gpus"], "n1:1");
    let waiting = sandbox.submit(&["-l", "select=1:ngpus=1"], "true\n");
    let why = "Not Running: Insufficient amount of resource: ngpus \
               (R: 1 A: 0 T: 2, 1 in use by processes that belong to no job)";
    sandbox.until("the reason", || {
        (sandbox.job(&waiting)["comment"] == why).then_some(())
    });
    // Long enough for the tool to have reported the job's own process.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!(node_attributes(&sandbox)["gpus_used_outside"], "0");
    fs::write(sandbox.file("users"), "").unwrap();
    assert_eq!(
        sandbox.ended(&waiting)["exec_gpus"],
        "n1:0",
        "a GPU that is free again is assigned"
    );
    assert!(
        node_attributes(&sandbox)["gpus_used_outside"].is_null()
            && node_attributes(&sandbox)["comment"].is_null()
    );
}

#[test]
fn no_gpu_is_assigned_before_its_outside_use_is_known() {
    let sandbox = node("");
    // The new noded has to query a slow tool.
    let noded = sandbox.pid_of("noded").unwrap();
    fs::write(sandbox.file("slow"), "").unwrap();
    sandbox.kill("noded");
    assert_ne!(sandbox.pid_of("noded"), Some(noded));
    sandbox
        .run("noded", &["--ncpus", "8", "--ngpus", "2", "--name", "n1"])
        .ok();
    let id = sandbox.submit(&["-l", "select=1:ngpus=1"], SHOW);
    let other = sandbox.submit(&[], "true\n");
    sandbox.ended(&other);
    assert_eq!(sandbox.state(&id), "Q");
    fs::remove_file(sandbox.file("slow")).unwrap();
    assert_eq!(sandbox.running(&id)["exec_gpus"], "n1:0");
}

#[test]
fn a_hanging_or_failing_gpu_tool_blocks_no_job() {
    for body in ["sleep 600", "exit 3", "yes"] {
        let folder = tempfile::tempdir().unwrap();
        let tool = folder.path().join("smi");
        let config = format!(
            "[launch]\ngpu_tool = \"{}\"\ngpu_look = \"1s\"\n",
            tool.display()
        );
        let sandbox = Sandbox::configured(&config);
        fs::rename(sandbox.script("smi", body), &tool).unwrap();
        let id = sandbox.submit(&[], "exit 4\n");
        assert_eq!(sandbox.ended(&id)["Exit_status"], 4, "{body}");
        sandbox.end();
        assert!(sandbox.processes().is_empty());
    }
}
