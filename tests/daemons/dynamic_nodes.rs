//! Nodes that join and leave while schedd runs: sockets configured in `lanai.toml` or with `qmgr`,
//! besides the noded of this host.

use crate::support::sandbox::{Sandbox, kill};
use nix::libc::SIGHUP;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// A noded of another node, killed on drop.
struct Noded(Child);

impl Drop for Noded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn socket(sandbox: &Sandbox, name: &str) -> PathBuf {
    sandbox.home().join(format!("{name}.sock"))
}

/// Starts a noded for node `name` with its own state directory and the socket `at`.
fn noded(sandbox: &Sandbox, name: &str, at: &str) -> Noded {
    let mut command = sandbox.command("noded");
    command.args([
        "--foreground",
        "--name",
        name,
        "--ncpus",
        "2",
        "--mem",
        "1gb",
        "--socket",
    ]);
    command
        .arg(socket(sandbox, at))
        .arg("--state")
        .arg(sandbox.home().join(format!("state.{name}")));
    Noded(
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    )
}

fn section(sandbox: &Sandbox, name: &str, at: &str) -> String {
    format!(
        "[[node]]\nname = \"{name}\"\nsocket = \"{}\"\n",
        socket(sandbox, at).display()
    )
}

fn configure(sandbox: &Sandbox, text: &str) {
    fs::write(
        sandbox.home().join("lanai.toml"),
        format!("[launch]\nlogin = false\n{text}"),
    )
    .unwrap();
}

#[track_caller]
fn reload(sandbox: &Sandbox, text: &str) {
    configure(sandbox, text);
    kill(sandbox.pid_of("schedd").unwrap(), SIGHUP);
}

#[track_caller]
fn until_state(sandbox: &Sandbox, node: &str, state: &str) {
    let is = || {
        sandbox
            .run("pbsnodes", &[node])
            .out
            .contains(&format!("state = {state}\n"))
            .then_some(())
    };
    sandbox.until(&format!("{node}: {state}"), is);
}

fn host() -> String {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    host.split('.').next().unwrap().to_string()
}

#[track_caller]
fn runs_on(sandbox: &Sandbox, node: &str) {
    let id = sandbox.submit(
        &["-l", &format!("select=1:ncpus=1:vnode={node}")],
        "exit 3\n",
    );
    assert_eq!(sandbox.ended(&id)["Exit_status"], 3, "{node}");
}

#[test]
fn the_local_noded_is_started_besides_nodes_with_sockets() {
    let sandbox = Sandbox::new();
    configure(
        &sandbox,
        &format!(
            "[[node]]\nname = \"{}\"\n{}",
            host(),
            section(&sandbox, "m1", "m1")
        ),
    );
    let _noded = noded(&sandbox, "m1", "m1");
    sandbox.run("schedd", &[]).ok();
    for node in [&*host(), "m1"] {
        until_state(&sandbox, node, "free");
        runs_on(&sandbox, node);
    }
}

#[test]
fn schedd_connects_to_a_local_noded_that_is_not_in_the_configuration() {
    let sandbox = Sandbox::new();
    configure(&sandbox, &section(&sandbox, "m1", "m1"));
    let _noded = noded(&sandbox, "m1", "m1");
    sandbox.run("schedd", &[]).ok();
    until_state(&sandbox, "m1", "free");
    assert!(
        sandbox.run("pbsnodes", &[&host()]).code != 0,
        "no local noded has been started yet"
    );
    // The local noded may present any node that has no socket of its own in the configuration.
    let _imposter = noded(&sandbox, "m1", "noded");
    sandbox.run("noded", &[]).ok();
    until_state(&sandbox, &host(), "free");
    runs_on(&sandbox, &host());
    runs_on(&sandbox, "m1");
}

