//! Nodes: taken offline, created and deleted.

use super::{assert_refused, manage};
use crate::support::sandbox::Sandbox;

#[test]
fn a_node_is_taken_offline_and_its_resources_are_set() {
    let sandbox = Sandbox::new();
    sandbox
        .run("noded", &["--name", "n", "--ncpus", "4", "--mem", "4gb"])
        .ok();
    manage(&sandbox, "list server").ok();
    sandbox.until("the node", || {
        sandbox
            .run("pbsnodes", &["n"])
            .out
            .contains("state = free")
            .then_some(())
    });
    manage(
        &sandbox,
        "set node n resources_available.ncpus = 2, comment = \"half of it\", state = offline",
    )
    .ok();
    let shown = manage(&sandbox, "print node n").ok();
    for line in [
        "state = offline",
        "resources_available.ncpus = 2",
        "comment = \"half of it\"",
    ] {
        assert!(
            shown.contains(&format!("set node n {line}\n")),
            "{line}: {shown}"
        );
    }
    manage(
        &sandbox,
        "set node n state = free; unset node n resources_available.ncpus",
    )
    .ok();
    assert!(
        manage(&sandbox, "list node n")
            .ok()
            .contains("resources_available.ncpus = 4")
    );
    assert_refused(
        &manage(
            &sandbox,
            "set node n Priority = 7, comment = \"other\", state = bogus",
        ),
        166,
        "Illegal",
    );
    let as_before = manage(&sandbox, "print node n").ok();
    assert!(
        !as_before.contains("Priority") && as_before.contains("half of it"),
        "a refused command changes nothing: {as_before}"
    );
    assert_refused(
        &manage(&sandbox, "set node n partition = p"),
        181,
        "No support for requested service: partition",
    );
}

/// Names of the nodes that `pbsnodes` lists.
fn nodes(sandbox: &Sandbox) -> Vec<String> {
    let all = sandbox.run("pbsnodes", &["-a"]).out;
    all.lines()
        .filter(|line| !line.is_empty() && !line.starts_with(' '))
        .map(str::to_string)
        .collect()
}

#[test]
fn a_node_is_deleted_only_if_unused_and_without_noded() {
    let sandbox = Sandbox::configured("[[node]]\nname = \"n1\"\n");
    sandbox.start_nodes(2, 2);
    manage(
        &sandbox,
        "set node n2 Priority = 5, resources_available.ncpus = 1",
    )
    .ok();
    let checked = sandbox.run("schedd", &["--check"]).ok();
    assert!(
        checked
            .lines()
            .any(|line| line.starts_with("name = \"n1\"") && line.ends_with("# line 2")),
        "{checked}"
    );
    assert!(
        checked
            .lines()
            .any(|line| line.starts_with("ncpus = 1 ") && line.ends_with("# qmgr")),
        "{checked}"
    );
    let id = sandbox.submit(&["-l", "select=1:ncpus=1:host=n2"], "sleep 600\n");
    sandbox.running(&id);
    assert_refused(
        &manage(&sandbox, "delete node n2"),
        179,
        "Cannot delete busy object\n",
    );
    sandbox.run("qdel", &["-W", "force", &id]).ok();
    // noded still has to report the end of the job.
    let is_idle = || {
        manage(&sandbox, "delete node n2")
            .err
            .contains("the noded of the node is connected")
    };
    sandbox.until("the end of the job", || is_idle().then_some(()));
    assert_refused(
        &manage(&sandbox, "delete node n2"),
        179,
        "Cannot delete busy object: the noded of the node is connected; stop this noded",
    );
    assert_refused(
        &manage(&sandbox, "delete node n1"),
        179,
        "Cannot delete busy object: node n1 is defined at line 2 of /",
    );
    sandbox.kill("noded");
    let is_down = || {
        sandbox
            .run("pbsnodes", &["n2"])
            .out
            .contains("state = down")
    };
    sandbox.until("n2 to be down", || is_down().then_some(()));
    manage(&sandbox, "delete node n2").ok();
    assert!(
        nodes(&sandbox).contains(&"n1".to_string()) && !nodes(&sandbox).contains(&"n2".to_string())
    );
    assert_refused(&manage(&sandbox, "delete node n2"), 214, "Unknown node");
    sandbox.kill("schedd");
    assert!(
        !nodes(&sandbox).contains(&"n2".to_string()),
        "n2 is still deleted after a restart"
    );
    assert!(
        !sandbox
            .run("schedd", &["--check"])
            .ok()
            .contains("ncpus = 1"),
        "the qmgr settings of n2 are deleted, too"
    );
}
