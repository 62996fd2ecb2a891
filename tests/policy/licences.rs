//! System-wide resources held by real jobs (Q14, Q21, G2): never more holders than units. Counts
//! that an operator or a command reports apply at once and survive a crash of schedd.

use crate::support::sandbox::{Sandbox, kill};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Configuration of this host with `ncpus` processors and the resource `nuke` with these settings.
fn node(ncpus: u32, resource: &str) -> String {
    let host = lanai::sys::sensors::short_host_name();
    format!(
        "[server]\nname = \"head\"\n[[node]]\nname = \"{host}\"\nncpus = {ncpus}\n\
         [[resource]]\nname = \"nuke\"\ntype = \"long\"\nconsumable = true\nhost_level = false\n{resource}\n"
    )
}

/// The resource as `qstat --resources` shows it.
#[track_caller]
fn shown_resource(sandbox: &Sandbox) -> Value {
    let output = sandbox.run("qstat", &["--resources", "-F", "json"]).ok();
    let document: Value = serde_json::from_str(&output).unwrap();
    document["Resources"][0].clone()
}

fn counts(resource: &Value) -> [i64; 5] {
    ["total", "missing", "by_jobs", "elsewhere", "free"].map(|key| resource[key].as_i64().unwrap())
}

/// Times in nanoseconds, in order, at which jobs began (true) or ceased (false) to hold a unit.
fn log(sandbox: &Sandbox) -> Vec<(i128, bool)> {
    let mut lines: Vec<(i128, bool)> = fs::read_to_string(sandbox.file("held.log"))
        .unwrap_or_default()
        .lines()
        .map(|line| {
            let (event, time) = line.split_once(' ').unwrap();
            (time.parse().unwrap(), event == "start")
        })
        .collect();
    lines.sort_unstable();
    lines
}

const HOLDER: &str =
    "echo start $(date +%s%N) >> held.log\nsleep 0.2\necho end $(date +%s%N) >> held.log\n";

#[test]
fn g2_two_license_units_never_have_three_holders_and_are_reused_at_once() {
    const JOBS: usize = 20;
    let sandbox = Sandbox::configured(&node(JOBS as u32, "total = 2"));
    let ids: Vec<String> = (0..JOBS)
        .map(|_| sandbox.submit(&["-l", "nuke=1"], HOLDER))
        .collect();
    ids.iter()
        .for_each(|id| assert_eq!(sandbox.ended(id)["Exit_status"], 0));
    let events = log(&sandbox);
    assert_eq!(events.len(), 2 * JOBS);
    let (mut holders, mut most) = (0_i64, 0);
    for (_, starts) in &events {
        holders += if *starts { 1 } else { -1 };
        most = most.max(holders);
    }
    assert_eq!((holders, most), (0, 2), "{events:?}");
    // After the first two starts, each start follows the end of an earlier holder.
    let times = |starts: bool| {
        events
            .iter()
            .filter(move |event| event.1 == starts)
            .map(|event| event.0)
    };
    let delays: Vec<i128> = times(true)
        .skip(2)
        .zip(times(false))
        .map(|(start, end)| start - end)
        .collect();
    assert!(delays.iter().all(|delay| *delay > 0), "{events:?}");
    let worst = *delays.iter().max().unwrap() as f64 / 1e6;
    println!("from the end of one holder to the start of the next: at most {worst:.1} ms");
    assert!(worst < 1000.0, "{worst} ms");
    assert_eq!(counts(&shown_resource(&sandbox)), [2, 0, 0, 0, 2]);
}

