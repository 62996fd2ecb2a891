//! Changes of limits, resources and the configuration file while jobs run.

use super::{manage, refused};
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
fn decides_the_same(sandbox: &Sandbox, folder: &tempfile::TempDir) {
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
    let words = "Not Running: User has reached queue workq running job limit.";
    sandbox.until(words, || comment().starts_with(words).then_some(()));
    manage(&sandbox, "set queue workq max_run = [u:PBS_GENERIC=2]").ok();
    assert_eq!(sandbox.ended(&second)["Exit_status"], 0);
    sandbox.script("go", "");
    assert_eq!(sandbox.ended(&first)["Exit_status"], 0);
    decides_the_same(&sandbox, &folder);
}

/// A new resource rebuilds the scheduler's state: running jobs keep their resources, and a replay
/// gives the same plans.
#[test]
fn a_resource_made_while_jobs_run_is_counted_at_once() {
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
    refused(
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
    decides_the_same(&sandbox, &folder);
}

#[test]
fn a_changed_file_is_taken_over_and_a_bad_one_refused_whole() {
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
    let said = reload(
        &format!(
            "{text}\n[[queue]]\nname = \"slow\"\nstarted = false\n[cycle]\npoll_interval = \"7s\"\n"
        ),
        "reloaded:",
    );
    assert!(
        said.contains("[cycle] poll_interval = \"7s\"")
            && said.contains("[[queue]] slow started = false"),
        "{said}"
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
        "qmgr stands above the file"
    );

    let said = reload("[[queue]]\nname = \"slow\"\nstarted = 5\n", "not reloaded");
    assert!(
        said.contains("lanai.toml: line 3: `started` in [[queue]] must be true or false"),
        "{said}"
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
    let said = reload(&fixed, "reloaded:");
    assert!(
        said.contains("[server] name: takes effect when schedd is restarted")
            && said.contains("no [[queue]] slow"),
        "{said}"
    );
    assert!(said.contains("queue fast: Unknown queue"), "{said}");
    refused(&manage(&sandbox, "list queue fast"), 1, "Unknown queue");
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
        "it counts again"
    );
}

const LIC: &str = "[[resource]]\nname = \"lic\"\ntype = \"long\"\nconsumable = true\nhost_level = false\ntotal = 1\n";

#[test]
fn a_requested_resource_cannot_be_deleted_and_its_loss_is_reported_at_startup() {
    let sandbox = Sandbox::configured(LIC);
    let file = sandbox.home().join("lanai.toml");
    let with = fs::read_to_string(&file).unwrap();
    let without = with.replace(LIC, "");
    let running = sandbox.submit(&["-l", "lic=1"], "sleep 600\n");
    sandbox.running(&running);
    let waiting = sandbox.submit(&["-l", "lic=1"], "true\n");
    fs::write(&file, without).unwrap();
    kill(sandbox.pid_of("schedd").unwrap(), 1);
    let said = "not reloaded, settings unchanged";
    let said = sandbox.until(said, || {
        sandbox
            .log()
            .lines()
            .find(|line| line.contains(said))
            .map(str::to_string)
    });
    assert!(
        said.contains(&format!("job {running}")) && said.contains("`lic`"),
        "{said}"
    );
    assert!(
        manage(&sandbox, "list resource lic").ok().contains("lic"),
        "it is as it was"
    );

    sandbox.kill("schedd");
    let free = sandbox.submit(&[], "true\n");
    assert_eq!(
        sandbox.ended(&free)["Exit_status"],
        0,
        "schedd starts, and so does what needs nothing of it"
    );
    assert_eq!(sandbox.state(&running), "R");
    assert_eq!(
        sandbox.state(&waiting),
        "Q",
        "it does not run without what it asks for"
    );
    let comment = sandbox.until("a comment", || {
        sandbox.job(&waiting)["comment"]
            .as_str()
            .filter(|said| said.contains("lic"))
            .map(str::to_string)
    });
    assert!(
        comment.contains("Insufficient amount of resource: lic"),
        "{comment}"
    );
    let warning = "requests `lic`, which is not a [[resource]] any more";
    assert!(sandbox.log().contains(warning), "{}", sandbox.log());
}
