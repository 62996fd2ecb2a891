//! qmove, qmsg, qorder and qrun, and purging of the history.

use crate::support::people::two_users;
use crate::support::sandbox::{Done, Sandbox, refused_exactly};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// A server `head` with the queues workq, night and off.
fn head(more: &str) -> Sandbox {
    let queues = "[[queue]]\nname = \"workq\"\n[[queue]]\nname = \"night\"\nstarted = false\n\
                  [[queue]]\nname = \"off\"\nenabled = false\n";
    Sandbox::configured(&format!("[server]\nname = \"head\"\n{more}\n{queues}"))
}

#[track_caller]
fn assert_silent(done: Done) {
    assert!(
        done.code == 0 && done.out.is_empty() && done.err.is_empty(),
        "{done:?}"
    );
}

fn number(id: &str) -> u64 {
    id.split('.').next().unwrap().parse().unwrap()
}

#[test]
fn a_queued_job_is_moved_and_refusals_use_pbs_messages() {
    let sandbox = head("");
    let id = sandbox.submit(&["-h"], "echo in $PBS_QUEUE\n");
    assert_silent(sandbox.run("qmove", &["night", &id]));
    assert_eq!(
        (
            sandbox.job(&id)["queue"].as_str(),
            sandbox.job(&id)["job_state"].as_str()
        ),
        (Some("night"), Some("H"))
    );
    assert_silent(sandbox.run("qmove", &["workq@head", &id]));
    assert_silent(sandbox.run("qmove", &["night", &id]));
    assert_silent(sandbox.run("qmove", &["@head", &id]));
    assert_eq!(sandbox.job(&id)["queue"], "workq");
    let unknown =
        format!("qmove: Unknown queue {id}\nqmove: nosuch: the queues are workq, night, off");
    refused_exactly(sandbox.run("qmove", &["nosuch", &id]), 170, &unknown);
    refused_exactly(
        sandbox.run("qmove", &["off", &id]),
        173,
        &format!("qmove: Queue is not enabled {id}"),
    );
    let elsewhere = format!("qmove: Access from host not allowed, or unknown host {id}");
    refused_exactly(sandbox.run("qmove", &["@nosuchhost", &id]), 160, &elsewhere);
    for destination in ["a@b@c", "verylongqueuename1"] {
        let expected = format!(
            "qmove: illegally formed destination: {destination}\nqmove: use queue, queue@server \
             or @server; a queue's name has at most 15 characters"
        );
        refused_exactly(sandbox.run("qmove", &[destination, &id]), 2, &expected);
    }
    refused_exactly(
        sandbox.run("qmove", &["night", "999"]),
        153,
        "qmove: Unknown Job Id 999.head",
    );
    assert_eq!(sandbox.run("qmove", &["night"]).code, 2);
    assert_silent(sandbox.run("qrls", &[&id]));
    sandbox.ended(&id);
    assert_eq!(
        sandbox.read(&format!("STDIN.o{}", number(&id))),
        "in workq\n",
        "PBS_QUEUE is the current queue, not the first one"
    );
    refused_exactly(
        sandbox.run("qmove", &["night", &id]),
        35,
        "qmove: Job has finished",
    );
    let runs = sandbox.submit(&[], "sleep 60\n");
    sandbox.running(&runs);
    refused_exactly(
        sandbox.run("qmove", &["night", &runs]),
        168,
        &format!("qmove: Request invalid for state of job {runs}"),
    );
}