#[test]
fn q21_an_operator_sets_the_count_and_jobs_start_or_wait() {
    let sandbox = Sandbox::configured(&node(4, "total = 50\nper_host = true"));
    let qmgr = |command: &str| sandbox.run("qmgr", &["-c", command]);
    qmgr("set resource nuke total=50,used=10").ok();
    assert_eq!(counts(&shown_resource(&sandbox)), [50, 0, 0, 10, 40]);
    qmgr("set resource nuke total=40").ok();
    let resource = shown_resource(&sandbox);
    assert_eq!(counts(&resource), [50, 10, 0, 10, 30]);
    assert_eq!(
        (&resource["in_use"], &resource["kind"]),
        (&Value::from(20), &Value::from("license_host"))
    );
    let running = sandbox.submit(&["-l", "select=4:ncpus=1", "-l", "nuke=1"], "sleep 60\n");
    sandbox.running(&running);
    sandbox.until("one used unit for the host", || {
        (shown_resource(&sandbox)["by_jobs"] == 1).then_some(())
    });
    // The total is below the use by jobs: they keep their units, no figure is negative, and no
    // further job starts.
    qmgr("set resource nuke total=0").ok();
    assert_eq!(counts(&shown_resource(&sandbox)), [50, 50, 1, 10, 0]);
    let waiting = sandbox.submit(&["-l", "select=1:ncpus=0", "-l", "nuke=1"], "true\n");
    let why = sandbox.until("the reason", || {
        let comment = sandbox.job(&waiting)["comment"]
            .as_str()
            .unwrap_or_default()
            .to_string();
        comment.contains("nuke").then_some(comment)
    });
    assert!(why.contains("T: 50"), "{why}");
    assert_eq!(sandbox.state(&running), "R");
    // The reported total survives a restart of schedd.
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    let after = shown_resource(&sandbox);
    assert_eq!(counts(&after), [50, 50, 1, 10, 0]);
    assert!(
        after["told"]["by"].as_str().unwrap().contains('@'),
        "{after}"
    );
    // Invalid reports are refused.
    for wrong in ["total=-1", "total=x", "used=4gb", "used+=1"] {
        assert_ne!(
            qmgr(&format!("set resource nuke {wrong}")).code,
            0,
            "{wrong}"
        );
    }
    assert_ne!(qmgr("set resource nosuch total=1").code, 0);
    assert_eq!(counts(&shown_resource(&sandbox)), [50, 50, 1, 10, 0]);
    qmgr("unset resource nuke total,used").ok();
    assert_eq!(sandbox.ended(&waiting)["Exit_status"], 0);
    let plain = shown_resource(&sandbox);
    assert_eq!(
        (&plain["told"], &plain["kind"]),
        (&Value::Null, &Value::from("global_host"))
    );
    sandbox.run("qdel", &[&running]);
}

/// A command that sets other attributes with a refused amount sets none of them.
#[test]
fn q21_a_refused_amount_leaves_the_other_attributes_unchanged() {
    let sandbox = Sandbox::configured(&node(1, "total = 2"));
    let qmgr = |command: &str| sandbox.run("qmgr", &["-c", command]);
    let shown = |name: &str| qmgr(&format!("list resource {name}")).ok();
    qmgr("create resource scratch type=long,flag=q").ok();
    for (name, edits, cause) in [
        ("scratch", "flag=nh,total=5", "with a configured total"),
        ("nuke", "flag=r,total=x", "Illegal attribute"),
    ] {
        let before = shown(name);
        let refused = qmgr(&format!("set resource {name} {edits}"));
        assert_ne!(refused.code, 0, "{name}");
        assert!(refused.err.contains(cause), "{}", refused.err);
        assert_eq!(shown(name), before);
    }
    qmgr("set server resources_available.scratch = 5").ok();
    qmgr("set resource scratch type=float,total=1.5").ok();
    let resources = sandbox.run("qstat", &["--resources"]).ok();
    assert!(resources.contains("1.5"), "{resources}");
}

/// G2: four subjobs on one host hold one per-host unit until the last of them ends, also if
/// schedd is killed meanwhile.
#[test]
fn g2_subjobs_on_one_host_share_one_unit() {
    let sandbox = Sandbox::configured(&node(8, "total = 1\nper_host = true"));
    let script = "while [ ! -e $PBS_ARRAY_INDEX.go ]; do sleep 0.02; done\n";
    let array = sandbox.submit(&["-J", "1-4", "-l", "nuke=1"], script);
    let subjobs = [1, 2, 3, 4].map(|index| array.replace("[]", &format!("[{index}]")));
    subjobs.iter().for_each(|id| drop(sandbox.running(id)));
    assert_eq!(counts(&shown_resource(&sandbox)), [1, 0, 1, 0, 0]);
    let other = sandbox.submit(&["-l", "nuke=1"], "true\n");
    let end = |index: usize| {
        fs::write(sandbox.file(&format!("{index}.go")), "").unwrap();
        let has_ended = || matches!(&*sandbox.state(&subjobs[index - 1]), "X" | "F");
        sandbox.until("the end of a subjob", || has_ended().then_some(()));
    };
    end(4);
    assert_eq!(counts(&shown_resource(&sandbox)), [1, 0, 1, 0, 0]);
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    sandbox.until("the same counts as before", || {
        (counts(&shown_resource(&sandbox)) == [1, 0, 1, 0, 0]).then_some(())
    });
    [2, 1].into_iter().for_each(end);
    assert_eq!(
        (
            counts(&shown_resource(&sandbox)),
            sandbox.state(&other).as_str()
        ),
        ([1, 0, 1, 0, 0], "Q")
    );
    end(3);
    assert_eq!(sandbox.ended(&other)["Exit_status"], 0);
    sandbox.until("a free unit", || {
        (counts(&shown_resource(&sandbox)) == [1, 0, 0, 0, 1]).then_some(())
    });
}

