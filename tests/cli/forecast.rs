//! Start estimates: compared with the simulated and real starts, and the commands that show them.

use crate::fixture::{TestCluster, cluster};
use crate::support::cases;
use crate::support::sandbox::Sandbox;
use lanai::model::job_id::JobId;
use lanai::model::report::outlook::Prospect;
use lanai::model::time::Time;
use lanai::sched::explain::forecast::{self, Budget};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A generated job: chunks, processors of each, place, walltime in seconds.
type GeneratedJob = (u32, u32, &'static str, i64);

fn generated_job() -> impl Strategy<Value = GeneratedJob> {
    let place = prop_oneof![4 => Just("free"), 1 => Just("scatter"), 1 => Just("free:excl"), 1 => Just("pack")];
    (
        1..4u32,
        1..6u32,
        place,
        (1..20i64).prop_map(|tens| tens * 10),
    )
}

fn request_text((count, ncpus, place, walltime): &GeneratedJob) -> String {
    format!("select={count}:ncpus={ncpus} place={place} walltime={walltime}")
}

/// Start time and nodes of each job, if jobs end at their walltimes. Simulated cycle by cycle, with
/// extra cycles at times without events.
fn simulated_starts(mut fixture: TestCluster, idle: i64) -> BTreeMap<JobId, (Time, Vec<String>)> {
    let (mut started, mut ends) = (BTreeMap::new(), BTreeMap::new());
    loop {
        let plan = fixture.plan();
        fixture.apply(&plan);
        for start in &plan.starts {
            let mut nodes: Vec<String> = start
                .shares
                .iter()
                .map(|share| share.node.clone())
                .collect();
            nodes.sort();
            nodes.dedup();
            started.insert(start.job, (fixture.now, nodes));
            ends.insert((start.until, start.job), ());
        }
        let Some(((end, _), ())) = ends.first_key_value() else {
            return started;
        };
        fixture.now = Time(end.0.min(fixture.now.0 + idle));
        while let Some(entry) = ends
            .first_entry()
            .filter(|entry| entry.key().0 <= fixture.now)
        {
            fixture.state.vacate(entry.remove_entry().0.1);
        }
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn predicted_starts_equal_simulated_starts(
        nodes in prop::collection::vec(1..9u32, 1..5),
        jobs in prop::collection::vec(generated_job(), 1..16),
        idle in 7_000..100_000i64, strictly: bool, array in prop::option::of(2..6u32),
    ) {
        let nodes: Vec<String> = nodes.iter().map(|ncpus| format!("1 x ncpus={ncpus}")).collect();
        let mut fixture = cluster(&nodes.join(", "));
        for (place, job) in jobs.iter().enumerate() {
            let array = array.filter(|_| place == 0).map_or(String::new(), |last| format!(" array=1-{last}"));
            fixture = fixture.queued(place as u64 + 1, &format!("{}{array}", request_text(job)));
        }
        if strictly {
            fixture = fixture.strictly();
        }
        let outlook = forecast::run(fixture.state.clone(), &fixture.policy, fixture.now, Budget::default());
        prop_assert!(outlook.horizon.is_whole);
        let mut predicted = BTreeMap::new();
        for estimate in &outlook.starts {
            let Prospect::Starts { at, nodes, .. } = &estimate.prospect else {
                panic!("{estimate:?}")
            };
            let mut nodes = nodes.clone();
            nodes.sort();
            predicted.insert(estimate.job, (*at, nodes));
        }
        prop_assert_eq!(predicted, simulated_starts(fixture, idle));
    }
}

const NCPUS: u64 = 8;

/// A sandbox with one node. Job 1 has all its processors except `spare` for an hour.
fn occupied(spare: u64) -> (Sandbox, String) {
    occupied_under("[order]\nby = \"fcfs\"", spare)
}

/// Like [`occupied`], with this policy.
fn occupied_under(policy: &str, spare: u64) -> (Sandbox, String) {
    let node = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = node.split('.').next().unwrap();
    let node = format!("[[node]]\nname = \"{node}\"\nncpus = {NCPUS}\nmem = \"64gb\"\n");
    let sandbox = Sandbox::configured(&format!(
        "[server]\nrefuse_impossible = false\n{policy}\n{node}"
    ));
    let request = format!("select=1:ncpus={}", NCPUS - spare);
    let first = sandbox.submit(&["-l", &request, "-l", "walltime=1:00:00"], "sleep 600\n");
    sandbox.running(&first);
    (sandbox, first)
}

fn json_of(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let out = sandbox
        .run("qstat", &[arguments, &["-F", "json"]].concat())
        .ok();
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// M52, I29: every queued job has a start estimate; a job with a planned start also has it in its
/// attributes.
#[test]
fn every_queued_job_has_an_estimated_start() {
    let (sandbox, first) = occupied(0);
    let all = format!("select=1:ncpus={NCPUS}");
    let second = sandbox.submit(&["-l", &all, "-l", "walltime=600"], "true\n");
    let third = sandbox.submit(&["-l", &all, "-l", "walltime=300"], "true\n");
    let never = sandbox.submit(&["-l", &format!("select=1:ncpus={}", NCPUS + 1)], "true\n");
    let document = json_of(&sandbox, &["--start"]);
    let estimated = |id: &str| document["Jobs"][id]["estimated"].clone();
    let start = |id: &str| {
        estimated(id)["start"]
            .as_i64()
            .unwrap_or_else(|| panic!("{id}: {document}"))
    };
    assert_eq!(start(&third), start(&second) + 600, "{document}");
    assert_eq!(
        estimated(&third)["end"].as_i64().unwrap(),
        start(&third) + 300
    );
    assert_eq!(document["Jobs"][&never]["code"], "unsatisfiable");
    assert_eq!(document["horizon"]["whole"], true);
    let stime = sandbox.job(&first)["stime"].as_str().unwrap().to_string();
    let text = sandbox
        .run("qstat", &["--start", &second, &never, &first])
        .ok();
    assert!(
        text.lines().count() == 5 && text.contains("Can Never Run") && text.contains(&stime),
        "{text}"
    );
    let unknown = sandbox.run("qstat", &["--start", &never, "999"]);
    assert_eq!(
        (unknown.code, unknown.out.lines().count()),
        (153, 3),
        "{unknown:?}"
    );
    let planned = sandbox.until("the planned start", || {
        Some(sandbox.job(&second)["estimated"].clone()).filter(|e| !e.is_null())
    });
    let node = estimated(&second)["nodes"][0].as_str().unwrap().to_string();
    assert_eq!(
        planned["exec_vnode"],
        json!(format!("({node}:ncpus={NCPUS})"))
    );
    assert_eq!(planned["start_time"], estimated(&second)["start_time"]);
    let list = sandbox.run("qstat", &["-T"]).ok();
    let place = |id: &str| list.find(id).unwrap_or_else(|| panic!("{id}: {list}"));
    assert!(
        place(&second) < place(&first) && place(&first) < place(&third),
        "{list}"
    );
}

#[test]
fn a_queued_job_shows_its_reason_and_the_jobs_that_passed_it() {
    let (sandbox, first) = occupied(1);
    let waits = sandbox.submit(
        &[
            "-l",
            &format!("select=1:ncpus={NCPUS}"),
            "-l",
            "walltime=600",
        ],
        "true\n",
    );
    sandbox.until("the planned start", || {
        Some(sandbox.job(&waits)["estimated"].clone()).filter(|e| !e.is_null())
    });
    let backfilled = sandbox.submit(
        &["-l", "select=1:ncpus=1", "-l", "walltime=600"],
        "sleep 600\n",
    );
    sandbox.running(&backfilled);
    let why = sandbox.until("a new answer", || {
        let why = json_of(&sandbox, &["--why", &waits])["Jobs"][&waits]["why"].clone();
        (why["passed_by"]
            .as_array()
            .is_some_and(|passed| !passed.is_empty()))
        .then_some(why)
    });
    assert_eq!(why["reason"]["code"], "amount.ncpus", "{why}");
    assert_eq!(why["passed_by"][0]["job"], json!(backfilled));
    let verdicts: Vec<&str> = why["stages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["verdict"].as_str().unwrap())
        .collect();
    let not_reached = "not_reached";
    let expected = [
        "passed",
        "passed",
        "passed",
        "passed",
        "failed",
        not_reached,
        not_reached,
        "off",
        not_reached,
    ];
    assert_eq!(verdicts, expected);
    assert_eq!(why["estimated"]["start"], why["promise"]["start"]);
    let text = sandbox.run("qstat", &["--why", &waits]).ok();
    for part in [
        format!("Job {backfilled} started before this one and ends by "),
        format!("Waits for:  job {first} on "),
        "before the planned start ".to_string(),
        format!(
            "Not enough ncpus free: {NCPUS} requested, 0 of {NCPUS} free.  (match: amount.ncpus)"
        ),
    ] {
        assert!(text.contains(&part), "{part}: {text}");
    }
    let runs = sandbox.run("qstat", &["--why", &first]).ok();
    assert!(
        runs.contains(" has been running since ") && runs.lines().count() == 1,
        "{runs}"
    );
    let unknown = sandbox.run("qstat", &["--why", "9999"]);
    assert!(
        unknown.err.contains("Unknown Job Id 9999"),
        "{}",
        unknown.err
    );
}

/// M29: `--holes` lists free windows.
#[test]
fn free_windows_are_listed_widest_first() {
    let (sandbox, _) = occupied(2);
    let document = json_of(&sandbox, &["--holes"]);
    assert_eq!(
        document["Windows"],
        json!([{"nodes": 1, "processors": 2, "seconds": null, "until": null}])
    );
    sandbox.submit(
        &[
            "-l",
            &format!("select=1:ncpus={}", NCPUS - 1),
            "-l",
            "walltime=600",
        ],
        "true\n",
    );
    let document = sandbox.until("a new answer", || {
        Some(json_of(&sandbox, &["--holes"]))
            .filter(|document| document["Windows"].as_array().is_some_and(|w| w.len() == 2))
    });
    let (wide, long) = (&document["Windows"][0], &document["Windows"][1]);
    assert_eq!(
        (&wide["processors"], &long["processors"], &long["seconds"]),
        (&json!(2), &json!(1), &Value::Null)
    );
    let seconds = wide["seconds"].as_i64().unwrap();
    assert!((3300..=3600).contains(&seconds), "{document}");
    let copies = json_of(&sandbox, &["--holes", "-l", "select=1:ncpus=2"]);
    assert_eq!(copies["Windows"][0]["copies"], 1, "{copies}");
    let text = sandbox.run("qstat", &["--holes"]).ok();
    assert!(
        text.starts_with("   Nodes Processors") && text.contains("unlimited"),
        "{text}"
    );
    let never = sandbox
        .run(
            "qstat",
            &["--holes", "-l", &format!("select=1:ncpus={}", NCPUS + 1)],
        )
        .ok();
    assert!(never.starts_with("Can Never Run"), "{never}");
    assert_eq!(sandbox.run("qstat", &["--holes", "--start"]).code, 2);
    assert_eq!(sandbox.run("qstat", &["--holes", "1"]).code, 2);
    assert_eq!(sandbox.run("qstat", &["-l", "ncpus=1"]).code, 2);
}

#[test]
fn a_dry_run_reports_start_time_and_nodes_and_stores_nothing() {
    let (sandbox, _) = occupied(1);
    let all = format!("select=1:ncpus={NCPUS}");
    let dry_run = |arguments: &[&str]| {
        let line = [&["--dry-run"], arguments, &["--", "true"]].concat();
        sandbox.run("qsub", &line).ok()
    };
    assert!(dry_run(&["-l", "select=1:ncpus=1"]).contains("The job would start now on "));
    let later = dry_run(&["-l", &all, "-l", "walltime=60"]);
    assert!(
        later.contains("The job would start at ")
            && later.contains("Insufficient amount of resource"),
        "{later}"
    );
    assert!(
        dry_run(&["-l", &all, "-h"])
            .contains("The job would be held; once released, it would start at ")
    );
    assert!(dry_run(&["-l", "select=1:ncpus=1", "-J", "1-3"]).contains("The job would start now"));
    let never = dry_run(&["-l", &format!("select=1:ncpus={}", NCPUS + 1)]);
    assert!(
        never.contains("The job would not start.") && never.contains("Can Never Run"),
        "{never}"
    );
    let wrong = sandbox.run("qsub", &["--dry-run", "-q", "nosuch", "--", "true"]);
    assert!(
        wrong.code != 0 && wrong.err.contains("Unknown queue"),
        "{}",
        wrong.err
    );
    let jobs = json_of(&sandbox, &["-x", "-f"]);
    assert_eq!(jobs["Jobs"].as_object().unwrap().len(), 1, "{jobs}");
    assert!(
        sandbox.submit(&[], "true\n").starts_with("2."),
        "dry runs use no job number"
    );
}

#[test]
fn a_delayed_planned_start_is_reported_with_its_cause() {
    let (sandbox, first) = occupied(0);
    let second = sandbox.submit(
        &[
            "-l",
            &format!("select=1:ncpus={NCPUS}"),
            "-l",
            "walltime=600",
        ],
        "true\n",
    );
    let planned = sandbox.until("the planned start", || {
        Some(sandbox.job(&second)["estimated"].clone()).filter(|e| !e.is_null())
    });
    sandbox
        .run("qalter", &["-l", "walltime=2:00:00", &first])
        .ok();
    let why = sandbox.until("the planned start to move", || {
        let why = json_of(&sandbox, &["--why", &second])["Jobs"][&second]["why"].clone();
        why["slips"]
            .as_array()
            .is_some_and(|slips| !slips.is_empty())
            .then_some(why)
    });
    let slip = &why["slips"][0];
    assert_eq!(
        slip["to"].as_i64().unwrap() - slip["from"].as_i64().unwrap(),
        3600,
        "{why}"
    );
    assert_eq!(
        (&why["promise"]["first"], &why["promise"]["start"]),
        (&slip["from"], &slip["to"])
    );
    let cause = slip["cause"].as_str().unwrap();
    let text = sandbox.run("qstat", &["--why", &second]).ok();
    assert!(
        text.contains(&format!(": {cause}")) && text.contains("first planned for"),
        "{text}"
    );
    let output = sandbox.run("tracejob", &[&second]).ok();
    let start = planned["start_time"].as_str().unwrap();
    assert!(
        output.contains(&format!("Planned start moved from {start} to ")) && output.contains(cause),
        "{output}"
    );
    sandbox.kill("schedd");
    sandbox.run("schedd", &[]).ok();
    let kept = sandbox.until("the answer", || {
        Some(json_of(&sandbox, &["--why", &second])["Jobs"][&second]["why"].clone())
            .filter(|why| why["promise"].is_object())
    });
    assert_eq!(kept["promise"]["first"], slip["from"], "{kept}");
    assert_eq!(kept["slips"].as_array().unwrap().len(), 1, "{kept}");
}

/// M32: qorder exchanges jobs 2 and 3. Job 2 keeps its planned start, even if schedd is killed.
#[test]
fn a_planned_start_survives_a_killed_schedd() {
    let (sandbox, _) = occupied_under("[order]\nby = \"fcfs\"\n[backfill]\nkeep = \"highest\"", 0);
    let all = format!("select=1:ncpus={NCPUS}");
    let second = sandbox.submit(&["-l", &all, "-l", "walltime=600"], "true\n");
    let planned_start = |id: &str| {
        Some(sandbox.job(id)["estimated"].clone()).filter(|estimated| !estimated.is_null())
    };
    sandbox.until("the planned start", || planned_start(&second));
    let third = sandbox.submit(&["-l", &all, "-l", "walltime=300"], "true\n");
    sandbox.run("qorder", &[&second, &third]).ok();
    sandbox.until("the planned start of the third job", || {
        planned_start(&third)
    });
    let estimated_starts = || {
        let document = json_of(&sandbox, &["--start"]);
        [&second, &third].map(|id| {
            document["Jobs"][id]["estimated"]["start"]
                .as_i64()
                .unwrap_or_else(|| panic!("{document}"))
        })
    };
    let before = estimated_starts();
    assert_eq!(before[1], before[0] + 600);
    for _ in 0..2 {
        sandbox.kill("schedd");
        sandbox.run("schedd", &[]).ok();
        // Once a job that needs no resources has run, a cycle has run, too.
        sandbox.ended(&sandbox.submit(&["-l", "select=1:ncpus=0", "-l", "walltime=60"], "true\n"));
        assert_eq!(estimated_starts(), before);
    }
    let why = json_of(&sandbox, &["--why", &second])["Jobs"][&second]["why"].clone();
    assert!(why["slips"].as_array().is_none_or(Vec::is_empty), "{why}");
}
