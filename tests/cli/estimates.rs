//! Estimates from the run times of past jobs: `qstat --start`, `--why`, `qsub --dry-run`, `lanai`.

use crate::support::sandbox::Sandbox;
use serde_json::Value;

const NCPUS: u32 = 2;

/// An installation with one node.
fn installation() -> Sandbox {
    let node = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = node.split('.').next().unwrap();
    Sandbox::configured(&format!(
        "[[node]]\nname = \"{node}\"\nncpus = {NCPUS}\nmem = \"64gb\"\n"
    ))
}

/// Submits a job that needs the whole node.
fn submit_whole(sandbox: &Sandbox, name: &str, options: &[&str], script: &str) -> String {
    let all = format!("select=1:ncpus={NCPUS}");
    let mut words = vec!["-N", name, "-l", &all];
    words.extend(options);
    sandbox.submit(&words, script)
}

fn forecast(sandbox: &Sandbox, job: &str) -> Value {
    let text = sandbox.run("qstat", &["--start", "-F", "json", job]).ok();
    let document: Value = serde_json::from_str(&text).unwrap();
    document["Jobs"][job].clone()
}

#[test]
fn without_walltime_and_past_jobs_the_start_is_unknown() {
    let sandbox = installation();
    let first = submit_whole(&sandbox, "long", &[], "sleep 600\n");
    sandbox.running(&first);
    let second = submit_whole(&sandbox, "next", &[], "true\n");
    let document = forecast(&sandbox, &second);
    assert_eq!(document["code"], "unknown_end", "{document}");
    let text = sandbox.run("qstat", &["--start", &second]).ok();
    assert!(
        text.contains(&format!("start unknown: job {first} has no walltime")),
        "{text}"
    );
    let why = sandbox.run("qstat", &["--why", &second]).ok();
    assert!(why.contains("start unknown: job"), "{why}");
    let dry = sandbox
        .run("qsub", &["--dry-run", "-l", "ncpus=2", "--", "true"])
        .ok();
    assert!(
        dry.contains("The job would not start at once; start unknown"),
        "{dry}"
    );
    let overview = sandbox.run("lanai", &[]).ok();
    assert!(overview.contains("Next expected starts:"), "{overview}");
    assert!(overview.contains("start unknown: job"), "{overview}");
}

#[test]
fn past_jobs_of_the_same_name_give_an_estimated_start() {
    let sandbox = installation();
    for _ in 0..3 {
        let past = submit_whole(&sandbox, "sim", &[], "sleep 1\n");
        sandbox.ended(&past);
    }
    let first = submit_whole(&sandbox, "sim", &[], "sleep 600\n");
    sandbox.running(&first);
    let second = submit_whole(&sandbox, "sim", &["-l", "walltime=100"], "true\n");
    let document = forecast(&sandbox, &second);
    let estimated = &document["estimated"];
    let (start, latest) = (estimated["start"].as_i64(), estimated["latest"].as_i64());
    assert!(start.is_some() && latest >= start, "{document}");
    let text = sandbox.run("qstat", &["--start", &second]).ok();
    assert!(text.contains("(estimated"), "{text}");
    let why = sandbox.run("qstat", &["--why", &second]).ok();
    assert!(
        why.contains("Run time:   estimated 00:00:0")
            && why.contains("(from the last 3 jobs with this name)"),
        "{why}"
    );
    let text = sandbox.run("lanai", &["--json"]).ok();
    let overview: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(overview["expected_starts"][0]["job"], *second, "{overview}");
    assert!(
        overview["expected_starts"][0]["latest_start"].is_string(),
        "{overview}"
    );
    let dry = sandbox
        .run(
            "qsub",
            &["--dry-run", "-N", "sim", "-l", "ncpus=2", "--", "true"],
        )
        .ok();
    assert!(dry.contains("Run time: estimated"), "{dry}");
}

#[test]
fn the_accuracy_report_compares_predictions_with_run_times() {
    let sandbox = installation();
    for _ in 0..4 {
        let past = submit_whole(&sandbox, "sim", &["-l", "walltime=60"], "true\n");
        sandbox.ended(&past);
    }
    let text = sandbox.run("qstat", &["--accuracy", "-F", "json"]).ok();
    let document: Value = serde_json::from_str(&text).unwrap();
    let accuracy = &document["Accuracy"];
    assert_eq!(
        (&accuracy["jobs"], &accuracy["predicted"]),
        (&4.into(), &1.into())
    );
    assert!(
        accuracy["median_walltime_error_seconds"].as_i64() > Some(50),
        "{accuracy}"
    );
    let text = sandbox.run("qstat", &["--accuracy"]).ok();
    assert!(
        text.starts_with("Of 4 jobs that ended in the last 30 days"),
        "{text}"
    );
    assert_eq!(sandbox.run("qstat", &["--accuracy", "1"]).code, 2);
}
