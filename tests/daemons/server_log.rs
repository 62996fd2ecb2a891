//! The log of schedd: changes of nodes, starts and ends of jobs, requests of operators, and why
//! schedd exits.

use crate::support::sandbox::{Sandbox, kill, number, user};

/// Waits until the log has a line with all these parts.
#[track_caller]
fn await_line(sandbox: &Sandbox, parts: &[&str]) -> String {
    sandbox.until(&format!("a line with {parts:?}"), || {
        let log = sandbox.log();
        let mut lines = log.lines();
        lines
            .find(|line| parts.iter().all(|part| line.contains(part)))
            .map(String::from)
    })
}

#[test]
fn the_log_has_nodes_jobs_and_requests_with_their_users() {
    let sandbox = Sandbox::configured("[server]\nlog_jobs = true\n");
    sandbox.run("schedd", &[]).ok();
    let line = await_line(&sandbox, &["INFO", " node ", ": up"]);
    let node = line.rsplit_once(": up").unwrap().0;
    let node = node.rsplit_once("node ").unwrap().1;
    let by = format!("at request of {}@", user());

    let id = sandbox.submit(&[], "exit 3\n");
    sandbox.ended(&id);
    let job = format!("job {}.", number(&id));
    let who = format!("user {}, queue workq, nodes {node}", user());
    await_line(&sandbox, &[&job, " started: ", &who, ", attempt 1"]);
    await_line(
        &sandbox,
        &[&job, " ended: ", &who, ", exit status 3, elapsed 00:00:0"],
    );

    sandbox
        .run("pbsnodes", &["-o", "-C", "reboot for kernel", node])
        .ok();
    await_line(
        &sandbox,
        &[
            &format!("node {node}: offline"),
            "comment \"reboot for kernel\"",
            &by,
        ],
    );
    sandbox.run("pbsnodes", &["-r", node]).ok();
    await_line(&sandbox, &[&format!("node {node}: online"), &by]);

    sandbox
        .run("qmgr", &["-c", "set queue workq max_run = [o:PBS_ALL=5]"])
        .ok();
    await_line(&sandbox, &["qmgr set queue workq", &by]);

    let held = sandbox.submit(&["-h"], "true\n");
    sandbox.run("qrls", &[&held]).ok();
    sandbox.ended(&held);
    let own = format!("qrls of job {}", number(&held));
    assert!(
        !sandbox.log().contains(&own),
        "requests for own jobs are not logged"
    );

    kill(sandbox.pid_of("noded").unwrap(), nix::libc::SIGKILL);
    await_line(&sandbox, &["WARN", &format!("node {node}: down")]);

    sandbox.run("qterm", &[]).ok();
    await_line(&sandbox, &["qterm -t quick", &by]);
    await_line(&sandbox, &["schedd exits: qterm"]);
}

#[test]
fn the_log_names_the_signal_that_ended_schedd_and_its_sender() {
    let sandbox = Sandbox::new();
    sandbox.run("schedd", &[]).ok();
    let id = sandbox.submit(&[], "true\n");
    sandbox.ended(&id);
    let log = sandbox.log();
    assert!(
        !log.contains(" started: "),
        "a personal installation does not log jobs: {log}"
    );
    kill(sandbox.pid_of("schedd").unwrap(), nix::libc::SIGTERM);
    let sender = format!(
        "schedd exits: SIGTERM from process {} of uid ",
        std::process::id()
    );
    await_line(&sandbox, &[&sender]);

    sandbox.run("schedd", &[]).ok();
    sandbox.run("schedd", &["--stop"]).ok();
    await_line(
        &sandbox,
        &["schedd exits: schedd --stop at request of ", &user()],
    );
}
