//! Accounting entries agree with the jobs' own measurements, in every format, and outlive the jobs.

use crate::support::installation::shared;
use crate::support::people::{TestUser, people};
use crate::support::sandbox::{Sandbox, finish, kill};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// A script that computes for `rounds` iterations, then sleeps for `pause` seconds. It records its
/// begin and end, its CPU time as measured by the shell, and its number of processors.
fn busy_script(name: &str, rounds: u32, pause: f64) -> String {
    format!(
        "date +%s.%N > {name}.start\ni=0\nwhile [ $i -lt {rounds} ]; do i=$((i+1)); done\nsleep {pause}\n\
         echo $NCPUS > {name}.cores\ntimes > {name}.times\ndate +%s.%N > {name}.end\n"
    )
}

/// Measurements of a job itself, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    jobs: i64,
    cput: f64,
    walltime: f64,
    cores: f64,
}

impl Measured {
    fn of(read: &dyn Fn(&str) -> String, name: &str) -> Measured {
        let number = |what: &str| {
            read(&format!("{name}.{what}"))
                .trim()
                .parse::<f64>()
                .unwrap()
        };
        let walltime = number("end") - number("start");
        let cput = read(&format!("{name}.times"))
            .split_whitespace()
            .map(parse_duration)
            .sum();
        Measured {
            jobs: 1,
            cput,
            walltime,
            cores: number("cores") * walltime,
        }
    }

    fn plus(self, other: Measured) -> Measured {
        Measured {
            jobs: self.jobs + other.jobs,
            cput: self.cput + other.cput,
            walltime: self.walltime + other.walltime,
            cores: self.cores + other.cores,
        }
    }
}

/// Converts `0m1.230000s` to seconds.
fn parse_duration(text: &str) -> f64 {
    let (minutes, seconds) = text.trim_end_matches('s').split_once('m').unwrap();
    60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
}

/// Totals from accounting, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Totals {
    jobs: i64,
    cput: f64,
    cores: f64,
    charged: f64,
}

/// Tolerance per job, in seconds: the script does not measure its own first and last steps.
const TOLERANCE: f64 = 0.5;

