//! tracejob prints the history of a job from the events in the spool.

use crate::support::people::two_users;
use crate::support::sandbox::Sandbox;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

fn head(more: &str) -> Sandbox {
    let queues = "[[queue]]\nname = \"workq\"\n[[queue]]\nname = \"night\"\n";
    Sandbox::configured(&format!(
        "[server]\nname = \"head\"\nrefuse_impossible = false\n{more}\n{queues}"
    ))
}

/// Lines of a trace without their times. Panics if a time does not have PBS's format.
#[track_caller]
fn lines(out: &str, id: &str) -> Vec<String> {
    let rest = out
        .strip_prefix(&format!("\nJob: {id}\n\n"))
        .unwrap_or_else(|| panic!("{out}"));
    let line = |line: &str| {
        let (time, text) = line.split_at(19);
        chrono::NaiveDateTime::parse_from_str(time, "%m/%d/%Y %H:%M:%S")
            .unwrap_or_else(|error| panic!("{error}: {line}"));
        let text = text.strip_prefix("  ").unwrap();
        assert_eq!(&text[1..5], "    ", "{line}");
        format!("{} {}", &text[..1], &text[5..])
    };
    rest.lines().map(line).collect()
}

#[track_caller]
fn assert_in_order(lines: &[String], wanted: &[&str]) {
    let mut left = lines.iter();
    for words in wanted {
        assert!(
            left.any(|line| line.contains(words)),
            "{words:?} is missing or out of order in {lines:#?}"
        );
    }
}

#[test]
fn the_events_of_a_job_are_printed_line_by_line() {
    let sandbox = head("");
    let script = "trap : USR1; echo up; while [ ! -e go ]; do sleep 0.02; done; exit 3\n";
    let id = sandbox.submit(&["-h", "-N", "traced", "-A", "acct"], script);
    sandbox.run("qmove", &["night", &id]).ok();
    sandbox.run("qalter", &["-p", "5", &id]).ok();
    sandbox.run("qrls", &[&id]).ok();
    sandbox.running(&id);
    let number = id.split('.').next().unwrap();
    sandbox.until("the script", || {
        sandbox
            .read(&format!("traced.o{number}.part"))
            .contains("up")
            .then_some(())
    });
    sandbox.run("qsig", &["-s", "USR1", &id]).ok();
    sandbox.run("qmsg", &["hello", &id]).ok();
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.ended(&id);
    let trace = lines(&sandbox.run("tracejob", &[&id]).ok(), &id);
    assert_in_order(
        &trace,
        &[
            "S Job Queued at request of ",
            "S Submitted as: qsub -h -N traced -A acct",
            "A user=",
            "S Job moved from queue workq to night at request of ",
            "S Job Modified (Priority) at request of ",
            "S Holds u released at request of ",
            "L Job run, attempt 1, on exec_vnode (",
            "A user=",
            "M Started, attempt 1, session = ",
            "S Signal 10 (USR1) sent at request of ",
            "S Message written to the job's standard error at request of ",
            "M Exited with code 3 (attempt 1)",
            "S Exit_status=3 resources_used.cpupercent=",
            "A user=",
        ],
    );
    assert!(
        trace[0].ends_with("job name = traced, queue = workq"),
        "{trace:?}"
    );
    assert!(
        trace
            .iter()
            .filter(|line| line.starts_with("A "))
            .all(|line| line.contains("account=\"acct\""))
    );
    let sources = |options: &[&str]| {
        let done = sandbox.run("tracejob", &[options, &[id.as_str()]].concat());
        let mut letters: Vec<char> = lines(&done.ok(), &id)
            .iter()
            .filter_map(|line| line.chars().next())
            .collect();
        letters.dedup();
        letters.sort_unstable();
        letters.dedup();
        letters.into_iter().collect::<String>()
    };
    assert_eq!(
        (
            sources(&[]),
            sources(&["-a"]),
            sources(&["-slm"]),
            sources(&["-alm"])
        ),
        ("ALMS".into(), "LMS".into(), "A".into(), "S".into())
    );
    let document: Value =
        serde_json::from_str(&sandbox.run("tracejob", &["-F", "json", &id]).ok()).unwrap();
    let events = document["Jobs"][&id]["events"].as_array().unwrap();
    assert_eq!(
        (events.len(), &events[0]["event"], &events[0]["source"]),
        (trace.len(), &"submitted".into(), &"S".into())
    );
    // tracejob needs no schedd.
    sandbox.run("schedd", &["--stop"]).ok();
    assert_eq!(lines(&sandbox.run("tracejob", &[&id]).ok(), &id), trace);
    assert!(sandbox.pid_of("schedd").is_none());
}

#[test]
fn the_deleting_user_and_the_wait_reason_are_printed() {
    let sandbox = head("");
    let id = sandbox.submit(&["-l", "select=1:ncpus=60000"], "true\n");
    let waits = sandbox.until("the wait reason", || {
        let trace = lines(&sandbox.run("tracejob", &[&id]).ok(), &id);
        trace
            .last()
            .filter(|line| line.starts_with("L Can Never"))
            .cloned()
    });
    assert!(
        waits.starts_with("L Can Never Run: Insufficient amount of resource: ncpus (R: 60000"),
        "{waits}"
    );
    sandbox.run("qdel", &[&id]).ok();
    let trace = lines(&sandbox.run("tracejob", &[&id]).ok(), &id);
    assert_in_order(
        &trace,
        &["S Job to be deleted at request of ", "S Exit_status=271 "],
    );
}

#[test]
fn unknown_jobs_are_reported_and_a_missing_id_prints_the_usage() {
    let sandbox = head("");
    let id = sandbox.submit(&["-h"], "true\n");
    let missing = sandbox.run("tracejob", &["999", &id]);
    assert_eq!(
        (missing.code, missing.err.as_str()),
        (
            1,
            "tracejob: Couldn't find Job Id 999 in logs of past 1 day\n"
        )
    );
    assert!(
        missing.out.contains(&format!("Job: {id}")),
        "the other job is printed: {missing:?}"
    );
    let usage = sandbox.run("tracejob", &[]);
    assert_eq!((usage.code, usage.err.as_str()), (1, ""));
    assert!(usage.out.starts_with("usage: tracejob"), "{usage:?}");
    assert_eq!(sandbox.run("tracejob", &["-f", "nosuch", &id]).code, 1);
    assert_eq!(
        sandbox
            .run(
                "tracejob",
                &[
                    "-f", "debug", "-f", "admin", "-w", "80", "-p", "/x", "-v", &id
                ]
            )
            .code,
        0
    );
    assert!(
        sandbox
            .run("tracejob", &["--version"])
            .ok()
            .starts_with("pbs_version = ")
    );
}

#[test]
fn other_users_see_the_events_but_not_the_command_line() {
    let Some([ann, bob]) = two_users("trace") else {
        return;
    };
    let sandbox = head("shared = true");
    for folder in [sandbox.home().parent().unwrap(), &sandbox.home()] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    sandbox.run("schedd", &[]).ok();
    let id = ann.submit(&sandbox, &["-v", "SECRET=shh"], "true\n");
    sandbox.ended(&id);
    let shown = |out: String| (out.contains("Exit_status=0"), out.contains("SECRET"));
    assert_eq!(
        shown(ann.run(&sandbox, "tracejob", &[&id]).ok()),
        (true, true)
    );
    assert_eq!(
        shown(bob.run(&sandbox, "tracejob", &[&id]).ok()),
        (true, false)
    );
    assert_eq!(shown(sandbox.run("tracejob", &[&id]).ok()), (true, true));
}