#[test]
fn a_message_reaches_the_files_of_a_running_job() {
    let sandbox = head("");
    let id = sandbox.submit(
        &["-N", "m"],
        "echo begun; while [ ! -e go ]; do sleep 0.02; done\n",
    );
    let (out, err) = (
        format!("m.o{}.part", number(&id)),
        format!("m.e{}.part", number(&id)),
    );
    sandbox.running(&id);
    sandbox.until("the script to start", || {
        sandbox.read(&out).contains("begun").then_some(())
    });
    assert_silent(sandbox.run("qmsg", &["to errors", &id]));
    assert_silent(sandbox.run("qmsg", &["-O", "to output", &id]));
    assert_silent(sandbox.run("qmsg", &["-E", "-O", "to both\nin two lines", &id]));
    sandbox.until("the last message", || {
        sandbox.read(&out).contains("two lines").then_some(())
    });
    assert_eq!(
        sandbox.read(&out),
        "begun\nto output\nto both\nin two lines\n"
    );
    sandbox.until("the last message", || {
        sandbox.read(&err).contains("two lines").then_some(())
    });
    assert_eq!(sandbox.read(&err), "to errors\nto both\nin two lines\n");
    let long = sandbox.run("qmsg", &[&"x".repeat(1025), &id]);
    assert!(
        long.code == 166 && long.err.contains("more than 1024 bytes"),
        "{long:?}"
    );
    // A restarted noded finds the shepherd and passes messages on.
    sandbox.kill("noded");
    let is_delivered = || {
        (sandbox.run("qmsg", &[&"y".repeat(1024), &id]).code == 0
            && sandbox.pid_of("noded").is_some())
        .then_some(())
    };
    sandbox.until("noded to accept messages", is_delivered);
    sandbox.until("the long message", || {
        sandbox.read(&err).contains("yyy").then_some(())
    });
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    assert!(
        sandbox
            .read(&format!("m.e{}", number(&id)))
            .starts_with("to errors\nto both\nin two lines\nyyy")
    );
    refused_exactly(
        sandbox.run("qmsg", &["late", &id]),
        35,
        "qmsg: Job has finished",
    );
    let held = sandbox.submit(&["-h"], "true\n");
    refused_exactly(
        sandbox.run("qmsg", &["early", &held]),
        168,
        &format!("qmsg: Request invalid for state of job {held}"),
    );
    refused_exactly(
        sandbox.run("qmsg", &["hello", "999"]),
        153,
        "qmsg: Unknown Job Id 999.head",
    );
    assert_eq!(sandbox.run("qmsg", &["hello"]).code, 2);
}

#[test]
fn two_jobs_exchange_positions_and_keep_them_over_a_restart() {
    let sandbox = head("[order]\nby = \"fcfs\"");
    sandbox.run("noded", &["--ncpus", "1", "--name", "n1"]).ok();
    let first = sandbox.submit(&[], "while [ ! -e go ]; do sleep 0.02; done\n");
    sandbox.running(&first);
    let job = "echo $PBS_JOBID >> order\n";
    let [a, b, c] = [0; 3].map(|_| sandbox.submit(&[], job));
    assert_silent(sandbox.run("qorder", &[&a, &c]));
    assert_silent(sandbox.run("qorder", &[&b, &b]));
    let text = format!("qorder: Request invalid for state of job {first} or {a}");
    refused_exactly(sandbox.run("qorder", &[&first, &a]), 168, &text);
    refused_exactly(
        sandbox.run("qorder", &[&a, "999"]),
        153,
        &format!("qorder: Unknown Job Id {a} or 999.head"),
    );
    assert_eq!(sandbox.run("qorder", &[&a]).code, 2);
    assert_eq!(sandbox.run("qorder", &[&a, &b, &c]).code, 2);
    sandbox.kill("schedd");
    fs::write(sandbox.file("go"), "").unwrap();
    sandbox.run("schedd", &[]).ok();
    for id in [&a, &b, &c] {
        sandbox.ended(id);
    }
    assert_eq!(sandbox.read("order"), format!("{c}\n{b}\n{a}\n"));
}

#[test]
fn qorder_also_exchanges_the_queues_of_two_jobs() {
    let sandbox = head("");
    let here = sandbox.submit(&["-h"], "true\n");
    let there = sandbox.submit(&["-h", "-q", "night"], "true\n");
    assert_silent(sandbox.run("qorder", &[&here, &there]));
    assert_eq!(
        (&sandbox.job(&here)["queue"], &sandbox.job(&there)["queue"]),
        (&"night".into(), &"workq".into())
    );
}

