//! What nodes measure of themselves (M6): taken in without a write and without a cycle, unless the
//! policy heeds it.

use crate::support::played::{Played, facts};
use lanai::model::node::NodeFacts;
use lanai::model::resource::Value;
use lanai::wire::order::Report;
use std::fs;
use std::time::{Duration, SystemTime};

/// The files of the spool, and when each was last written.
fn written(played: &Played) -> Vec<(String, SystemTime, u64)> {
    let files = crate::support::files(&played.sandbox.home());
    let spool = files.into_iter().filter(|file| file.to_string_lossy().contains("spool.db"));
    let look = |file: std::path::PathBuf| {
        let meta = fs::metadata(&file).ok()?;
        Some((file.to_string_lossy().into_owned(), meta.modified().ok()?, meta.len()))
    };
    spool.filter(|file| !file.to_string_lossy().ends_with("-shm")).filter_map(look).collect()
}

fn busy(load: u32) -> NodeFacts {
    let utilized = [("ncpus".to_string(), Value::Long(i64::from(load / 1000)))].into();
    NodeFacts { load, utilized, ..facts() }
}

#[test]
fn a_load_that_changes_is_worth_no_write() {
    let played = Played::new("", |_| vec![]);
    played.sandbox.run("schedd", &[]).ok();
    let state = |word: &str| played.sandbox.run("pbsnodes", &["n1"]).out.contains(word).then_some(());
    played.sandbox.until("the node", || state("state = free"));
    std::thread::sleep(Duration::from_millis(500));
    let before = written(&played);
    assert!(!before.is_empty());
    for load in [1000, 3000, 0, 2000] {
        played.say(&Report::Nodes(vec![busy(load)]));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(written(&played), before);
    // What else changes of it is written.
    played.say(&Report::Nodes(vec![NodeFacts { pcpus: 16, ..busy(2000) }]));
    played.sandbox.until("the change", || state("pcpus = 16"));
    assert_ne!(written(&played), before);
}
