//! qstat shows the configured values of queues and the server in every format.

use crate::support::sandbox::Sandbox;
use serde_json::{Value, json};

fn manage(sandbox: &Sandbox, command: &str) {
    sandbox.run("qmgr", &["-c", command]).ok();
}

#[test]
fn qstat_shows_queue_limits_in_tables_in_full_output_and_in_json() {
    let sandbox = Sandbox::configured("[server]\nname = \"head\"\n");
    sandbox.submit(&["-h"], "true\n");
    manage(&sandbox, "create queue old queue_type=e,max_running=5");
    manage(
        &sandbox,
        "set queue workq resources_max.walltime=24:00:00,resources_max.mem=2gb,max_run=[u:ann=3]",
    );
    manage(&sandbox, "set queue workq max_run += [g:PBS_GENERIC=4]");
    let list = sandbox.run("qstat", &["-Q"]).ok();
    assert!(
        list.lines()
            .any(|line| line.starts_with("old                  5     0")),
        "{list}"
    );
    let limits = sandbox.run("qstat", &["-q", "workq"]).ok();
    assert!(
        limits.contains("workq               2gb    --    24:00:00  --      0     1   --   E R\n"),
        "{limits}"
    );
    let full = sandbox.run("qstat", &["-Qf", "workq"]).ok();
    for line in [
        "    max_run = [u:ann=3],[g:PBS_GENERIC=4]\n",
        "    resources_max.mem = 2gb\n    resources_max.walltime = 24:00:00\n",
    ] {
        assert!(full.contains(line), "{full}");
    }
    let document: Value =
        serde_json::from_str(&sandbox.run("qstat", &["-Q", "-f", "-F", "json"]).ok()).unwrap();
    assert_eq!(
        document["Queue"]["workq"]["max_run"],
        "[u:ann=3],[g:PBS_GENERIC=4]"
    );
    assert_eq!(
        document["Queue"]["workq"]["resources_max"],
        json!({ "mem": "2gb", "walltime": "24:00:00" })
    );
    assert_eq!(document["Queue"]["old"]["max_running"], 5);
}

#[test]
fn qstat_shows_the_server_comment_and_an_idle_server() {
    let sandbox = Sandbox::configured("[server]\nname = \"head\"\n");
    sandbox.submit(&["-h"], "true\n");
    assert!(sandbox.run("qstat", &[]).ok().starts_with("Job id "));
    manage(&sandbox, "set server comment = \"down on Monday\"");
    assert!(
        sandbox
            .run("qstat", &[])
            .ok()
            .starts_with("down on Monday\nJob id ")
    );
    assert!(
        sandbox
            .run("qstat", &["-a"])
            .ok()
            .starts_with("\nhead: down on Monday\n")
    );
    manage(&sandbox, "set server scheduling = false");
    assert!(
        sandbox
            .run("qstat", &["-B"])
            .ok()
            .ends_with(" Idle      \n")
    );
    let full = sandbox.run("qstat", &["-Bf"]).ok();
    assert!(
        full.contains("server_state = Idle\n") && full.contains("comment = down on Monday\n"),
        "{full}"
    );
}

#[test]
fn default_qsub_arguments_apply_unless_overridden() {
    let sandbox = Sandbox::configured("[server]\nname = \"head\"\n");
    sandbox.submit(&["-h"], "true\n");
    manage(
        &sandbox,
        "set server default_qsub_arguments = \"-p 7 -A site\"",
    );
    let attributes = |id: &str| {
        let job = sandbox.job(id);
        (
            job["Priority"].clone(),
            job["Account_Name"].clone(),
            job["queue"].clone(),
        )
    };
    let plain = sandbox.submit(&["-h"], "#PBS -A own\n");
    assert_eq!(attributes(&plain), (json!(7), json!("own"), json!("workq")));
    // The first existing queue of a list is chosen.
    let chosen = sandbox.submit(&["-h", "-cwd", "-q", "nosuch,workq"], "true\n");
    assert_eq!(
        attributes(&chosen),
        (json!(7), json!("site"), json!("workq"))
    );
    manage(&sandbox, "set server default_qsub_arguments = -y");
    let done = sandbox.run_with_input("qsub", &["-h"], "true\n");
    assert!(
        done.code != 0
            && done
                .err
                .contains("default_qsub_arguments -y: invalid option"),
        "{done:?}"
    );
}
