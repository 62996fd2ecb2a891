//! Kills daemons at random times while clients submit, delete and rerun jobs.
//!
//! Each attempt of a job marks its start with an exclusively created file, named after job and
//! attempt. After the storm every accepted job must have ended as its script, or a `qdel` or
//! `qrerun`, determines. Each start must have left exactly one mark, and nothing else may remain
//! ([`audit`]).
//!
//! `TORTURE_SEED` repeats a storm with the same random numbers;
//! `TORTURE_KILLS=schedd,noded,spawner` sets how often each is killed; `TORTURE_FAULTS` replaces
//! the faults of the storm with faults.

mod audit;
mod crew;
mod dice;
mod directories;
mod killer;

use crate::support::sandbox::Sandbox;
use crew::Crew;
use dice::Dice;
use killer::{Kill, Kills};
use std::time::Duration;

/// Processors of the node: the number of jobs that can run at once.
const SLOTS: usize = 40;
/// Jobs that must be running whenever a daemon is killed.
const RUNNING: usize = 20;

/// Faults in daemons and commands: operations that fail, are truncated or delayed, or end the
/// process.
const FAULTS: &str = "socket.read:1/300:fail,socket.write:1/300:short,socket.write:1/1000:fail,\
    socket.connect:1/100:delay,socket.connect:1/200:fail,spool.commit:1/200:fail,spool.write:1/2000:fail,\
    spool.committed:1/500:crash,spawner.send:1/300:fail,attempt.build:1/300:fail,attempt.exit:1/100:fail,\
    attempt.tombstone:1/50:fail,noded.epoch:1/20:fail,script.*:1/20:fail,script.*:1/50:crash";

#[test]
fn a_few_kills_lose_nothing_and_run_nothing_twice() {
    let few = Kills {
        schedd: 2,
        noded: 2,
        spawner: 2,
    };
    // Recovery times are not checked here, because other tests run at the same time.
    storm(few, "");
}

#[test]
#[ignore = "minutes long: make torture"]
fn many_kills_lose_nothing_and_run_nothing_twice() {
    storm(
        Kills {
            schedd: 50,
            noded: 20,
            spawner: 10,
        }
        .or_as_asked(),
        "",
    )
    .assert_quick();
}

#[test]
#[ignore = "minutes long: make torture"]
fn many_kills_among_faults_lose_nothing_and_run_nothing_twice() {
    let faults = std::env::var("TORTURE_FAULTS").unwrap_or(FAULTS.to_string());
    storm(
        Kills {
            schedd: 50,
            noded: 20,
            spawner: 10,
        }
        .or_as_asked(),
        &faults,
    )
    .assert_quick();
}

fn storm(kills: Kills, faults: &str) -> audit::Report {
    let mut dice = Dice::from_environment();
    println!(
        "TORTURE_SEED={} {kills:?} faults: {}",
        dice.seed(),
        if faults.is_empty() { "none" } else { faults }
    );
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = host.split('.').next().unwrap();
    let config = format!(
        "[launch]\nlogin = false\nretry = \"1s\"\n[[node]]\nname = \"{node}\"\nncpus = {SLOTS}\n"
    );
    let sandbox = Sandbox::configured(&config);
    let sandbox = if faults.is_empty() {
        sandbox
    } else {
        sandbox.with("LANAI_FAULTS", faults)
    };
    let crew = Crew::new(&sandbox);
    let killed: Vec<Kill> = std::thread::scope(|scope| {
        crew.begin(scope, &mut dice);
        let killed = killer::kill_all(&crew, kills, &mut dice);
        crew.end();
        killed
    });
    let calm = crew.wait_until_quiet(Duration::from_secs(40));
    let report = audit::audit(&crew, &killed);
    println!("{report}");
    let mut wrong = report.wrong().to_vec();
    if !calm {
        wrong.push("jobs were still on their way long after the storm".to_string());
    }
    if !wrong.is_empty() {
        let kept = crew.keep_the_evidence();
        panic!(
            "{} things are wrong (all is kept in {}):\n{}",
            wrong.len(),
            kept.display(),
            wrong.join("\n")
        );
    }
    report
}