#[test]
fn qrun_starts_a_job_only_on_free_resources() {
    let sandbox = head("");
    sandbox
        .run("noded", &["--nodes", "2", "--ncpus", "2", "--name", "n"])
        .ok();
    let big = sandbox.submit(&["-l", "select=1:ncpus=2"], "sleep 60\n");
    assert_eq!(sandbox.running(&big)["exec_vnode"], "(n1:ncpus=2)");
    let all = sandbox.submit(&["-l", "select=2:ncpus=2"], "sleep 60\n");
    let night = sandbox.submit(&["-q", "night"], "sleep 60\n");
    let held = sandbox.submit(&["-h"], "sleep 60\n");
    let reason = "Not Running: Insufficient amount of resource: ncpus (R: 4 A: 2 T: 4)";
    refused_exactly(
        sandbox.run("qrun", &[&all]),
        2,
        &format!("qrun: {reason} {all}"),
    );
    assert_silent(sandbox.run("qrun", &["-a", &all]));
    assert_silent(sandbox.run("qrun", &["-H", "(n2:ncpus=1)", &night]));
    assert_eq!(sandbox.running(&night)["exec_vnode"], "(n2:ncpus=1)");
    refused_exactly(
        sandbox.run("qrun", &["-H", "nosuch", &held]),
        2,
        "qrun: Unknown node  nosuch",
    );
    let full = "qrun: Not Running: Insufficient amount of resource: ncpus (R: 1 A: 0 T: 4)";
    refused_exactly(
        sandbox.run("qrun", &["-H", "n1", &held]),
        2,
        &format!("{full} {held}"),
    );
    assert_silent(sandbox.run("qrun", &[&held]));
    let job = sandbox.running(&held);
    assert_eq!(
        (job["exec_vnode"].as_str(), job["Hold_Types"].as_str()),
        (Some("(n2:ncpus=1)"), Some("u"))
    );
    refused_exactly(
        sandbox.run("qrun", &[&held]),
        2,
        &format!("qrun: Request invalid for state of job {held}"),
    );
    refused_exactly(
        sandbox.run("qrun", &["999"]),
        2,
        "qrun: Unknown Job Id 999.head",
    );
    assert_eq!(sandbox.run("qrun", &[]).code, 1);
    // The requeued job is held again, and may start on its previous node.
    assert_silent(sandbox.run("qrerun", &[&held]));
    sandbox.until("the job to be held", || {
        (sandbox.state(&held) == "H").then_some(())
    });
    assert_silent(sandbox.run("qrun", &["-H", "-", &held]));
    assert_eq!(sandbox.running(&held)["run_count"], 2);
    let output = sandbox.run("tracejob", &[&held]).ok();
    assert!(
        [1, 2]
            .iter()
            .all(|attempt| output.contains(&format!("Job run, attempt {attempt}, "))),
        "{output}"
    );
    assert_eq!(sandbox.state(&all), "Q", "no resource is allocated twice");
}

#[test]
fn only_owners_and_operators_may_control_jobs() {
    let Some([ann, bob]) = two_users("control") else {
        return;
    };
    let sandbox = head("shared = true");
    for folder in [sandbox.home().parent().unwrap(), &sandbox.home()] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    sandbox.run("schedd", &[]).ok();
    let runs = ann.submit(&sandbox, &[], "sleep 60\n");
    sandbox.running(&runs);
    let [one, two] = [0; 2].map(|_| ann.submit(&sandbox, &["-h"], "true\n"));
    let assert_refused = |command: &str, arguments: &[&str], code: i32| {
        let done = bob.run(&sandbox, command, arguments);
        assert!(
            done.code == code && done.err.contains("Unauthorized Request  "),
            "{command}: {done:?}"
        );
    };
    assert_refused("qmove", &["night", &one], 159);
    assert_refused("qmsg", &["boo", &runs], 159);
    assert_refused("qorder", &[&one, &two], 159);
    assert_refused("qrun", &[&one], 2);
    assert_refused("qrun", &["999"], 2);
    let done = ann.run(&sandbox, "qrun", &[&one]);
    assert_eq!(
        (done.code, done.err),
        (2, format!("qrun: Unauthorized Request  {one}\n"))
    );
    assert_silent(ann.run(&sandbox, "qorder", &[&one, &two]));
    assert_silent(ann.run(&sandbox, "qmsg", &["hi", &runs]));
    assert_silent(sandbox.run("qrun", &[&one]));
}

