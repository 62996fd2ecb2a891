//! Replayed traces give the same start of every job as independent simulators. Every test run uses
//! the traces in this repository; `make replay-check` uses all available ones.

use crate::support::root;
use crate::support::sandbox::bin;
use lanai::config::Config;
use lanai::sim::machine::NodeBatch;
use lanai::sim::metrics::Metrics;
use lanai::sim::replay::{self, Outcome};
use lanai::sim::shorthand;
use lanai::sim::swf;
use lanai::sim::trace::Trace;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

/// Policy names of Lanai and of the references.
const POLICIES: [(&str, &str); 7] = [
    ("fcfs", "FCFS"),
    ("easy", "EASY"),
    ("easy-sjbf", "EASY-SJBF"),
    ("conservative", "CONS"),
    ("lxf+easy", "LXF+EASY"),
    ("lxf+easy-sjbf", "LXF+EASY-SJBF"),
    ("wfp3+easy", "WFP3+EASY"),
];

/// Compared values of a job: number, submission, start, end, processors.
type Row = [i64; 5];

pub fn load(path: &Path) -> (NodeBatch, Trace) {
    let log = swf::read(BufReader::new(File::open(path).unwrap())).unwrap();
    let machine = NodeBatch::new(&log, None, None).unwrap();
    (machine, Trace::new(&log, machine.processors()).unwrap())
}

pub fn run(machine: NodeBatch, trace: &Trace, policy: &str) -> Vec<Outcome> {
    let config = Config::default();
    let policy = shorthand::applied(policy, config.effective_policy()).unwrap();
    replay::run(&trace.jobs, machine, &config, &policy, |_| ()).unwrap()
}

fn row(outcome: &Outcome) -> Row {
    let job = &outcome.job;
    [
        job.id,
        job.submit,
        outcome.start,
        outcome.end(),
        i64::from(job.processors),
    ]
}

