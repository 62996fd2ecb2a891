//! Changes of limits, resources and the configuration file while jobs run.

use super::{assert_refused, manage};
use crate::support::sandbox::{Sandbox, kill};
use std::fs;

/// A sandbox that records its cycles in a file in this directory.
fn recorded() -> (tempfile::TempDir, Sandbox) {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::configured(&format!(
        "[cycle]\nrecord = {:?}\n",
        folder.path().join("record")
    ));
    (folder, sandbox)
}

/// Asserts that a replay of the recording gives the same plans.
#[track_caller]
fn assert_replay_gives_the_same_plans(sandbox: &Sandbox, folder: &tempfile::TempDir) {
    sandbox.run("schedd", &["--stop"]).ok();
    let checked = sandbox.run(
        "qsim",
        &[
            "check",
            "--recorded",
            folder.path().join("record").to_str().unwrap(),
        ],
    );
    assert_eq!(checked.code, 0, "{checked:?}");
}

/// Changes of the policy are part of the recording.
#[test]
fn a_limit_set_by_qmgr_applies_at_once_and_a_higher_one_starts_jobs() {
    let (folder, sandbox) = recorded();
    let first = sandbox.submit(
        &["-l", "ncpus=1"],
        "while [ ! -e go ]; do sleep 0.05; done\n",
    );
    sandbox.running(&first);
    manage(&sandbox, "set queue workq max_run = [u:PBS_GENERIC=1]").ok();
    let second = sandbox.submit(&["-l", "ncpus=1"], "true\n");
    let comment = || {
        sandbox.job(&second)["comment"]
            .as_str()
            .unwrap_or_default()
            .to_string()
    };
    let expected = "Not Running: User has reached queue workq running job limit.";
    sandbox.until(expected, || comment().starts_with(expected).then_some(()));
    manage(&sandbox, "set queue workq max_run = [u:PBS_GENERIC=2]").ok();
    assert_eq!(sandbox.ended(&second)["Exit_status"], 0);
    sandbox.script("go", "");
    assert_eq!(sandbox.ended(&first)["Exit_status"], 0);
    assert_replay_gives_the_same_plans(&sandbox, &folder);
}

/// A new resource rebuilds the scheduler's state: running jobs keep their resources, and a replay
/// gives the same plans.
#[test]
fn a_resource_created_while_jobs_run_is_counted_at_once() {
    let (folder, sandbox) = recorded();
    let running = sandbox.submit(&["-l", "ncpus=1"], "sleep 600\n");
    sandbox.running(&running);
    manage(&sandbox, "create resource lic type=long,flag=q").ok();
    manage(&sandbox, "set server resources_available.lic=1").ok();
    let first = sandbox.submit(
        &["-l", "ncpus=1", "-l", "lic=1"],
        "while [ ! -e go ]; do sleep 0.05; done\n",
    );
    sandbox.running(&first);
    let second = sandbox.submit(&["-l", "ncpus=1", "-l", "lic=1"], "true\n");
    let comment = || {
        sandbox.job(&second)["comment"]
            .as_str()
            .unwrap_or_default()
            .to_string()
    };
    sandbox.until("its comment", || {
        comment().contains("Not Running").then_some(())
    });
    assert_refused(
        &manage(&sandbox, "delete resource lic"),
        179,
        "Cannot delete busy object",
    );
    sandbox.run("qdel", &["-W", "force", &running]).ok();
    manage(&sandbox, "set server resources_available.lic=2").ok();
    assert_eq!(sandbox.ended(&second)["Exit_status"], 0);
    manage(&sandbox, "set server backfill_depth = 2").ok();
    sandbox.script("go", "");
    assert_eq!(sandbox.ended(&first)["Exit_status"], 0);
    assert_replay_gives_the_same_plans(&sandbox, &folder);
}

