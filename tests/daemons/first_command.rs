//! The first command of a personal installation gives the same answer as later ones, whichever
//! command it is.

use crate::support::sandbox::{Done, Sandbox};
use serde_json::Value;
use std::fs;

/// An installation without configuration, in which no command has run yet.
fn fresh() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::remove_file(sandbox.home().join("lanai.toml")).unwrap();
    sandbox
}

/// An installation in which one job has finished.
fn used() -> Sandbox {
    let sandbox = fresh();
    let id = sandbox.run("qsub", &["--", "/bin/true"]).line();
    sandbox.ended(&id);
    sandbox
}

fn host() -> String {
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    host.split('.').next().unwrap().to_string()
}

/// Exit status and output of a command, without times and counts.
fn without_numbers(done: &Done) -> (i32, String, String) {
    let masked = |text: &str| {
        let digits: String = text
            .chars()
            .map(|c| if c.is_ascii_digit() { '#' } else { c })
            .collect();
        digits
            .split('#')
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("#")
    };
    (done.code, masked(&done.out), masked(&done.err))
}

#[test]
fn queries_give_the_same_answer_before_and_after_the_first_job() {
    let (host, used) = (host(), used());
    let queries: [&[&str]; 22] = [
        &["pbsnodes", "-a"],
        &["pbsnodes", "-av"],
        &["pbsnodes", "-aSj"],
        &["pbsnodes", "-l"],
        &["pbsnodes", "-a", "-F", "json"],
        &["pbsnodes", &host],
        &["pbsnodes", &host, "-F", "json"],
        &["qstat"],
        &["qstat", "-Q"],
        &["qstat", "-Qf"],
        &["qstat", "-Q", "-f", "-F", "json"],
        &["qstat", "-q"],
        &["qstat", "-B"],
        &["qstat", "-Bf"],
        &["qstat", "-B", "-f", "-F", "json"],
        &["qstat", "workq"],
        &["qstat", "-f", "workq"],
        &["qstat", "-f", "-F", "json", "workq"],
        &["qstat", "nosuch"],
        &["qstat", "--holes"],
        &["qselect"],
        &["qmgr", "-c", "list node @default"],
    ];
    for query in queries {
        let [first, later] = [&fresh(), &used].map(|sandbox| {
            let done = sandbox.run(query[0], &query[1..]);
            let home = sandbox.home().display().to_string();
            Done {
                out: done.out.replace(&home, "HOME"),
                err: done.err.replace(&home, "HOME"),
                ..done
            }
        });
        assert_eq!(
            without_numbers(&first),
            without_numbers(&later),
            "{query:?}\n{first:?}\n{later:?}"
        );
    }
}

#[test]
fn the_first_submission_is_checked_like_later_ones() {
    let used = used();
    for request in ["ncpus=100000", "mem=900tb", "walltime=abc"] {
        let [first, later] = [&fresh(), &used]
            .map(|sandbox| sandbox.run("qsub", &["-l", request, "--", "/bin/true"]));
        assert_ne!(first.code, 0, "{request}: {first:?}");
        assert_eq!(
            without_numbers(&first),
            without_numbers(&later),
            "{request}"
        );
        let dry = used.run("qsub", &["--dry-run", "-l", request, "--", "/bin/true"]);
        assert_eq!(
            (dry.code, dry.out, dry.err),
            (later.code, later.out, later.err),
            "{request}: dry run"
        );
    }
}

#[test]
fn a_dry_run_is_correct_as_first_command_and_after_the_daemons_exited() {
    let would_start = |sandbox: &Sandbox| {
        let done = sandbox.run("qsub", &["--dry-run", "--", "/bin/true"]);
        assert!(
            done.code == 0 && done.out.contains("The job would start now"),
            "{done:?}\n{}",
            sandbox.log()
        );
    };
    would_start(&fresh());
    let sandbox = Sandbox::configured("[server]\nidle = \"1s\"\n");
    would_start(&sandbox);
    for _ in 0..2 {
        sandbox.until("the exit of idle daemons", || {
            sandbox.pids_of("schedd").is_empty().then_some(())
        });
        would_start(&sandbox);
    }
}

#[test]
fn forecasts_include_the_callers_last_command() {
    let sandbox = used();
    let nodes: Value =
        serde_json::from_str(&sandbox.run("pbsnodes", &["-a", "-F", "json"]).ok()).unwrap();
    let ncpus = nodes["nodes"][host()]["resources_available"]["ncpus"]
        .as_i64()
        .unwrap();
    for round in 0..3 {
        sandbox.run("qstat", &["--holes"]).ok();
        let whole = format!("ncpus={ncpus}");
        let id = sandbox
            .run("qsub", &["-l", &whole, "--", "/bin/sleep", "60"])
            .line();
        let dry = sandbox
            .run(
                "qsub",
                &["--dry-run", "-l", "walltime=60", "--", "/bin/true"],
            )
            .ok();
        assert!(!dry.contains("The job would start now"), "{round}: {dry}");
        let next = sandbox
            .run("qsub", &["-l", &whole, "--", "/bin/true"])
            .line();
        let starts = sandbox.run("qstat", &["--start"]).ok();
        assert!(
            starts.contains(&next),
            "{round}: {next} is not in\n{starts}"
        );
        sandbox.run("qdel", &[&next]).ok();
        let starts = sandbox.run("qstat", &["--start"]).ok();
        assert!(!starts.contains(&next), "{round}: {next} is in\n{starts}");
        sandbox.run("qdel", &[&id]).ok();
        sandbox.ended(&id);
        let dry = sandbox
            .run(
                "qsub",
                &["--dry-run", "-l", "walltime=60", "--", "/bin/true"],
            )
            .ok();
        assert!(dry.contains("The job would start now"), "{round}: {dry}");
    }
}
