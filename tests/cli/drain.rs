//! `lanai nodes drain` and `lanai nodes resume` with real daemons, and what users see of drained
//! nodes.

use crate::support::sandbox::{Sandbox, user};
use lanai::cli::lanai::drain::{DrainArgs, ResumeArgs, drain_in, resume_in};
use lanai::sys::home::Home;
use serde_json::Value;

/// The directories of a sandbox's installation.
pub fn home(sandbox: &Sandbox) -> Home {
    let state = sandbox.home();
    Home {
        runtime: state.clone(),
        config: state.join("lanai.toml"),
        state,
        system: false,
    }
}

fn node(sandbox: &Sandbox, name: &str) -> Value {
    let output = sandbox.run("pbsnodes", &["-v", "-F", "json", name]).ok();
    let document: Value = serde_json::from_str(&output).unwrap();
    document["nodes"][name].clone()
}

fn drain(sandbox: &Sandbox, name: &str, reason: Option<&str>, wait: bool) -> Result<u8, String> {
    let args = DrainArgs {
        reason: reason.map(String::from),
        wait,
        nodes: vec![name.to_string()],
    };
    drain_in(&home(sandbox), &args).map_err(|failure| failure.text)
}

fn resume(sandbox: &Sandbox, name: &str) {
    let args = ResumeArgs {
        nodes: vec![name.to_string()],
    };
    assert_eq!(resume_in(&home(sandbox), &args), Ok(0));
}

#[test]
fn a_drained_node_runs_its_jobs_to_their_end_and_starts_no_others() {
    let sandbox = Sandbox::new();
    sandbox.start_nodes(2, 2);
    let on_n1 = ["-l", "select=1:ncpus=1:vnode=n1"];
    let jobs: Vec<String> = (0..2)
        .map(|_| sandbox.submit(&on_n1, "sleep 1000\n"))
        .collect();
    jobs.iter().for_each(|id| drop(sandbox.running(id)));

    std::thread::scope(|scope| {
        let draining = scope.spawn(|| drain(&sandbox, "n1", Some("new fans"), true));
        let comment = sandbox.until("the node is offline", || {
            let node = node(&sandbox, "n1");
            let comment = node["comment"].as_str()?.to_string();
            node["state"]
                .as_str()?
                .contains("offline")
                .then_some(comment)
        });
        let start = format!("new fans (drained by {}@", user());
        assert!(comment.starts_with(&start), "{comment}");

        let waits = sandbox.submit(&on_n1, "true\n");
        let why = sandbox.until("the node in the explanation", || {
            let why = sandbox.run("qstat", &["--why", &waits]).ok();
            why.contains("n1 has been offline since ").then_some(why)
        });
        for part in [
            format!(", set by {}@", user()),
            format!(": {start}"),
            "an operator sets node n1 online again: pbsnodes -r n1".to_string(),
        ] {
            assert!(why.contains(&part), "{part}: {why}");
        }
        sandbox.run("qdel", &[&jobs[0]]).ok();
        sandbox.ended(&jobs[0]);
        std::thread::sleep(std::time::Duration::from_millis(200));
        assert!(!draining.is_finished(), "a job still runs");
        sandbox.run("qdel", &[&jobs[1]]).ok();
        assert_eq!(draining.join().unwrap(), Ok(0));
        assert_eq!(sandbox.state(&waits), "Q");

        resume(&sandbox, "n1");
        sandbox.ended(&waits);
    });
    let shown = node(&sandbox, "n1");
    assert_eq!(
        (&shown["state"], &shown["comment"]),
        (&"free".into(), &Value::Null)
    );

    // resume keeps a comment that drain has not set.
    sandbox
        .run("pbsnodes", &["-o", "-C", "reboot for kernel", "n2"])
        .ok();
    resume(&sandbox, "n2");
    assert_eq!(node(&sandbox, "n2")["comment"], "reboot for kernel");

    assert_eq!(
        drain(&sandbox, "n2", None, true),
        Ok(0),
        "no job runs on the node"
    );
    let unknown = drain(&sandbox, "n9", None, false).unwrap_err();
    assert!(unknown.starts_with("n9: Unknown node"), "{unknown}");
}