/// Number of rows in a table of the spool that meet a condition.
fn rows(sandbox: &Sandbox, table: &str, condition: &str) -> i64 {
    let spool = rusqlite::Connection::open(sandbox.home().join("spool/spool.db")).unwrap();
    let sql = format!("SELECT count(*) FROM {table} WHERE {condition}");
    spool.query_row(&sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn jobs_purged_from_the_history_leave_no_data() {
    let sandbox = head("history = \"1s\"");
    let held = sandbox.submit(&["-h", "-v", "A=1"], "echo kept\n");
    let id = sandbox.submit(&["-v", "A=2"], "echo over\n");
    sandbox.until("the job to be purged", || {
        (rows(&sandbox, "job", &format!("id = {}", number(&id))) == 0).then_some(())
    });
    let events = || rows(&sandbox, "event", &format!("job = {}", number(&id)));
    sandbox.until("its events to be purged", || (events() == 0).then_some(()));
    refused_exactly(
        sandbox.run("qstat", &["-x", &id]),
        153,
        &format!("qstat: Unknown Job Id {id}"),
    );
    assert_eq!(
        rows(&sandbox, "blob", "1"),
        2,
        "the script and the environment of the held job"
    );
    assert_eq!(sandbox.state(&held), "H");
}

#[test]
fn purging_a_job_keeps_only_data_that_other_jobs_need() {
    let sandbox = head("");
    let [one, same, other] = [
        ("A=1", "echo x\n"),
        ("A=1", "echo x\n"),
        ("A=1", "echo y\n"),
    ]
    .map(|(variable, script)| sandbox.submit(&["-v", variable], script));
    for id in [&one, &same, &other] {
        sandbox.ended(id);
    }
    assert_eq!(
        rows(&sandbox, "blob", "1"),
        3,
        "two scripts and one environment"
    );
    assert_silent(sandbox.run("qdel", &["-x", &one, &other]));
    sandbox.until("the second script to be purged", || {
        (rows(&sandbox, "blob", "1") == 2).then_some(())
    });
    assert_silent(sandbox.run("qdel", &["-x", &same]));
    sandbox.until("the remaining data to be purged", || {
        (rows(&sandbox, "blob", "1") == 0).then_some(())
    });
    assert_eq!(
        (rows(&sandbox, "job", "1"), rows(&sandbox, "event", "1")),
        (0, 0)
    );
}

#[test]
fn without_history_a_finished_job_is_unknown() {
    let sandbox = head("history = \"0s\"");
    let done = sandbox.run_with_input("qsub", &["-W", "block=true"], "exit 7\n");
    assert_eq!(done.code, 7, "a blocking qsub still gets the exit status");
    let id = done.out.trim_end().to_string();
    refused_exactly(
        sandbox.run("qstat", &[&id]),
        153,
        &format!("qstat: Unknown Job Id {id}"),
    );
    let none = "PBS is not configured to maintain job history";
    refused_exactly(
        sandbox.run("qstat", &["-x", &id]),
        0,
        &format!("qstat: {none} {id}"),
    );
    refused_exactly(sandbox.run("qstat", &["-x"]), 0, &format!("qstat: {none} "));
    refused_exactly(sandbox.run("qstat", &["-H"]), 0, &format!("qstat: {none} "));
    refused_exactly(
        sandbox.run("qselect", &["-x"]),
        0,
        &format!("qselect: {none}"),
    );
    refused_exactly(
        sandbox.run("qdel", &[&id]),
        153,
        &format!("qdel: Unknown Job Id {id}"),
    );
    refused_exactly(
        sandbox.run("qdel", &["-x", &id]),
        153,
        &format!("qdel: Unknown Job Id {id}"),
    );
    let live = sandbox.submit(&["-h"], "true\n");
    assert!(sandbox.run("qstat", &[&live]).ok().contains(&live));
    assert!(
        sandbox
            .run("tracejob", &[&id])
            .err
            .contains("Couldn't find Job Id")
    );
}

#[test]
fn a_node_shows_when_it_was_last_used() {
    let sandbox = head("");
    let id = sandbox.submit(&[], "true\n");
    sandbox.ended(&id);
    let node = || {
        let out = sandbox.run("pbsnodes", &["-a", "-F", "json"]).ok();
        let document: serde_json::Value = serde_json::from_str(&out).unwrap();
        document["nodes"]
            .as_object()
            .unwrap()
            .values()
            .next()
            .unwrap()
            .clone()
    };
    let name = node()["resources_available"]["host"]
        .as_str()
        .unwrap()
        .to_string();
    // The time is stored only when another change of the node is stored.
    sandbox.run("pbsnodes", &["-C", "swept", &name]).ok();
    let used = node()["last_used_time"].as_i64().unwrap();
    let now = chrono::Utc::now().timestamp();
    assert!((now - 60..=now + 1).contains(&used), "{used} at {now}");
}

#[test]
fn qalter_refuses_invalid_requests_with_the_messages_of_qsub() {
    let queues = "[server]\nname = \"head\"\n[[queue]]\nname = \"workq\"\n[[queue]]\nname = \"small\"\n\
                  resources_max = { ncpus = 2, walltime = \"1:00:00\" }\n";
    let sandbox = Sandbox::configured(queues);
    for (queue, request) in [
        ("workq", "ncpus=100000"),
        ("workq", "mem=5000tb"),
        ("workq", "select=2:ncpus=100000"),
        ("workq", "select=1:host=nosuch"),
        ("small", "ncpus=3"),
        ("small", "walltime=2:00:00"),
        ("workq", "ncpus=abc"),
        ("workq", "foo=1"),
    ] {
        let id = sandbox
            .run("qsub", &["-h", "-q", queue, "--", "/bin/true"])
            .line();
        let before = sandbox.job(&id)["Resource_List"].clone();
        let submitted = sandbox.run("qsub", &["-q", queue, "-l", request, "--", "/bin/true"]);
        let altered = sandbox.run("qalter", &["-l", request, &id]);
        assert_ne!(submitted.code, 0, "{request}: {submitted:?}");
        // The first line of qalter ends with the job id; a hint can follow.
        let expected = submitted.err.replace("qsub: ", "qalter: ");
        let expected = expected.replacen('\n', &format!(" {id}\n"), 1);
        assert_eq!(
            (altered.code, altered.err),
            (submitted.code, expected),
            "{request}"
        );
        assert_eq!(sandbox.job(&id)["Resource_List"], before, "{request}");
        assert_silent(sandbox.run("qalter", &["-N", "other", "-l", "walltime=60", &id]));
    }
}

/// If the site accepts jobs that can never run, they may also be altered.
#[test]
fn a_job_that_can_never_run_may_be_altered_if_the_site_accepts_it() {
    let sandbox = Sandbox::configured("[server]\nname = \"head\"\nrefuse_impossible = false\n");
    let id = sandbox
        .run("qsub", &["-l", "ncpus=100000", "--", "/bin/true"])
        .line();
    assert_silent(sandbox.run("qalter", &["-l", "ncpus=200000", &id]));
}
