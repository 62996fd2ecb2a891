//! Kills daemons at random times while clients submit, delete and rerun jobs.
//!
//! Each attempt of a job marks its start with an exclusively created file, named after job and
//! attempt. After the run, every accepted job must have the end that its script, a `qdel` or a
//! `qrerun` determines. Each start must have left exactly one mark, and nothing else may remain
//! ([`audit`]).
//!
//! `TORTURE_SEED` repeats a run with the same random numbers;
//! `TORTURE_KILLS=schedd,noded,spawner` sets how often each is killed; `TORTURE_FAULTS` replaces
//! [`FAULTS`].

mod audit;
mod clients;
mod directories;
mod killer;
mod rng;

use crate::support::sandbox::Sandbox;
use clients::Clients;
use killer::{Kill, Kills};
use rng::Rng;
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
fn a_few_kills_lose_no_job_and_run_none_twice() {
    let few = Kills {
        schedd: 2,
        noded: 2,
        spawner: 2,
    };
    // Recovery times are not checked here, because other tests run at the same time.
    torture_run(few, "");
}

#[test]
#[ignore = "takes minutes: make torture"]
fn many_kills_lose_no_job_and_run_none_twice() {
    torture_run(
        Kills {
            schedd: 50,
            noded: 20,
            spawner: 10,
        }
        .or_from_environment(),
        "",
    )
    .assert_quick_recovery();
}

#[test]
#[ignore = "takes minutes: make torture"]
fn many_kills_with_faults_lose_no_job_and_run_none_twice() {
    let faults = std::env::var("TORTURE_FAULTS").unwrap_or(FAULTS.to_string());
    torture_run(
        Kills {
            schedd: 50,
            noded: 20,
            spawner: 10,
        }
        .or_from_environment(),
        &faults,
    )
    .assert_quick_recovery();
}

fn torture_run(kills: Kills, faults: &str) -> audit::Report {
    let mut rng = Rng::from_environment();
    println!(
        "TORTURE_SEED={} {kills:?} faults: {}",
        rng.seed(),
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
    let clients = Clients::new(&sandbox);
    let killed: Vec<Kill> = std::thread::scope(|scope| {
        clients.begin(scope, &mut rng);
        let killed = killer::kill_all(&clients, kills, &mut rng);
        clients.end();
        killed
    });
    let is_quiet = clients.wait_until_quiet(Duration::from_secs(40));
    let report = audit::audit(&clients, &killed);
    println!("{report}");
    let mut errors = report.errors().to_vec();
    if !is_quiet {
        errors.push("jobs were still unfinished 40 s after the last kill".to_string());
    }
    if !errors.is_empty() {
        let kept = clients.keep_state();
        panic!(
            "{} errors (the state is kept in {}):\n{}",
            errors.len(),
            kept.display(),
            errors.join("\n")
        );
    }
    report
}
