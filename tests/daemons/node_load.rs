//! Load reports of nodes (M6): they cause no write to disk, and no cycle unless the policy uses the
//! load.

use crate::support::played::{SimulatedNoded, facts};
use lanai::model::node::NodeFacts;
use lanai::model::resource::ResourceValue;
use lanai::wire::order::NodeReport;
use std::fs;
use std::time::{Duration, SystemTime};

/// Files of the spool with modification time and size.
fn spool_files(played: &SimulatedNoded) -> Vec<(String, SystemTime, u64)> {
    let files = crate::support::files(&played.sandbox.home());
    let spool = files
        .into_iter()
        .filter(|file| file.to_string_lossy().contains("spool.db"));
    let metadata = |file: std::path::PathBuf| {
        let meta = fs::metadata(&file).ok()?;
        Some((
            file.to_string_lossy().into_owned(),
            meta.modified().ok()?,
            meta.len(),
        ))
    };
    spool
        .filter(|file| !file.to_string_lossy().ends_with("-shm"))
        .filter_map(metadata)
        .collect()
}

fn busy(load: u32) -> NodeFacts {
    let utilized = [(
        "ncpus".to_string(),
        ResourceValue::Long(i64::from(load / 1000)),
    )]
    .into();
    NodeFacts {
        load,
        utilized,
        ..facts()
    }
}

#[test]
fn a_changed_load_is_not_written_to_disk() {
    let played = SimulatedNoded::new("", |_| vec![]);
    played.sandbox.run("schedd", &[]).ok();
    let state = |word: &str| {
        played
            .sandbox
            .run("pbsnodes", &["n1"])
            .out
            .contains(word)
            .then_some(())
    };
    played.sandbox.until("the node", || state("state = free"));
    std::thread::sleep(Duration::from_millis(500));
    let before = spool_files(&played);
    assert!(!before.is_empty());
    for load in [1000, 3000, 0, 2000] {
        played.send_report(&NodeReport::Nodes(vec![busy(load)]));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(spool_files(&played), before);
    // Other changes of the node are written.
    played.send_report(&NodeReport::Nodes(vec![NodeFacts {
        pcpus: 16,
        ..busy(2000)
    }]));
    played.sandbox.until("the change", || state("pcpus = 16"));
    assert_ne!(spool_files(&played), before);
}

/// If processes that belong to no job use all processors of a node, none are free, although no job
/// runs there. The job's reason and `pbsnodes` show the load.
#[test]
fn a_job_that_waits_because_of_the_load_of_a_node_shows_it() {
    let played = SimulatedNoded::new("[placement]\navailability = \"combined\"\n", |_| vec![]);
    let sandbox = &played.sandbox;
    sandbox.run("schedd", &[]).ok();
    sandbox.until("the node", || {
        sandbox
            .run("pbsnodes", &["n1"])
            .out
            .contains("state = free")
            .then_some(())
    });
    played.send_report(&NodeReport::Nodes(vec![NodeFacts {
        load: 17_040,
        ..busy(17_000)
    }]));
    let shown = sandbox.until("the load", || {
        let shown = sandbox.run("pbsnodes", &["-a"]).out;
        shown.contains("loadave = 17.04").then_some(shown)
    });
    assert!(shown.contains("resources_utilized.ncpus = 17"), "{shown}");
    let json: serde_json::Value =
        serde_json::from_str(&sandbox.run("pbsnodes", &["-a", "-F", "json"]).ok()).unwrap();
    assert_eq!(json["nodes"]["n1"]["loadave"], 17.04, "{json}");
    let id = sandbox.submit(&["-l", "select=1:ncpus=2"], "true\n");
    let why = sandbox.until("the reason", || {
        let why = sandbox.run("qstat", &["--why", &id]).out;
        why.contains("match: in_use").then_some(why)
    });
    let expected = "2 requested, 0 of 4 free; 17 in use beyond what is allocated to jobs. The load average of n1 is 17.0.";
    assert!(why.contains(expected), "{why}");
    assert!(
        why.contains("ncpus: 2 requested, 0 free, some in use beyond what is allocated to jobs"),
        "{why}"
    );
    assert!(!why.contains("-1"), "{why}");
    played.send_report(&NodeReport::Nodes(vec![busy(0)]));
    sandbox.until("a start", || (!played.starts().is_empty()).then_some(()));
}