#[test]
fn a_changed_file_is_applied_and_an_invalid_one_refused_completely() {
    let sandbox = Sandbox::configured("[[queue]]\nname = \"fast\"\n[launch]\n");
    let file = sandbox.home().join("lanai.toml");
    let text = fs::read_to_string(&file).unwrap();
    manage(&sandbox, "set queue fast Priority = 5").ok();
    let reload = |text: &str, awaited: &str| {
        fs::write(&file, text).unwrap();
        let before = sandbox.log().len();
        kill(sandbox.pid_of("schedd").unwrap(), 1);
        sandbox.until(awaited, || {
            sandbox
                .log()
                .get(before..)
                .filter(|log| log.contains(awaited))
                .map(str::to_string)
        })
    };
    let log = reload(
        &format!(
            "{text}\n[[queue]]\nname = \"slow\"\nstarted = false\n[cycle]\npoll_interval = \"7s\"\n"
        ),
        "reloaded:",
    );
    assert!(
        log.contains("[cycle] poll_interval = \"7s\"")
            && log.contains("[[queue]] slow started = false"),
        "{log}"
    );
    assert!(
        manage(&sandbox, "list queue slow")
            .ok()
            .contains("started = False")
    );
    assert!(
        manage(&sandbox, "list queue fast")
            .ok()
            .contains("Priority = 5"),
        "qmgr settings override the file"
    );

    let log = reload("[[queue]]\nname = \"slow\"\nstarted = 5\n", "not reloaded");
    assert!(
        log.contains("lanai.toml: line 3: `started` in [[queue]] must be true or false"),
        "{log}"
    );
    assert!(
        manage(&sandbox, "list queue slow")
            .ok()
            .contains("started = False")
    );

    let fixed = format!(
        "{}\n[server]\nname = \"other\"\n",
        text.replace("name = \"fast\"", "name = \"quick\"")
    );
    let log = reload(&fixed, "reloaded:");
    assert!(
        log.contains("[server] name: takes effect when schedd is restarted")
            && log.contains("no [[queue]] slow"),
        "{log}"
    );
    assert!(log.contains("queue fast: Unknown queue"), "{log}");
    assert_refused(&manage(&sandbox, "list queue fast"), 1, "Unknown queue");
    let checked = sandbox.run("schedd", &["--check"]).ok();
    assert!(checked.contains(
        "# warning: a setting of qmgr conflicts with the file and is ignored: queue fast: Unknown \
         queue"
    ));
    reload(&text, "reloaded:");
    assert!(
        manage(&sandbox, "list queue fast")
            .ok()
            .contains("Priority = 5"),
        "the qmgr setting applies again"
    );
}

const LIC: &str = "[[resource]]\nname = \"lic\"\ntype = \"long\"\nconsumable = true\nhost_level = false\ntotal = 1\n";

#[test]
fn removing_a_requested_resource_is_refused_and_reported_at_startup() {
    let sandbox = Sandbox::configured(LIC);
    let file = sandbox.home().join("lanai.toml");
    let with = fs::read_to_string(&file).unwrap();
    let without = with.replace(LIC, "");
    let running = sandbox.submit(&["-l", "lic=1"], "sleep 600\n");
    sandbox.running(&running);
    let waiting = sandbox.submit(&["-l", "lic=1"], "true\n");
    fs::write(&file, without).unwrap();
    kill(sandbox.pid_of("schedd").unwrap(), 1);
    let message = "not reloaded, settings unchanged";
    let line = sandbox.until(message, || {
        sandbox
            .log()
            .lines()
            .find(|line| line.contains(message))
            .map(str::to_string)
    });
    assert!(
        line.contains(&format!("job {running}")) && line.contains("`lic`"),
        "{line}"
    );
    assert!(
        manage(&sandbox, "list resource lic").ok().contains("lic"),
        "the configuration is unchanged"
    );

    sandbox.kill("schedd");
    let free = sandbox.submit(&[], "true\n");
    assert_eq!(
        sandbox.ended(&free)["Exit_status"],
        0,
        "schedd starts, and jobs that do not request `lic` run"
    );
    assert_eq!(sandbox.state(&running), "R");
    assert_eq!(
        sandbox.state(&waiting),
        "Q",
        "a job that requests `lic` does not start"
    );
    let comment = sandbox.until("a comment", || {
        sandbox.job(&waiting)["comment"]
            .as_str()
            .filter(|comment| comment.contains("lic"))
            .map(str::to_string)
    });
    assert!(
        comment.contains("Insufficient amount of resource: lic"),
        "{comment}"
    );
    let warning = "requests `lic`, which is not a [[resource]] any more";
    assert!(sandbox.log().contains(warning), "{}", sandbox.log());
}
