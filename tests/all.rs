//! All tests that see Lanai from outside, in one binary: one link instead of a dozen.

#![allow(
    clippy::disallowed_methods,
    reason = "tests start programs and read the clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accounting;
mod administrator;
mod architecture;
mod arrays;
mod bounded_jobs;
mod checkpoint;
mod checks;
mod clients;
mod clocks;
mod closed_accounts;
mod commands;
mod configured;
mod cycles;
mod delivery;
mod dependencies;
mod dialects;
mod directories;
mod disk_full;
mod eligible_time;
mod endings;
mod event_properties;
mod expand;
mod fair_share;
mod faults;
mod first_commands;
mod first_light;
mod forecast;
mod generated;
mod gpus;
mod grammars;
mod had_enough;
mod hooks;
mod hostile;
mod installations;
mod interactive;
mod job_commands;
mod job_path;
mod joining;
mod large_scripts;
mod launch_failures;
mod letters;
mod licences;
mod limit_properties;
mod limits;
mod limits_in_force;
mod lost_replies;
mod measures;
mod messages;
mod migration;
mod mpi;
mod nested;
mod node_hooks;
mod noded;
mod nodes;
mod notify;
mod output;
mod overrun;
mod personal;
mod placement;
mod placement_search;
mod preemption;
mod preemption_properties;
mod priorities;
mod promised_rooms;
mod qmgr;
mod qterm;
mod quality;
mod queues;
mod recorded;
mod recovery;
mod release_nodes;
mod replay;
mod reservations;
mod reserving;
mod reused_accounts;
mod round_trips;
mod scenarios;
mod sched_properties;
mod shared;
mod site_scripts;
mod starvation_properties;
mod support;
mod suspend;
mod system_priority;
mod torture;
mod tour;
mod tracejob;
mod transcripts;
mod turns;
mod usage;
mod watch;
mod why;

use std::collections::BTreeSet;

/// A file under `tests/` that no `mod` line names would never run, and nobody would notice.
#[test]
fn no_test_file_is_forgotten() {
    let folder = support::root().join("tests");
    let named: BTreeSet<String> = include_str!("all.rs")
        .lines()
        .filter_map(|line| Some(line.strip_prefix("mod ")?.replace(';', "")))
        .collect();
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let modules = entries.filter(|path| {
        path.extension().is_some_and(|end| end == "rs") || path.join("mod.rs").exists()
    });
    let present: BTreeSet<String> = modules
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_string())
        .collect();
    let forgotten: Vec<_> = present
        .iter()
        .filter(|name| *name != "all" && !named.contains(*name))
        .collect();
    assert!(
        forgotten.is_empty(),
        "add `mod ...;` to tests/all.rs for {forgotten:?}"
    );
}