#[track_caller]
fn assert_agrees(totals: Totals, measured: Measured, factor: f64, what: &str) {
    let (jobs, tolerance) = (measured.jobs as f64, TOLERANCE * measured.jobs as f64 * 4.0);
    assert_eq!(totals.jobs, measured.jobs, "{what}");
    let near = |a: f64, b: f64, tolerance: f64| (a - b).abs() <= tolerance;
    assert!(
        near(totals.cput, measured.cput, 0.3 * jobs),
        "{what}: {totals:?} {measured:?}"
    );
    assert!(
        near(totals.cores, measured.cores, tolerance),
        "{what}: {totals:?} {measured:?}"
    );
    assert!(
        near(totals.charged, factor * totals.cores, 0.8),
        "{what}: {totals:?}"
    );
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Finds the JSON row with these names.
fn from_json(document: &Value, names: &[(&str, &str)]) -> Totals {
    let rows = document["Accounts"].as_array().unwrap();
    let has_names = |row: &&Value| names.iter().all(|(key, name)| row[*key] == *name);
    let row = rows
        .iter()
        .find(has_names)
        .unwrap_or_else(|| panic!("{names:?} in {document}"));
    let number = |key: &str| {
        row[key]
            .as_f64()
            .unwrap_or_else(|| panic!("{key} in {row}"))
    };
    Totals {
        jobs: row["jobs"].as_i64().unwrap(),
        cput: number("cpu_seconds"),
        cores: number("core_seconds"),
        charged: number("charged_core_seconds"),
    }
}

fn from_csv(text: &str, names: &[(&str, &str)]) -> Totals {
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heads = lines.next().unwrap();
    let at = |key: &str| {
        heads
            .iter()
            .position(|head| *head == key)
            .unwrap_or_else(|| panic!("{key} in {text}"))
    };
    let has_names = |line: &Vec<&str>| names.iter().all(|(key, name)| line[at(key)] == *name);
    let line = lines
        .find(has_names)
        .unwrap_or_else(|| panic!("{names:?} in {text}"));
    let number = |key: &str| line[at(key)].parse::<f64>().unwrap();
    Totals {
        jobs: number("jobs") as i64,
        cput: number("cpu_seconds"),
        cores: number("core_seconds"),
        charged: number("charged_core_seconds"),
    }
}

/// Finds the table row with these names; the table prints hours with four digits.
fn from_text(text: &str, names: &[&str]) -> Totals {
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let has_names = |words: &Vec<&str>| words.starts_with(names);
    let words = lines
        .into_iter()
        .find(has_names)
        .unwrap_or_else(|| panic!("{names:?} in {text}"));
    let figures = &words[names.len()..];
    let seconds = |at: usize| 3600.0 * figures[at].parse::<f64>().unwrap();
    Totals {
        jobs: figures[0].parse().unwrap(),
        cput: seconds(2),
        cores: seconds(3),
        charged: seconds(4),
    }
}

const QUEUES: &str = "[[queue]]\nname = \"free\"\ncharge = false\n[[queue]]\nname = \"half\"\ncharge = 0.5\n\
                      [[qos]]\nname = \"low\"\ncharge = 0.25\n[[qos]]\nname = \"normal\"\n";

fn node(cores: u32) -> String {
    let name = nix::unistd::gethostname().unwrap().into_string().unwrap();
    format!(
        "[[node]]\nname = \"{}\"\nncpus = {cores}\nmem = \"64gb\"\n",
        name.split('.').next().unwrap()
    )
}

/// Three users and two queues, one of them without charging.
#[test]
fn qacct_agrees_with_the_measurements_of_the_jobs() {
    let Some(people) = people::<3>("acct") else {
        return;
    };
    let sandbox = shared(&format!("{QUEUES}{}", node(16)));
    let mut ids = Vec::new();
    for (at, person) in people.iter().enumerate() {
        for (queue, cores) in [("workq", 2), ("free", 1)] {
            let rounds = 200_000 * (1 + at as u32);
            let script = busy_script(queue, rounds, 0.5 * (1 + at) as f64);
            let cores = format!("ncpus={cores}");
            ids.push(person.submit(
                &sandbox,
                &["-q", queue, "-A", "wave", "-l", &cores],
                &script,
            ));
        }
    }
    ids.iter().for_each(|id| drop(sandbox.ended(id)));
    let by = ["--by", "user,queue"];
    let qacct =
        |person: &TestUser, arguments: &[&str]| person.run(&sandbox, "qacct", arguments).ok();
    let (document, csv) = (
        json(&qacct(&people[0], &[&by[..], &["-F", "json"]].concat())),
        qacct(&people[1], &[&by[..], &["-F", "csv"]].concat()),
    );
    let text = sandbox.run("qacct", &by).ok();
    let mut all = Measured::default();
    for person in &people {
        for (queue, factor) in [("workq", 1.0), ("free", 0.0)] {
            let measured = Measured::of(&|name| person.read(name), queue);
            assert!(measured.cput > 0.05, "the job used CPU time: {measured:?}");
            all = all.plus(measured);
            let names = [("user", person.name.as_str()), ("queue", queue)];
            let totals = from_json(&document, &names);
            assert_agrees(totals, measured, factor, "json");
            assert_agrees(from_csv(&csv, &names), measured, factor, "csv");
            assert_eq!(from_csv(&csv, &names), totals, "csv and json");
            assert_agrees(
                from_text(&text, &names.map(|(_, name)| name)),
                measured,
                factor,
                "text",
            );
        }
    }
    let by_account = json(&qacct(&people[0], &["--by", "account", "-F", "json"]));
    assert_eq!(
        from_json(&by_account, &[("account", "wave")]).jobs,
        6,
        "{by_account}"
    );
    assert!(
        (by_account["Total"]["cpu_seconds"].as_f64().unwrap() - all.cput).abs() < 1.8,
        "{by_account} {all:?}"
    );
    let own = json(&qacct(&people[2], &["-u", &people[2].name, "-F", "json"]));
    assert_eq!(own["Accounts"].as_array().unwrap().len(), 1, "{own}");
}

fn sandbox(more: &str) -> Sandbox {
    Sandbox::configured(&format!("{more}{QUEUES}{}", node(8)))
}

fn attempts(sandbox: &Sandbox, id: &str) -> Vec<Value> {
    let done = sandbox.run("qacct", &["-j", id, "-F", "json"]);
    let document = json(&done.out);
    document["Attempts"]
        .as_object()
        .map(|all| all.values().cloned().collect())
        .unwrap_or_default()
}

/// Waits until a job has this number of accounting entries.
fn await_entries(sandbox: &Sandbox, id: &str, count: usize) -> Vec<Value> {
    sandbox.until("the accounting entries", || {
        Some(attempts(sandbox, id)).filter(|found| found.len() == count)
    })
}

#[test]
fn an_accounting_entry_describes_the_attempt_completely() {
    let sandbox = sandbox("");
    let arguments = [
        "-q", "half", "-W", "qos=low", "-A", "wave", "-P", "tide", "-N", "busy",
    ];
    let request = ["-l", "select=2:ncpus=2:mem=1gb", "-l", "walltime=1:00:00"];
    let id = sandbox.submit(
        &[&arguments[..], &request].concat(),
        &format!("{}exit 3\n", busy_script("one", 300_000, 0.7)),
    );
    sandbox.ended(&id);
    let measured = Measured::of(&|name| sandbox.read(name), "one");
    let entry = await_entries(&sandbox, &id, 1).remove(0);
    for (key, value) in [
        ("name", "busy"),
        ("account", "wave"),
        ("project", "tide"),
        ("queue", "half"),
        ("qos", "low"),
    ] {
        assert_eq!(entry[key], value, "{key} in {entry}");
    }
    assert_eq!(
        (&entry["job"], &entry["exit_status"], &entry["attempt"]),
        (&id.as_str().into(), &3.into(), &1.into())
    );
    assert_eq!(
        (
            &entry["asked_ncpus"],
            &entry["asked_mem_kb"],
            &entry["ncpus"]
        ),
        (&4.into(), &(2 << 20).into(), &4.into())
    );
    assert_eq!(
        (&entry["asked_walltime_seconds"], &entry["charge_factor"]),
        (&3600.0.into(), &0.125.into()),
        "X24: charge factor"
    );
    let number = |key: &str| {
        entry[key]
            .as_f64()
            .unwrap_or_else(|| panic!("{key} in {entry}"))
    };
    assert!(
        (number("cpu_seconds") - measured.cput).abs() < 0.3,
        "{entry} {measured:?}"
    );
    assert!(
        (number("walltime_seconds") - measured.walltime).abs() < TOLERANCE,
        "{entry} {measured:?}"
    );
    assert_eq!(number("core_seconds"), 4.0 * number("walltime_seconds"));
    assert_eq!(
        number("charged_core_seconds"),
        0.125 * number("core_seconds")
    );
    assert!(
        (number("cpu_efficiency") - number("cpu_seconds") / number("core_seconds")).abs() < 1e-9,
        "{entry}"
    );
    let start: f64 = sandbox.read("one.start").trim().parse().unwrap();
    assert!(
        (number("started") - start).abs() < 2.0 && number("ended") >= number("started"),
        "{entry}"
    );
    let text = sandbox.run("qacct", &["-j", &id]).ok();
    assert!(
        text.contains("exec_host") && text.contains("/0*2+"),
        "{text}"
    );
    let list = sandbox.run("qacct", &["--list"]).ok();
    assert!(
        list.lines()
            .nth(1)
            .is_some_and(|line| line.contains("busy") && line.ends_with(" 3")),
        "{list}"
    );
    // Fair-share usage charges the same seconds (X24).
    let usage = json(&sandbox.run("qstat", &["--usage", "-F", "json"]).ok());
    let charged = usage["Usage"][0]["seconds"].as_f64().unwrap();
    assert!(
        (charged - number("charged_core_seconds")).abs() < 0.01,
        "{usage} {entry}"
    );
}

#[test]
fn accounting_entries_outlive_their_jobs_and_schedd() {
    let sandbox = sandbox("[server]\nhistory = \"0s\"\n");
    let id = sandbox.submit(&[], &busy_script("a", 10, 0.0));
    let waiting = sandbox.submit(&["-h"], "true");
    await_entries(&sandbox, &id, 1);
    assert_eq!(
        sandbox.run("qstat", &[&id]).code,
        153,
        "the finished job is not kept"
    );
    sandbox.run("qdel", &["-x", &waiting]).ok();
    let deleted = await_entries(&sandbox, &waiting, 1).remove(0);
    assert_eq!(
        (
            &deleted["attempt"],
            &deleted["started"],
            &deleted["deleted"]
        ),
        (&0.into(), &Value::Null, &true.into())
    );
    sandbox.kill("schedd");
    let document = json(&sandbox.run("qacct", &["-F", "json"]).ok());
    assert_eq!(
        (&document["Total"]["jobs"], &document["Total"]["failed"]),
        (&2.into(), &1.into()),
        "qacct works without schedd"
    );
    let unknown = sandbox.run("qacct", &["-j", "77"]);
    assert!(
        unknown.code == 1 && unknown.err.contains(" has no matching accounting records"),
        "{unknown:?}"
    );
}

#[test]
fn accounting_entries_expire() {
    let sandbox = sandbox("[server]\nhistory = \"0s\"\naccounting = \"3s\"\n");
    let id = sandbox.submit(&[], "true");
    await_entries(&sandbox, &id, 1);
    await_entries(&sandbox, &id, 0);
}

#[test]
fn an_attempt_that_ends_without_schedd_has_its_real_end_time() {
    let sandbox = sandbox("");
    let id = sandbox.submit(
        &[],
        &format!(
            "while [ ! -e go ]; do sleep 0.02; done\n{}",
            busy_script("away", 10, 0.0)
        ),
    );
    sandbox.running(&id);
    sandbox.kill("schedd");
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.until("the end of the script", || {
        sandbox.file("away.end").exists().then_some(())
    });
    std::thread::sleep(Duration::from_millis(2500));
    sandbox.run("schedd", &[]).ok();
    let entry = await_entries(&sandbox, &id, 1).remove(0);
    let (end, recorded): (f64, f64) = (
        sandbox.read("away.end").trim().parse().unwrap(),
        entry["ended"].as_f64().unwrap(),
    );
    assert!((recorded - end).abs() <= 1.5, "{end} {entry}");
    assert_eq!(entry["exit_status"], 0);
}

#[test]
fn a_job_that_cannot_start_has_an_entry_with_zero_usage() {
    let sandbox = sandbox("");
    let id = sandbox.submit(&["-S", "/no/such/shell"], "true");
    let status = sandbox.ended(&id)["Exit_status"].clone();
    let entry = await_entries(&sandbox, &id, 1).remove(0);
    assert_eq!(
        (&entry["exit_status"], &entry["walltime_seconds"]),
        (&status, &0.0.into()),
        "{entry}"
    );
    assert_eq!(
        (&entry["core_seconds"], &entry["cpu_efficiency"]),
        (&0.0.into(), &Value::Null)
    );
}

#[test]
fn a_forced_deletion_is_recorded_at_once_and_only_once() {
    let sandbox = sandbox("");
    let id = sandbox.submit(&["-r", "n", "-l", "ncpus=2"], "sleep 60");
    sandbox.running(&id);
    std::thread::sleep(Duration::from_millis(1200));
    let noded = sandbox.pid_of("noded").unwrap();
    kill(noded, Signal::SIGSTOP as i32);
    sandbox.run("qdel", &["-W", "force", &id]).ok();
    // The stopped noded cannot have reported anything yet.
    let entry = attempts(&sandbox, &id).remove(0);
    assert_eq!(
        (&entry["deleted"], &entry["attempt"], &entry["exit_status"]),
        (&true.into(), &1.into(), &265.into())
    );
    let (walltime, cores) = (
        entry["walltime_seconds"].as_f64().unwrap(),
        entry["core_seconds"].as_f64().unwrap(),
    );
    assert!(walltime >= 1.2 && cores == 2.0 * walltime, "{entry}");
    kill(noded, Signal::SIGCONT as i32);
    // The node removes an attempt after schedd has recorded its end.
    let attempt = sandbox
        .home()
        .join(format!("node/attempts/{}.1", id.split('.').next().unwrap()));
    sandbox.until("the removal of the attempt by noded", || {
        (!attempt.exists()).then_some(())
    });
    assert_eq!(attempts(&sandbox, &id), [entry]);
    let total = json(&sandbox.run("qacct", &["-F", "json"]).ok())["Total"].clone();
    assert_eq!(
        (&total["jobs"], &total["attempts"]),
        (&1.into(), &1.into()),
        "{total}"
    );
}

#[test]
fn a_rerun_job_has_two_entries_but_counts_as_one_job() {
    let sandbox = sandbox("");
    let id = sandbox.submit(
        &["-l", "ncpus=2"],
        "[ -e again ] || { touch again; sleep 60; }\n",
    );
    sandbox.running(&id);
    sandbox.until("the first attempt", || {
        sandbox.file("again").exists().then_some(())
    });
    sandbox.run("qrerun", &[&id]).ok();
    sandbox.ended(&id);
    let [first, second] = await_entries(&sandbox, &id, 2).try_into().unwrap();
    assert_eq!(
        (&first["requeued"], &first["exit_status"]),
        (&true.into(), &Value::Null),
        "{first}"
    );
    assert_eq!(
        (&second["requeued"], &second["exit_status"]),
        (&false.into(), &0.into()),
        "{second}"
    );
    let total = json(&sandbox.run("qacct", &["-F", "json"]).ok())["Total"].clone();
    assert_eq!(
        (&total["jobs"], &total["attempts"]),
        (&1.into(), &2.into()),
        "{total}"
    );
    let seconds = |entry: &Value| entry["core_seconds"].as_f64().unwrap();
    assert!(
        (total["core_seconds"].as_f64().unwrap() - seconds(&first) - seconds(&second)).abs() < 1e-6,
        "{total}"
    );
}

#[test]
fn subjobs_have_accounting_entries_only_if_they_ran() {
    let sandbox = sandbox("");
    let id = sandbox.submit(
        &[
            "-J",
            "1-12",
            "-l",
            "ncpus=2:mem=4gb",
            "-l",
            "walltime=1:00:00",
        ],
        "exit $PBS_ARRAY_INDEX\n",
    );
    sandbox.ended(&id);
    await_entries(&sandbox, &id, 12);
    let number = id.split('[').next().unwrap();
    assert_eq!(attempts(&sandbox, &format!("{number}[2-4]")).len(), 3);
    let efficiency =
        json(&sandbox.run("qstat", &["--eff", "-F", "json", &id]).ok())["Efficiency"][0].clone();
    assert_eq!(
        (&efficiency["jobs"], &efficiency["mem_efficiency"]["jobs"]),
        (&12.into(), &12.into()),
        "{efficiency}"
    );
    assert!(
        efficiency["advice"]
            .as_str()
            .unwrap()
            .contains("walltime=0:01:00 instead of 1:00:00"),
        "P11: {efficiency}"
    );
    let held = sandbox.submit(&["-h", "-J", "1-100"], "true");
    sandbox.run("qdel", &[&held]).ok();
    sandbox.ended(&held);
    assert_eq!(attempts(&sandbox, &held).len(), 0);
    let summary = sandbox.run("qstat", &["--eff"]).ok();
    assert!(
        summary.contains("12 jobs of") && summary.contains("p90"),
        "{summary}"
    );
}

#[test]
fn qacct_selects_and_groups_entries_as_requested() {
    let sandbox = sandbox("");
    let ids = ["a", "b"].map(|account| sandbox.submit(&["-A", account], "true"));
    ids.iter()
        .for_each(|id| drop(await_entries(&sandbox, id, 1)));
    let jobs = |arguments: &[&str]| {
        let document = json(
            &sandbox
                .run("qacct", &[arguments, &["-F", "json"]].concat())
                .ok(),
        );
        document["Total"]["jobs"].as_i64().unwrap()
    };
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(
        [
            jobs(&["-b", "1h"]),
            jobs(&["-e", "1h"]),
            jobs(&["-b", "1h", "-e", "now"])
        ],
        [2, 0, 2]
    );
    assert_eq!(
        [
            jobs(&["-A", "a"]),
            jobs(&["-A", "a,b,c"]),
            jobs(&["-A", ""]),
            jobs(&["-q", "none"])
        ],
        [1, 2, 0, 0]
    );
    let months = sandbox
        .run("qacct", &["--by", "month,account", "-F", "csv"])
        .ok();
    assert!(
        months.starts_with("month,account,jobs,") && months.lines().count() == 3,
        "{months}"
    );
    let wrong = sandbox.run("qacct", &["-b", "soon"]);
    assert!(
        wrong.code == 2 && wrong.err.contains("`soon` is not a time"),
        "{wrong:?}"
    );
    assert_eq!(sandbox.run("qacct", &["-b", "now", "-e", "7d"]).code, 2);
    assert_eq!(sandbox.run("qacct", &["--by", "day", "--list"]).code, 2);
    fs::write(sandbox.file("lines"), "").unwrap();
    let piped = finish(
        sandbox
            .command("qacct")
            .args(["--list", "-F", "csv"])
            .output()
            .unwrap(),
    );
    assert_eq!(piped.out.lines().count(), 3, "{piped:?}");
}

/// P11: efficiency is shown for a running job, advice only after its end.
#[test]
fn efficiency_is_shown_while_a_job_runs_and_advice_after_its_end() {
    let sandbox = sandbox("");
    let script = "i=0; while [ ! -e go ]; do i=$((i+1)); done\n";
    let id = sandbox.submit(
        &["-l", "ncpus=8:mem=32gb", "-l", "walltime=24:00:00"],
        script,
    );
    sandbox.running(&id);
    let running = sandbox.run("qstat", &["--eff", &id]).ok();
    assert!(
        running.contains("not finished") && running.contains("24:00:00"),
        "{running}"
    );
    std::thread::sleep(Duration::from_millis(1500));
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&id);
    let efficiency = sandbox.run("qstat", &["--eff", &id]).ok();
    let advice = efficiency.lines().last().unwrap();
    for part in [
        "mem=64mb instead of 32gb",
        "walltime=0:01:00 instead of 24:00:00",
        "ncpus=1 instead of 8",
    ] {
        assert!(advice.contains(part), "{part}: {efficiency}");
    }
    let unknown = sandbox.run("qstat", &["--eff", "99"]);
    assert!(
        unknown.code != 0 && unknown.err.contains("no usage to compare"),
        "{unknown:?}"
    );
    assert_eq!(sandbox.run("qstat", &["--eff", "-f"]).code, 2);
}
