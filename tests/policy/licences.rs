//! Server-wide resources held by real jobs (Q14, Q21, G2): never more holders than units. Counts
//! reported from outside apply at once and survive the death of schedd.

use crate::support::sandbox::{Sandbox, kill};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

fn node(ncpus: u32, resource: &str) -> String {
    let host = lanai::sys::sensors::short_host_name();
    format!(
        "[server]\nname = \"head\"\n[[node]]\nname = \"{host}\"\nncpus = {ncpus}\n\
         [[resource]]\nname = \"nuke\"\ntype = \"long\"\nconsumable = true\nhost_level = false\n{resource}\n"
    )
}

/// The resource as `qstat --resources` shows it.
#[track_caller]
fn told(sandbox: &Sandbox) -> Value {
    let said = sandbox.run("qstat", &["--resources", "-F", "json"]).ok();
    let document: Value = serde_json::from_str(&said).unwrap();
    document["Resources"][0].clone()
}

fn figures(resource: &Value) -> [i64; 5] {
    ["total", "missing", "by_jobs", "elsewhere", "free"].map(|key| resource[key].as_i64().unwrap())
}

/// Times in nanoseconds, in order, at which jobs began (true) or ceased (false) to hold a unit.
fn log(sandbox: &Sandbox) -> Vec<(i128, bool)> {
    let mut lines: Vec<(i128, bool)> = fs::read_to_string(sandbox.file("held.log"))
        .unwrap_or_default()
        .lines()
        .map(|line| {
            let (what, when) = line.split_once(' ').unwrap();
            (when.parse().unwrap(), what == "start")
        })
        .collect();
    lines.sort_unstable();
    lines
}

const HOLDER: &str =
    "echo start $(date +%s%N) >> held.log\nsleep 0.2\necho end $(date +%s%N) >> held.log\n";

#[test]
fn g2_a_licence_of_two_units_never_has_three_holders_and_is_handed_on_at_once() {
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
    let moments = |starts: bool| {
        events
            .iter()
            .filter(move |event| event.1 == starts)
            .map(|event| event.0)
    };
    let waits: Vec<i128> = moments(true)
        .skip(2)
        .zip(moments(false))
        .map(|(start, end)| start - end)
        .collect();
    assert!(waits.iter().all(|wait| *wait > 0), "{events:?}");
    let worst = *waits.iter().max().unwrap() as f64 / 1e6;
    println!("from the end of one holder to the start of the next: at most {worst:.1} ms");
    assert!(worst < 1000.0, "{worst} ms");
    assert_eq!(figures(&told(&sandbox)), [2, 0, 0, 0, 2]);
}

#[test]
fn q21_an_operator_sets_the_count_and_jobs_start_or_wait() {
    let sandbox = Sandbox::configured(&node(4, "total = 50\nper_host = true"));
    let qmgr = |command: &str| sandbox.run("qmgr", &["-c", command]);
    qmgr("set resource nuke total=50,used=10").ok();
    assert_eq!(figures(&told(&sandbox)), [50, 0, 0, 10, 40]);
    qmgr("set resource nuke total=40").ok();
    let resource = told(&sandbox);
    assert_eq!(figures(&resource), [50, 10, 0, 10, 30]);
    assert_eq!(
        (&resource["in_use"], &resource["kind"]),
        (&Value::from(20), &Value::from("license_host"))
    );
    let runs = sandbox.submit(&["-l", "select=4:ncpus=1", "-l", "nuke=1"], "sleep 60\n");
    sandbox.running(&runs);
    sandbox.until("one for its host, not four", || {
        (told(&sandbox)["by_jobs"] == 1).then_some(())
    });
    // The total is below the use by jobs: they keep their units, no figure is negative, and no
    // further job starts.
    qmgr("set resource nuke total=0").ok();
    assert_eq!(figures(&told(&sandbox)), [50, 50, 1, 10, 0]);
    let waits = sandbox.submit(&["-l", "select=1:ncpus=0", "-l", "nuke=1"], "true\n");
    let why = sandbox.until("the reason", || {
        let comment = sandbox.job(&waits)["comment"]
            .as_str()
            .unwrap_or_default()
            .to_string();
        comment.contains("nuke").then_some(comment)
    });
    assert!(why.contains("T: 50"), "{why}");
    assert_eq!(sandbox.state(&runs), "R");
    // The reported total survives a restart of schedd.
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    let after = told(&sandbox);
    assert_eq!(figures(&after), [50, 50, 1, 10, 0]);
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
    assert_eq!(figures(&told(&sandbox)), [50, 50, 1, 10, 0]);
    qmgr("unset resource nuke total,used").ok();
    assert_eq!(sandbox.ended(&waits)["Exit_status"], 0);
    let plain = told(&sandbox);
    assert_eq!(
        (&plain["told"], &plain["kind"]),
        (&Value::Null, &Value::from("global_host"))
    );
    sandbox.run("qdel", &[&runs]);
}

