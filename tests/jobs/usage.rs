//! Charged usage equals the times that jobs record themselves, also when schedd is killed.

use crate::support::sandbox::Sandbox;
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// A script that records its start and its processors, waits for `file`, and records its end.
fn timed_script(name: &str, file: &str) -> String {
    format!(
        "date +%s.%N > {name}.start; echo $NCPUS > {name}.cores\n\
         while [ ! -e {file} ]; do sleep 0.02; done\ndate +%s.%N > {name}.end\n"
    )
}

fn read_number(sandbox: &Sandbox, name: &str) -> f64 {
    sandbox.read(name).trim().parse().unwrap()
}

/// Core seconds of a job from its own records, and its number of processors.
fn measured(sandbox: &Sandbox, name: &str) -> (f64, f64) {
    let cores = read_number(sandbox, &format!("{name}.cores"));
    (
        (read_number(sandbox, &format!("{name}.end"))
            - read_number(sandbox, &format!("{name}.start")))
            * cores,
        cores,
    )
}

/// Usage of an account from `qstat --usage`; `Null` if there is none.
fn used(sandbox: &Sandbox, account: &str) -> Value {
    let text = sandbox.run("qstat", &["--usage", "-F", "json"]).ok();
    let document: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let is_account = |used: &&Value| used["account"] == account;
    document["Usage"]
        .as_array()
        .unwrap()
        .iter()
        .find(is_account)
        .cloned()
        .unwrap_or(Value::Null)
}

/// Waits until no job of an account runs. Returns its used seconds.
fn await_charge(sandbox: &Sandbox, account: &str) -> f64 {
    sandbox.until("the charge", || {
        let used = used(sandbox, account);
        (used["in_use"] == 0.0).then(|| used["seconds"].as_f64().unwrap())
    })
}