/// Resource triggers of all cycles, from `qstat --cycles`.
fn reported_resources(sandbox: &Sandbox) -> Vec<String> {
    let cycles = sandbox.run("qstat", &["--cycles"]).ok();
    let words = cycles
        .split_whitespace()
        .filter(|word| word.starts_with("resource"));
    words.map(str::to_string).collect()
}

/// Q1: an increase has its own trigger, and an unchanged report triggers no cycle.
#[test]
fn q1_a_reported_resource_count_triggers_one_cycle() {
    let sandbox = Sandbox::configured(&node(1, "total = 9"));
    let mut expected: Vec<String> = Vec::new();
    let free = "resource_free:nuke";
    for (setting, trigger) in [
        ("total=5", "resource:nuke"),
        ("total=6", free),
        ("total=6", ""),
        ("total=7,used=1", "resource:nuke"),
        ("used=1", ""),
        ("used=0", free),
    ] {
        sandbox
            .run("qmgr", &["-c", &format!("set resource nuke {setting}")])
            .ok();
        expected.extend(
            Some(trigger)
                .filter(|trigger| !trigger.is_empty())
                .map(String::from),
        );
        let last = sandbox.submit(&[], "true\n");
        sandbox.ended(&last);
        assert_eq!(reported_resources(&sandbox), expected, "{setting}");
    }
}