/// G2: four subjobs on one host hold one per-host unit until the last of them ends, also across a
/// death of schedd.
#[test]
fn g2_subjobs_on_one_host_share_one_unit() {
    let sandbox = Sandbox::configured(&node(8, "total = 1\nper_host = true"));
    let script = "while [ ! -e $PBS_ARRAY_INDEX.go ]; do sleep 0.02; done\n";
    let array = sandbox.submit(&["-J", "1-4", "-l", "nuke=1"], script);
    let elements = [1, 2, 3, 4].map(|index| array.replace("[]", &format!("[{index}]")));
    elements.iter().for_each(|id| drop(sandbox.running(id)));
    assert_eq!(figures(&told(&sandbox)), [1, 0, 1, 0, 0]);
    let other = sandbox.submit(&["-l", "nuke=1"], "true\n");
    let end = |index: usize| {
        fs::write(sandbox.file(&format!("{index}.go")), "").unwrap();
        let is_over = || matches!(&*sandbox.state(&elements[index - 1]), "X" | "F");
        sandbox.until("the end of an element", || is_over().then_some(()));
    };
    end(4);
    assert_eq!(figures(&told(&sandbox)), [1, 0, 1, 0, 0]);
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    sandbox.until("all as before", || {
        (figures(&told(&sandbox)) == [1, 0, 1, 0, 0]).then_some(())
    });
    [2, 1].into_iter().for_each(end);
    assert_eq!(
        (figures(&told(&sandbox)), sandbox.state(&other).as_str()),
        ([1, 0, 1, 0, 0], "Q")
    );
    end(3);
    assert_eq!(sandbox.ended(&other)["Exit_status"], 0);
    sandbox.until("all of it free", || {
        (figures(&told(&sandbox)) == [1, 0, 0, 0, 1]).then_some(())
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
    let more = "resource_free:nuke";
    for (told, why) in [
        ("total=5", "resource:nuke"),
        ("total=6", more),
        ("total=6", ""),
        ("total=7,used=1", "resource:nuke"),
        ("used=1", ""),
        ("used=0", more),
    ] {
        sandbox
            .run("qmgr", &["-c", &format!("set resource nuke {told}")])
            .ok();
        expected.extend(Some(why).filter(|why| !why.is_empty()).map(String::from));
        let last = sandbox.submit(&[], "true\n");
        sandbox.ended(&last);
        assert_eq!(reported_resources(&sandbox), expected, "{told}");
    }
}

/// Q21: the count reported by a command is dropped with the command; the count set by an operator
/// stays.
#[test]
fn q21_a_reported_count_holds_while_its_source_exists() {
    let command = "[[resource]]\nname = \"asked\"\ntype = \"long\"\nconsumable = true\nhost_level = false\ntotal = 5\n";
    let base = node(1, "total = 9");
    let sandbox = Sandbox::configured(&format!(
        "{base}{command}command = [\"/bin/echo\", \"2\"]\n"
    ));
    let totals = || {
        let said = sandbox.run("qstat", &["--resources", "-F", "json"]).ok();
        let document: Value = serde_json::from_str(&said).unwrap();
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
    let becomes = |asked: i64, nuke: i64| {
        let expected = [("asked".to_string(), asked), ("nuke".to_string(), nuke)];
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
    sandbox.until("the other", || {
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
        assert_eq!(told(&sandbox)["free"], total, "{kept} kept, {lost} lost");
        assert!(next < 100, "half of them fail");
    }
}

fn say(path: &Path, words: &str) {
    fs::write(path.with_extension("new"), words).unwrap();
    fs::rename(path.with_extension("new"), path).unwrap();
}

#[test]
fn q14_a_count_from_a_command_starts_jobs_and_survives_failures_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    say(&there, "0\n");
    let command = format!(
        "total = 5\ncommand = [\"/bin/cat\", \"{}\"]\ninterval = \"1s\"\n",
        there.display()
    );
    let sandbox = Sandbox::configured(&node(8, &command));
    let waits = sandbox.submit(&["-l", "nuke=2"], "true\n");
    sandbox.until("the answer", || {
        (figures(&told(&sandbox)) == [5, 5, 0, 0, 0]).then_some(())
    });
    assert_eq!(sandbox.state(&waits), "Q");
    say(&there, "4 2\n");
    assert_eq!(sandbox.ended(&waits)["Exit_status"], 0);
    let cycles = sandbox.run("qstat", &["--cycles"]).ok();
    assert!(
        cycles
            .lines()
            .any(|line| line.ends_with("resource_free:nuke")),
        "{cycles}"
    );
    // Invalid output changes no count, is shown, and is logged once.
    say(&there, "many\n");
    let fault = sandbox.until("the fault", || {
        told(&sandbox)["fault"].as_str().map(String::from)
    });
    assert!(fault.contains("many"), "{fault}");
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(figures(&told(&sandbox)), [5, 1, 0, 2, 2]);
    assert_eq!(
        sandbox.log().matches("reported no amount of nuke").count(),
        1,
        "{}",
        sandbox.log()
    );
    sandbox.kill("schedd");
    fs::remove_file(&there).unwrap();
    sandbox.run("schedd", &[]).ok();
    sandbox.until("its fault", || {
        told(&sandbox)["fault"]
            .as_str()
            .map(|why| assert!(why.contains("No such file")))
    });
    assert_eq!(figures(&told(&sandbox)), [5, 1, 0, 2, 2]);
    assert_eq!(told(&sandbox)["told"]["by"], "command");
    let text = sandbox.run("qstat", &["--resources"]).ok();
    assert!(
        text.contains("nuke: its command reports no value: it ended with status 1"),
        "{text}"
    );
}

/// A hanging command blocks no other work and is not started a second time.
#[test]
fn a_hanging_command_times_out_and_schedd_continues() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let script = format!("echo run >> {}; sleep 600", runs.display());
    let command = format!(
        "total = 5\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\ninterval = \"1s\"\ntimeout = \"1s\"\n"
    );
    let sandbox = Sandbox::configured(&node(4, &command));
    let id = sandbox.submit(&["-l", "nuke=5"], "true\n");
    assert_eq!(
        sandbox.ended(&id)["Exit_status"],
        0,
        "as much as is configured is there until something else is said"
    );
    let fault = sandbox.until("the fault", || {
        told(&sandbox)["fault"].as_str().map(String::from)
    });
    assert_eq!(fault, "it took longer than 1 s");
    sandbox.until("a second run", || {
        (fs::read_to_string(&runs).unwrap().lines().count() > 1).then_some(())
    });
}