/// Asserts that the charged usage differs by at most one second per processor.
#[track_caller]
fn assert_charged(sandbox: &Sandbox, account: &str, names: &[&str]) {
    let measured = names.iter().map(|name| measured(sandbox, name));
    let (seconds, cores) = measured.fold((0.0, 0.0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
    let charged = await_charge(sandbox, account);
    assert!(
        (charged - seconds).abs() <= cores,
        "{account}: charged {charged}, measured {seconds} on {cores} processors"
    );
}

const CONFIG: &str = "[[queue]]\nname = \"qexp\"\ncharge = false\n[usage]\ndecay = \"none\"\n";

fn sandbox(config: &str) -> Sandbox {
    let node = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = node.split('.').next().unwrap();
    Sandbox::configured(&format!("{config}[[node]]\nname = \"{node}\"\nncpus = 8\n"))
}

fn touch(sandbox: &Sandbox, name: &str) {
    fs::write(sandbox.file(name), "").unwrap();
}

#[test]
fn charged_usage_is_correct_although_schedd_is_killed_and_restarted() {
    let sandbox = sandbox(CONFIG);
    let submit = |name: &str, account: &str, cores: &str, file: &str, more: &[&str]| {
        let cores = format!("ncpus={cores}");
        let id = sandbox.submit(
            &[&["-A", account, "-l", &cores], more].concat(),
            &timed_script(name, file),
        );
        sandbox.running(&id);
        id
    };
    let first = submit("first", "wave", "2", "first.go", &[]);
    let second = submit("second", "tide", "1", "second.go", &[]);
    let third = submit("third", "wave", "3", "third.go", &[]);
    let free = submit("free", "wave", "1", "first.go", &["-q", "qexp"]);
    std::thread::sleep(Duration::from_millis(1500));
    touch(&sandbox, "first.go");
    sandbox.ended(&first);
    sandbox.ended(&free);
    // schedd is not running when the second job ends, and for a while after that.
    sandbox.kill("schedd");
    touch(&sandbox, "second.go");
    std::thread::sleep(Duration::from_millis(2500));
    sandbox.run("schedd", &[]).ok();
    sandbox.ended(&second);
    assert_charged(&sandbox, "tide", &["second"]);
    assert_eq!(used(&sandbox, "wave")["in_use"], 3.0, "running jobs count");
    touch(&sandbox, "third.go");
    sandbox.ended(&third);
    // I5: usage of jobs in qexp is not charged.
    assert_charged(&sandbox, "wave", &["first", "third"]);
    let usage = ["wave", "tide"].map(|account| used(&sandbox, account));
    for stop in [true, false] {
        if stop {
            sandbox.run("schedd", &["--stop"]).ok();
        } else {
            sandbox.kill("schedd");
        }
        sandbox.run("schedd", &[]).ok();
        assert_eq!(
            ["wave", "tide"].map(|account| used(&sandbox, account)),
            usage
        );
    }
    let text = sandbox.run("qstat", &["--usage"]).ok();
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.lines().nth(3).unwrap().starts_with("wave "), "{text}");
    assert_eq!(sandbox.run("qstat", &["--usage", "1"]).code, 2);
    assert_eq!(sandbox.run("qstat", &["--usage", "--start"]).code, 2);
}

#[test]
fn each_attempt_is_charged_and_new_weights_apply_to_past_usage() {
    let sandbox = sandbox("[usage]\ndecay = \"none\"\n");
    let script = "date +%s.%N > start.$LANAI_ATTEMPT\nwhile [ ! -e go ]; do sleep 0.02; done\ndate +%s.%N > end\n";
    let id = sandbox.submit(&["-A", "wave", "-l", "ncpus=2"], script);
    sandbox.running(&id);
    std::thread::sleep(Duration::from_millis(1200));
    sandbox.run("qrerun", &[&id]).ok();
    sandbox.until("the second start", || {
        sandbox.file("start.2").exists().then_some(())
    });
    std::thread::sleep(Duration::from_millis(600));
    touch(&sandbox, "go");
    sandbox.ended(&id);
    let seconds = read_number(&sandbox, "end") - read_number(&sandbox, "start.1");
    let charged = await_charge(&sandbox, "wave");
    assert!(
        (charged - 2.0 * seconds).abs() <= 2.0,
        "charged {charged}, measured {seconds} s on 2 processors"
    );
    sandbox.run("qdel", &["-x", &id]).ok();
    sandbox.run("schedd", &["--stop"]).ok();
    let file = sandbox.home().join("lanai.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        text.replace("[usage]", "[usage]\nweights = { cores = 0, nodes = 3 }"),
    )
    .unwrap();
    sandbox.run("schedd", &[]).ok();
    let again = await_charge(&sandbox, "wave");
    assert!(
        (again - charged * 1.5).abs() < 1e-6,
        "F24: {again} of {charged}"
    );
}

#[test]
fn clock_steps_charge_no_usage() {
    let mut sandbox = sandbox("[usage]\ndecay = \"none\"\n");
    sandbox.set("LANAI_TEST_CLOCK", sandbox.file("clock").display());
    let set = |offset: i64| {
        let new = sandbox.file("clock.new");
        fs::write(&new, offset.to_string()).unwrap();
        fs::rename(new, sandbox.file("clock")).unwrap();
    };
    set(0);
    let id = sandbox.submit(&["-A", "wave", "-l", "ncpus=2"], &timed_script("job", "go"));
    sandbox.running(&id);
    let before = used(&sandbox, "wave")["seconds"].as_f64().unwrap();
    for hours in [1, -1, 48] {
        set(hours * 3_600_000);
        std::thread::sleep(Duration::from_millis(1100));
        let now = used(&sandbox, "wave")["seconds"].as_f64().unwrap();
        assert!(
            (before..before + 120.0).contains(&now),
            "{hours} h: {now} after {before}"
        );
    }
    sandbox.kill("schedd");
    set(-24 * 3_600_000);
    sandbox.run("schedd", &[]).ok();
    touch(&sandbox, "go");
    sandbox.ended(&id);
    assert_charged(&sandbox, "wave", &["job"]);
}

#[test]
fn charges_outside_the_windows_expire_with_the_history() {
    let sandbox = sandbox(
        "[server]\nhistory = \"2s\"\n[usage]\ndecay = \"window\"\nwindow = \"1s\"\nwindows = 1\n",
    );
    let id = sandbox.submit(&["-A", "wave"], "sleep 0.3\n");
    sandbox.ended(&id);
    let kept = sandbox.until("the charge", || {
        Some(used(&sandbox, "wave")).filter(|used| used["in_use"] == 0.0)
    });
    assert!(kept["seconds"].as_f64().unwrap() > 0.2, "{kept}");
    sandbox.until("the expiry of the charge", || {
        used(&sandbox, "wave").is_null().then_some(())
    });
    sandbox.run("schedd", &["--stop"]).ok();
    sandbox.run("schedd", &[]).ok();
    assert!(used(&sandbox, "wave").is_null());
}