#[test]
fn nodes_join_move_and_leave_on_sighup() {
    let sandbox = Sandbox::new();
    sandbox.run("schedd", &[]).ok();
    until_state(&sandbox, &host(), "free");
    let noded_of_m1 = noded(&sandbox, "m1", "m1");
    reload(
        &sandbox,
        &format!(
            "[[node]]\nname = \"{}\"\n{}",
            host(),
            section(&sandbox, "m1", "m1")
        ),
    );
    until_state(&sandbox, "m1", "free");
    runs_on(&sandbox, "m1");
    let script = "while [ ! -e go ]; do sleep 0.05; done; exit 5\n";
    let id = sandbox.submit(&["-l", "select=1:ncpus=1:vnode=m1"], script);
    sandbox.running(&id);
    drop(noded_of_m1);
    let _noded = noded(&sandbox, "m1", "other");
    let moved = format!(
        "[[node]]\nname = \"{}\"\n{}",
        host(),
        section(&sandbox, "m1", "other")
    );
    until_state(&sandbox, "m1", "down");
    reload(&sandbox, &moved);
    until_state(&sandbox, "m1", "free");
    fs::write(sandbox.file("go"), "").unwrap();
    let job = sandbox.ended(&id);
    assert_eq!(
        (&job["Exit_status"], &job["run_count"]),
        (&5.into(), &1.into()),
        "{job}"
    );
    // A socket that is reassigned to another node no longer presents the old node.
    let renamed = format!(
        "[[node]]\nname = \"{}\"\n{}",
        host(),
        section(&sandbox, "m2", "other")
    );
    reload(&sandbox, &renamed);
    until_state(&sandbox, "m1", "down");
    sandbox.run("qmgr", &["-c", "delete node m1"]).ok();
    reload(&sandbox, &moved);
    until_state(&sandbox, "m1", "free");
    reload(&sandbox, "");
    until_state(&sandbox, "m1", "down");
    until_state(&sandbox, &host(), "free");
    sandbox.run("qmgr", &["-c", "delete node m1"]).ok();
    assert_eq!(sandbox.pids_of("schedd").len(), 1);
    assert!(
        !sandbox.log().contains("settings unchanged"),
        "{}",
        sandbox.log()
    );
}

#[test]
fn nodes_join_move_and_leave_by_qmgr() {
    let sandbox = Sandbox::new();
    sandbox.run("schedd", &[]).ok();
    until_state(&sandbox, &host(), "free");
    let manage = |line: &str| sandbox.run("qmgr", &["-c", line]);
    let refused = manage("create node m1");
    assert!(
        refused.code != 0 && refused.err.contains("Unknown node"),
        "{refused:?}"
    );
    assert!(
        manage("create node m1 socket = m1.sock").code != 0,
        "not an absolute path"
    );
    let noded_of_m1 = noded(&sandbox, "m1", "m1");
    manage(&format!(
        "create node m1 socket = {}",
        socket(&sandbox, "m1").display()
    ))
    .ok();
    until_state(&sandbox, "m1", "free");
    assert!(
        manage("create node m1 socket = /x").code != 0,
        "node m1 exists already"
    );
    runs_on(&sandbox, "m1");
    // After a restart the node is still there, besides the node of this host.
    sandbox.run("schedd", &["--stop"]).ok();
    sandbox.until("the end of schedd", || {
        sandbox.pid_of("schedd").is_none().then_some(())
    });
    sandbox.run("schedd", &[]).ok();
    until_state(&sandbox, "m1", "free");
    until_state(&sandbox, &host(), "free");
    let line = format!(
        "set node m1 socket = {}",
        socket(&sandbox, "other").display()
    );
    drop(noded_of_m1);
    let _noded = noded(&sandbox, "m1", "other");
    manage(&line).ok();
    until_state(&sandbox, "m1", "free");
    assert!(
        manage("print node m1").ok().contains(&line),
        "{:?}",
        manage("print node m1")
    );
    runs_on(&sandbox, "m1");
    manage("unset node m1 socket").ok();
    until_state(&sandbox, "m1", "down");
    manage("delete node m1").ok();
    assert!(sandbox.run("pbsnodes", &["m1"]).code != 0);
    // A node that never connected can be deleted as well.
    manage(&format!(
        "create node m3 socket = {}",
        socket(&sandbox, "m3").display()
    ))
    .ok();
    manage("delete node m3").ok();
    assert!(manage("delete node m3").code != 0);
}