/// Reads a reference: one job per line, numbers separated by spaces.
fn reference(path: &Path) -> Vec<Row> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(File::open(path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let row = |line: &str| -> Row {
        let numbers: Vec<i64> = line
            .split(' ')
            .map(|number| number.parse().unwrap())
            .collect();
        numbers.try_into().unwrap()
    };
    text.lines().map(row).collect()
}

/// Number of differing jobs, and the first of them with both values.
fn differences(found: &[Outcome], expected: &[Row]) -> (usize, String) {
    let mut differing = found
        .iter()
        .map(row)
        .zip(expected)
        .filter(|(found, expected)| found != *expected);
    let first = differing.next();
    let count =
        usize::from(first.is_some()) + differing.count() + found.len().abs_diff(expected.len());
    (
        count,
        first
            .map(|(found, expected)| format!("{found:?} instead of {expected:?}"))
            .unwrap_or_default(),
    )
}

/// Compares a policy on the traces in this repository.
fn compare(policy: (&str, &str)) {
    let folder = root().join("tests/policy/traces");
    for trace in ["syn-tiny", "syn-small", "syn-mid"] {
        let (machine, jobs) = load(&folder.join(format!("{trace}.swf.gz")));
        let expected = reference(&folder.join(format!("{trace}.{}.gz", policy.1)));
        let (count, first) = differences(&run(machine, &jobs, policy.0), &expected);
        assert_eq!(
            count,
            0,
            "{trace} under {}: different starts among {} jobs; the first: {first}",
            policy.0,
            expected.len()
        );
    }
}

#[test]
fn fcfs_starts_every_job_when_the_reference_does() {
    compare(POLICIES[0]);
}

#[test]
fn easy_starts_every_job_when_the_reference_does() {
    compare(POLICIES[1]);
}

#[test]
fn easy_sjbf_starts_every_job_when_the_reference_does() {
    compare(POLICIES[2]);
}

#[test]
fn conservative_starts_every_job_when_the_reference_does() {
    compare(POLICIES[3]);
}

#[test]
fn largest_expansion_first_starts_every_job_when_the_reference_does() {
    compare(POLICIES[4]);
    compare(POLICIES[5]);
}

#[test]
fn wfp3_starts_every_job_when_the_reference_does() {
    compare(POLICIES[6]);
}

fn qsim(arguments: &[&str]) -> (i32, String, String) {
    let done = Command::new(bin("qsim")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        done.status.code().unwrap(),
        text(done.stdout),
        text(done.stderr),
    )
}

#[test]
fn qsim_writes_starts_summary_and_picture() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let trace = root()
        .join("tests/policy/traces/syn-small.swf.gz")
        .to_str()
        .unwrap()
        .to_string();
    let (starts, picture) = (path("starts.csv"), path("picture.svg"));
    let window = ["--from", "100", "--first", "50", "--nodes", "8"];
    let options = [
        "replay",
        &trace,
        "--policy",
        "easy",
        "--summary",
        "json",
        "--jobs-out",
        &starts,
        "--plot",
        &picture,
    ];
    let (code, out, err) = qsim(&[&options[..], &window].concat());
    assert_eq!(
        (code, err.as_str()),
        (0, ""),
        "no progress may be shown without a terminal"
    );

    let summary: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&summary["jobs"], &summary["records"]["records"]),
        (&50.into(), &1000.into()),
        "{out}"
    );
    assert_eq!(
        summary["machine"],
        serde_json::json!({"nodes": 8, "cores_per_node": 8})
    );
    assert!(
        summary["bounded_slowdown"]["mean"].as_f64().unwrap() >= 1.0,
        "{out}"
    );

    let starts = std::fs::read_to_string(starts).unwrap();
    let lines: Vec<Vec<&str>> = starts
        .lines()
        .map(|line| line.split(',').collect())
        .collect();
    assert_eq!(
        lines[0],
        ["job", "submit", "start", "end", "procs", "nodes", "via"]
    );
    assert_eq!((lines.len(), lines[1][0]), (51, "101"));
    assert!(
        lines[1..]
            .iter()
            .all(|line| line.len() == 7 && line[5].starts_with('n')),
        "{starts}"
    );

    let picture = std::fs::read_to_string(picture).unwrap();
    for text in [
        "syn-small.swf.gz: easy",
        "utilization (%)",
        "processors",
        "time since the first submission (",
    ] {
        assert!(picture.contains(text), "no {text}");
    }
}

#[test]
fn qsim_reports_errors_in_a_trace_with_their_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.swf").to_str().unwrap().to_string();
    let error = |text: &str, more: &[&str]| {
        std::fs::write(&path, text).unwrap();
        let (code, out, err) = qsim(&[&["replay", &path], more].concat());
        assert_eq!((code, out.as_str()), (1, ""));
        err
    };
    let job = "1 0 -1 30 4 -1 -1 8 60 -1 1 42 -1 -1 1 -1 -1 -1\n";
    let head = "; MaxProcs: 8\n";
    let expected =
        format!("qsim: {path}: lines 2 and 3 both have job number 1: job numbers must be unique\n");
    assert_eq!(error(&format!("{head}{job}{job}"), &[]), expected);
    assert_eq!(
        error(&format!("{head}1 2\n"), &[]),
        format!("qsim: {path}: line 2: 2 fields instead of 18\n")
    );
    assert!(error(job, &[]).contains("give the machine size with --nodes and --cores-per-node"));
    let expected = format!(
        "qsim: {path}: 8 processors are not divisible by 3: give both --nodes and --cores-per-node\n"
    );
    assert_eq!(error(&format!("{head}{job}"), &["--nodes", "3"]), expected);
    let (code, _, err) = qsim(&["replay", &path, "--policy", "sjf"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("[possible values: fcfs, easy, easy-sjbf, conservative, lxf+easy, lxf+easy-sjbf, wfp3+easy]"),
        "{err}"
    );
    let (code, _, err) = qsim(&["replay", "/nosuch.swf"]);
    assert_eq!(
        (code, err.as_str()),
        (
            1,
            "qsim: /nosuch.swf: No such file or directory (os error 2)\n"
        )
    );
}

