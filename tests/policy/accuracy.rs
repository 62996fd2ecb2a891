//! Predicted starts on traces: at least 80 % of the jobs start within the predicted range, and the
//! expected start is closer to the start than a forecast from walltimes alone.

use super::replay::{load, trace_directory};
use crate::support::root;
use lanai::config::Config;
use lanai::sim::accuracy::{Accuracy, AccuracyTest};
use lanai::sim::replay;
use lanai::sim::shorthand;
use std::path::{Path, PathBuf};

/// The accuracy of predicted starts on a trace under EASY backfill.
fn accuracy(path: &Path) -> Accuracy {
    let (machine, trace) = load(path);
    let config = Config::default();
    let policy = shorthand::applied("easy", config.effective_policy()).unwrap();
    let mut test = AccuracyTest::new(&trace.jobs, policy.clone());
    let observe = |instant: &replay::Instant| test.observe(instant);
    let outcomes = replay::run(&trace.jobs, machine, &config, &policy, observe).unwrap();
    test.finish(&outcomes)
}

fn assert_accurate(path: &Path) {
    let accuracy = accuracy(path);
    println!("{}: {accuracy:?}", path.display());
    assert!(accuracy.predictions > 50, "{}", path.display());
    assert!(
        accuracy.within_range >= 0.8,
        "{}: {accuracy:?}",
        path.display()
    );
    assert!(accuracy.median_range_s > 0.0);
}

#[test]
fn predicted_starts_are_accurate_on_a_small_trace() {
    let path = root().join("tests/policy/traces/syn-tiny.swf.gz");
    let accuracy = accuracy(&path);
    assert_accurate(&path);
    assert!(
        accuracy.median_start_error_s < accuracy.median_start_error_by_walltimes_s,
        "{accuracy:?}"
    );
}

#[test]
#[ignore = "takes minutes: make replay-check"]
fn replay_check_of_predicted_starts() {
    let Some(folder) = trace_directory() else {
        return;
    };
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut traces: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    traces.retain(|path| path.to_string_lossy().ends_with(".swf.gz"));
    traces.sort();
    for path in traces {
        assert_accurate(&path);
    }
}
