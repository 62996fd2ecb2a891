//! Periodic hooks.

use super::{Site, await_offline, node};
use crate::support::sandbox::{Sandbox, kill};
use std::fs;
use std::time::{Duration, Instant};

fn lines(site: &Site, name: &str) -> usize {
    site.read(name).lines().count()
}

#[test]
fn periodic_hooks_repeat_never_overlap_and_use_the_latest_settings() {
    let site = Site::new();
    let tick = "echo tick >> ticks; cat > tick.new; mv tick.new tick.json";
    let slow = "echo slow >> slows; sleep 2.5";
    let hooks = [
        site.hook("tick", &["exechost_periodic"], "freq = \"1s\"", tick),
        site.hook("slow", &["exechost_periodic"], "freq = \"1s\"", slow),
    ];
    let sandbox = Sandbox::configured(&hooks.concat());
    sandbox.ended(&sandbox.submit(&[], "true"));
    let started = Instant::now();
    sandbox.until("five runs of the hook", || {
        (lines(&site, "ticks") >= 5).then_some(())
    });
    let limit = started.elapsed().as_secs() as usize / 2 + 2;
    assert!(
        lines(&site, "slows") <= limit,
        "{} in {:?}",
        lines(&site, "slows"),
        started.elapsed()
    );
    let input = site.json("tick.json");
    assert_eq!(
        (&input["event"], &input["hook"]),
        (&"exechost_periodic".into(), &"tick".into())
    );
    assert!(
        input["nodes"][0]["resources_available"]["ncpus"].is_number(),
        "{input}"
    );
    fs::write(
        sandbox.home().join("lanai.toml"),
        "[launch]\nlogin = false\n",
    )
    .unwrap();
    kill(sandbox.pid_of("schedd").unwrap(), 1);
    sandbox.until("the reload", || {
        sandbox.log().contains("reloaded: ").then_some(())
    });
    std::thread::sleep(Duration::from_millis(300));
    let before = lines(&site, "ticks");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(lines(&site, "ticks"), before);
}

#[test]
fn a_failing_periodic_hook_may_offline_its_nodes() {
    let site = Site::new();
    let more = "freq = \"1s\"\nalarm = \"1s\"\nfail_action = \"offline_vnodes\"";
    let sick = site.hook(
        "sick",
        &["exechost_periodic"],
        more,
        "[ -e sick ] && sleep 60; true",
    );
    let sandbox = Sandbox::configured(&sick);
    sandbox.ended(&sandbox.submit(&[], "true"));
    assert_eq!(node(&sandbox)["state"], "free");
    site.touch("sick");
    await_offline(
        &sandbox,
        "exechost_periodic hook 'sick' failed: it took longer than 1 s",
    );
}
