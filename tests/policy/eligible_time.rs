//! Displayed eligible time of live jobs (I6, I7): across holds, restarts of schedd and steps of the
//! wall clock.

use crate::support::sandbox::Sandbox;
use serde_json::Value;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Displayed eligible time (`HH:MM:SS`) in seconds.
fn eligible(sandbox: &Sandbox, id: &str) -> f64 {
    seconds(&sandbox.job(id)["eligible_time"])
}

fn seconds(shown: &Value) -> f64 {
    let text = shown.as_str().unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(text.len(), 8, "{text}");
    text.split(':')
        .fold(0.0, |sum, part| 60.0 * sum + part.parse::<f64>().unwrap())
}

fn pause(millis: u64) {
    sleep(Duration::from_millis(millis));
}

fn restart(sandbox: &Sandbox) {
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
}

#[test]
fn eligible_time_excludes_holds_and_continues_through_restarts_and_clock_steps() {
    let mut sandbox = Sandbox::configured("[server]\nrefuse_impossible = false\n");
    sandbox.set("LANAI_TEST_CLOCK", sandbox.file("clock").display());
    fs::write(sandbox.file("clock"), "0").unwrap();
    let submitted = Instant::now();
    let id = sandbox.submit(&["-l", "ncpus=100000"], "true\n");
    let accepted = Instant::now();
    pause(2200);
    restart(&sandbox);
    let requested = Instant::now();
    sandbox.run("qhold", &[&id]).ok();
    let min = requested.duration_since(accepted).as_secs_f64().floor();
    let max = submitted.elapsed().as_secs_f64();
    let before = eligible(&sandbox, &id);
    assert!((min..=max).contains(&before), "{min} <= {before} <= {max}");
    assert_eq!(sandbox.job(&id)["accrue_type"], 1);
    fs::write(sandbox.file("clock"), "3600000").unwrap();
    pause(1200);
    restart(&sandbox);
    assert_eq!(
        eligible(&sandbox, &id),
        before,
        "a held job accrues no eligible time"
    );
    let requested = Instant::now();
    sandbox.run("qrls", &[&id]).ok();
    let released = Instant::now();
    assert_eq!(sandbox.job(&id)["accrue_type"], 2);
    sandbox.kill("schedd");
    pause(2200);
    // The displayed time is rounded down, so up to a second may be missing.
    let min = released.elapsed().as_secs_f64() + before - 1.0;
    let while_down = eligible(&sandbox, &id);
    assert!(
        (min..=before + 1.0 + requested.elapsed().as_secs_f64()).contains(&while_down),
        "{min} <= {while_down}"
    );
    sandbox.run("schedd", &[]).ok();
    let after_restart = eligible(&sandbox, &id);
    assert!(
        (while_down..=before + 1.0 + requested.elapsed().as_secs_f64()).contains(&after_restart),
        "{while_down} <= {after_restart}"
    );
    let shown = sandbox.run("qstat", &["-f", &id]).ok();
    assert!(
        shown.contains("\n    eligible_time = 00:00:0")
            && shown.contains("\n    accrue_type = 2\n"),
        "{shown}"
    );
    let server = sandbox.run("qstat", &["-B", "-f"]).ok();
    assert!(server.contains("eligible_time_enable = True"), "{server}");
    let selected = |condition: &str| {
        sandbox
            .run("qselect", &["-t", condition])
            .ok()
            .trim()
            .to_string()
    };
    assert_eq!(
        (
            selected("g.ge.00:00:01").as_str(),
            selected("g.gt.01:00:00").as_str()
        ),
        (id.as_str(), "")
    );
}

/// I13: an array waits first for its own limit and then for free resources. Changes made by a cycle
/// are stored like changes made by requests.
#[test]
fn an_array_at_its_own_limit_accrues_no_eligible_time() {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = host.split('.').next().unwrap();
    let sandbox = Sandbox::configured(&format!("[[node]]\nname = \"{node}\"\nncpus = 1\n"));
    let id = sandbox.submit(
        &["-J", "0-2%1", "-l", "ncpus=1"],
        "while [ ! -e go ]; do sleep 0.05; done\n",
    );
    sandbox.running(&id.replace("[]", "[0]"));
    let accrue_type = || sandbox.job(&id)["accrue_type"].clone();
    sandbox.until("the array to wait for its limit", || {
        (accrue_type() == 1).then_some(())
    });
    let before = eligible(&sandbox, &id);
    restart(&sandbox);
    pause(1200);
    assert_eq!(
        (eligible(&sandbox, &id), accrue_type()),
        (before, Value::from(1))
    );
    sandbox
        .run("qalter", &["-W", "max_run_subjobs=2", &id])
        .ok();
    sandbox.until("the array to wait for free resources", || {
        (accrue_type() == 2).then_some(())
    });
    let lifted = Instant::now();
    pause(2200);
    restart(&sandbox);
    let min = before + lifted.elapsed().as_secs_f64() - 1.0;
    let after = eligible(&sandbox, &id);
    assert!((min..=min + 5.0).contains(&after), "{min} <= {after}");
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&id);
    assert_eq!(accrue_type(), 4);
}
