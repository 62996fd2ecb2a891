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

fn rest(millis: u64) {
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
    rest(2200);
    restart(&sandbox);
    let asked = Instant::now();
    sandbox.run("qhold", &[&id]).ok();
    let least = asked.duration_since(accepted).as_secs_f64().floor();
    let most = submitted.elapsed().as_secs_f64();
    let had = eligible(&sandbox, &id);
    assert!((least..=most).contains(&had), "{least} <= {had} <= {most}");
    assert_eq!(sandbox.job(&id)["accrue_type"], 1);
    fs::write(sandbox.file("clock"), "3600000").unwrap();
    rest(1200);
    restart(&sandbox);
    assert_eq!(eligible(&sandbox, &id), had, "held, it accrues nothing");
    let asked = Instant::now();
    sandbox.run("qrls", &[&id]).ok();
    let released = Instant::now();
    assert_eq!(sandbox.job(&id)["accrue_type"], 2);
    sandbox.kill("schedd");
    rest(2200);
    // Two readings are rounded down, so up to two seconds may be missing.
    let least = released.elapsed().as_secs_f64() + had - 1.0;
    let away = eligible(&sandbox, &id);
    assert!(
        (least..=had + 1.0 + asked.elapsed().as_secs_f64()).contains(&away),
        "{least} <= {away}"
    );
    sandbox.run("schedd", &[]).ok();
    let back = eligible(&sandbox, &id);
    assert!(
        (away..=had + 1.0 + asked.elapsed().as_secs_f64()).contains(&back),
        "{away} <= {back}"
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
fn an_array_at_its_own_limit_accrues_nothing_until_that_is_lifted() {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = host.split('.').next().unwrap();
    let sandbox = Sandbox::configured(&format!("[[node]]\nname = \"{node}\"\nncpus = 1\n"));
    let id = sandbox.submit(
        &["-J", "0-2%1", "-l", "ncpus=1"],
        "while [ ! -e go ]; do sleep 0.05; done\n",
    );
    sandbox.running(&id.replace("[]", "[0]"));
    let kind = || sandbox.job(&id)["accrue_type"].clone();
    sandbox.until("the verdict of the limit", || (kind() == 1).then_some(()));
    let had = eligible(&sandbox, &id);
    restart(&sandbox);
    rest(1200);
    assert_eq!((eligible(&sandbox, &id), kind()), (had, Value::from(1)));
    sandbox
        .run("qalter", &["-W", "max_run_subjobs=2", &id])
        .ok();
    sandbox.until("the verdict of want of room", || {
        (kind() == 2).then_some(())
    });
    let lifted = Instant::now();
    rest(2200);
    restart(&sandbox);
    let least = had + lifted.elapsed().as_secs_f64() - 1.0;
    let has = eligible(&sandbox, &id);
    assert!((least..=least + 5.0).contains(&has), "{least} <= {has}");
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&id);
    assert_eq!(kind(), 4);
}