// ---------------------------------------------------------------- make replay-check

/// Directory of further traces, from `LANAI_TRACES`; None if it has no `reference` directory.
pub fn trace_directory() -> Option<PathBuf> {
    let folder =
        root().join(std::env::var_os("LANAI_TRACES").unwrap_or_else(|| "../shared/traces".into()));
    let exists = folder.join("reference").is_dir();
    if !exists {
        println!("skipped: no reference traces in {}", folder.display());
    }
    exists.then_some(folder)
}

/// Traces of a directory, each with every policy that has a reference. Sorted by size, because the
/// largest are taken first, from the end.
fn tasks(folder: &Path) -> Vec<(String, (&'static str, &'static str))> {
    let mut sized: Vec<(u64, String)> = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if let Some(name) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.strip_suffix(".swf.gz"))
        {
            sized.push((entry.metadata().unwrap().len(), name.to_string()));
        }
    }
    sized.sort();
    let has_reference = |name: &str, policy: &str| {
        folder
            .join(format!("reference/{name}.{policy}.gz"))
            .exists()
    };
    let all = sized
        .iter()
        .flat_map(|(_, name)| POLICIES.map(|policy| (name.clone(), policy)));
    all.filter(|(name, policy)| has_reference(name, policy.1))
        .collect()
}

/// Replays one trace and prints a line. Returns true if all jobs agree.
fn check(folder: &Path, name: &str, policy: (&str, &str)) -> bool {
    let (machine, trace) = load(&folder.join(format!("{name}.swf.gz")));
    let expected = reference(&folder.join(format!("reference/{name}.{}.gz", policy.1)));
    let started = Instant::now();
    let found = run(machine, &trace, policy.0);
    let seconds = started.elapsed().as_secs_f64();
    let (count, first) = differences(&found, &expected);
    println!(
        "{name:<10} {:<12} {:>7} jobs {count:>7} differences {seconds:>8.2} s  {first}",
        policy.0,
        expected.len()
    );
    count == 0
}

#[test]
#[ignore = "takes minutes in a release build: make replay-check"]
fn replay_check_of_all_traces() {
    let Some(folder) = trace_directory() else {
        return;
    };
    let (remaining, failed) = (Mutex::new(tasks(&folder)), Mutex::new(Vec::new()));
    assert!(
        !remaining.lock().unwrap().is_empty(),
        "no trace in {} has a reference",
        folder.display()
    );
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let next = || remaining.lock().unwrap().pop();
                while let Some((name, policy)) = next() {
                    if !check(&folder, &name, policy) {
                        failed
                            .lock()
                            .unwrap()
                            .push(format!("{name} under {}", policy.0));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "starts differ: {}", failed.join(", "));
}

/// RLScheduler (SC 2020), Table V: FCFS on ten sequences of Lublin's model, each on an empty
/// machine.
#[test]
#[ignore = "requires a trace outside this repository: make replay-check"]
fn replay_check_of_the_published_figure() {
    let Some(folder) = trace_directory() else {
        return;
    };
    let path = folder.join("lublin256.swf.gz");
    if !path.exists() {
        println!("replay-check: skipped: {} does not exist", path.display());
        return;
    }
    let (machine, all) = load(&path);
    let slowdown = |from: usize| {
        let mut trace = all.clone();
        trace.window(from..from + 1024);
        Metrics::new(&run(machine, &trace, "fcfs"), machine.processors())
            .bounded_slowdown
            .mean
    };
    let starts = [1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085];
    let mean = starts.into_iter().map(slowdown).sum::<f64>() / starts.len() as f64;
    println!(
        "lublin256, ten sequences under FCFS: mean bounded slowdown {mean:.2}, published 7273.77"
    );
    assert_eq!(format!("{mean:.2}"), "7273.77");
}