/// Q21: the count reported by a command is dropped with the command; the count set by an operator
/// stays.
#[test]
fn q21_a_reported_count_applies_while_its_source_exists() {
    let command = "[[resource]]\nname = \"counted\"\ntype = \"long\"\nconsumable = true\nhost_level = false\ntotal = 5\n";
    let base = node(1, "total = 9");
    let sandbox = Sandbox::configured(&format!(
        "{base}{command}command = [\"/bin/echo\", \"2\"]\n"
    ));
    let totals = || {
        let output = sandbox.run("qstat", &["--resources", "-F", "json"]).ok();
        let document: Value = serde_json::from_str(&output).unwrap();
        let free = |resource: &Value| {
            (
                resource["name"].as_str().unwrap().to_string(),
                resource["free"].as_i64().unwrap(),
            )
        };
        document["Resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(free)
            .collect::<Vec<_>>()
    };
    let becomes = |counted: i64, nuke: i64| {
        let expected = [("counted".to_string(), counted), ("nuke".to_string(), nuke)];
        sandbox.until(&format!("{expected:?}"), || {
            let mut totals = totals();
            totals.sort();
            (totals == expected).then_some(())
        });
    };
    sandbox
        .run("qmgr", &["-c", "set resource nuke total=7"])
        .ok();
    becomes(2, 7);
    fs::write(
        sandbox.home().join("lanai.toml"),
        format!("{base}{command}"),
    )
    .unwrap();
    kill(sandbox.pid_of("schedd").unwrap(), 1);
    becomes(5, 7);
    // If the resource is removed from the configuration, its reported count is dropped, also when
    // the resource returns.
    fs::write(
        sandbox.home().join("lanai.toml"),
        base.replace("nuke", "other"),
    )
    .unwrap();
    kill(sandbox.pid_of("schedd").unwrap(), 1);
    sandbox.until("resource `other`", || {
        (totals() == [("other".to_string(), 9)]).then_some(())
    });
    fs::write(
        sandbox.home().join("lanai.toml"),
        format!("{base}{command}"),
    )
    .unwrap();
    kill(sandbox.pid_of("schedd").unwrap(), 1);
    becomes(5, 9);
}

/// A report that could not be stored leaves the previous count in effect.
#[test]
fn q21_a_reported_count_takes_effect_only_after_it_is_stored() {
    let mut sandbox = Sandbox::configured(&node(1, "total = 50"));
    sandbox.set("LANAI_FAULTS", "spool.commit:1/2:fail");
    sandbox.until("schedd", || {
        (sandbox.run("schedd", &[]).code == 0).then_some(())
    });
    let (mut total, mut kept, mut lost) = (50, 0, 0);
    while kept < 4 || lost < 4 {
        let next = 1 + kept + lost;
        match sandbox
            .run("qmgr", &["-c", &format!("set resource nuke total={next}")])
            .code
        {
            0 => (total, kept) = (next, kept + 1),
            _ => lost += 1,
        }
        assert_eq!(
            shown_resource(&sandbox)["free"],
            total,
            "{kept} kept, {lost} lost"
        );
        assert!(next < 100, "about half of the commands must succeed");
    }
}

/// Replaces the content of a file atomically.
fn replace(path: &Path, text: &str) {
    fs::write(path.with_extension("new"), text).unwrap();
    fs::rename(path.with_extension("new"), path).unwrap();
}

#[test]
fn q14_a_count_from_a_command_starts_jobs_and_survives_failures_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("count");
    replace(&file, "0\n");
    let command = format!(
        "total = 5\ncommand = [\"/bin/cat\", \"{}\"]\ninterval = \"1s\"\n",
        file.display()
    );
    let sandbox = Sandbox::configured(&node(8, &command));
    let waiting = sandbox.submit(&["-l", "nuke=2"], "true\n");
    sandbox.until("the count from the command", || {
        (counts(&shown_resource(&sandbox)) == [5, 5, 0, 0, 0]).then_some(())
    });
    assert_eq!(sandbox.state(&waiting), "Q");
    replace(&file, "4 2\n");
    assert_eq!(sandbox.ended(&waiting)["Exit_status"], 0);
    let cycles = sandbox.run("qstat", &["--cycles"]).ok();
    assert!(
        cycles
            .lines()
            .any(|line| line.ends_with("resource_free:nuke")),
        "{cycles}"
    );
    // Invalid output changes no count, is shown, and is logged once.
    replace(&file, "many\n");
    let fault = sandbox.until("the fault", || {
        shown_resource(&sandbox)["fault"].as_str().map(String::from)
    });
    assert!(fault.contains("many"), "{fault}");
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(counts(&shown_resource(&sandbox)), [5, 1, 0, 2, 2]);
    assert_eq!(
        sandbox.log().matches("reported no amount of nuke").count(),
        1,
        "{}",
        sandbox.log()
    );
    sandbox.kill("schedd");
    fs::remove_file(&file).unwrap();
    sandbox.run("schedd", &[]).ok();
    sandbox.until("the fault after the restart", || {
        shown_resource(&sandbox)["fault"]
            .as_str()
            .map(|why| assert!(why.contains("No such file")))
    });
    assert_eq!(counts(&shown_resource(&sandbox)), [5, 1, 0, 2, 2]);
    assert_eq!(shown_resource(&sandbox)["told"]["by"], "command");
    let text = sandbox.run("qstat", &["--resources"]).ok();
    assert!(
        text.contains(
            "nuke: the command that counts this resource reports no value: the command ended with status 1"
        ),
        "{text}"
    );
}

/// A hanging command blocks no other work and is not started a second time.
#[test]
fn a_hanging_command_times_out_and_schedd_continues() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("runs");
    let script = format!("echo run >> {}; sleep 600", record.display());
    let command = format!(
        "total = 5\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\ninterval = \"1s\"\ntimeout = \"1s\"\n"
    );
    let sandbox = Sandbox::configured(&node(4, &command));
    let id = sandbox.submit(&["-l", "nuke=5"], "true\n");
    assert_eq!(
        sandbox.ended(&id)["Exit_status"],
        0,
        "the configured count applies until the command reports another"
    );
    let fault = sandbox.until("the fault", || {
        shown_resource(&sandbox)["fault"].as_str().map(String::from)
    });
    assert_eq!(fault, "the command took longer than 1 s");
    sandbox.until("a second run", || {
        (fs::read_to_string(&record).unwrap().lines().count() > 1).then_some(())
    });
}
