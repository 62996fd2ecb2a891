//! Hooks run by schedd: they refuse, change or accept requests. A hook that is slow, fails or hangs
//! delays no other request.

mod qmgr;

use crate::support::sandbox::{Done, Sandbox, finish, kill};
use lanai::model::text::Text;
use lanai::wire::frame;
use lanai::wire::message::{ClientRequest, NewJob, Payload, Reply};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A hook: its name, further lines of its section, and its program, which has its input in `$in`.
struct Hook<'a>(&'a str, &'a str, &'a str);

/// Writes a configuration with these hooks, in addition to `rest`.
fn configure(sandbox: &Sandbox, rest: &str, hooks: &[Hook]) {
    let mut config = format!("{rest}\n");
    if !rest.contains("[launch]") {
        config.push_str("[launch]\nlogin = false\n");
    }
    for Hook(name, keys, body) in hooks {
        let program = sandbox.script(
            &format!("{name}.hook"),
            &format!("in=$(cat); printf '%s' \"$in\" > $0.in\n{body}\nexit 0"),
        );
        config.push_str(&format!(
            "[[hook]]\nname = \"{name}\"\ncommand = \"{}\"\n{keys}\n",
            program.display()
        ));
    }
    fs::write(sandbox.home().join("lanai.toml"), config).unwrap();
}

fn with_hooks(hooks: &[Hook]) -> Sandbox {
    let sandbox = Sandbox::new();
    configure(&sandbox, "", hooks);
    sandbox
}

/// Last input of a hook.
fn hook_input(sandbox: &Sandbox, hook: &str) -> Value {
    serde_json::from_str(&sandbox.read(&format!("{hook}.hook.in"))).unwrap()
}

fn qsub(sandbox: &Sandbox, arguments: &[&str]) -> Done {
    sandbox.run_with_input("qsub", arguments, "sleep 60\n")
}

fn start_qsub(sandbox: &Sandbox, arguments: &[&str]) -> Child {
    let mut command = sandbox.command("qsub");
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"sleep 60\n")
        .unwrap();
    child
}

const BY_ACCOUNT: &str = r#"case "$in" in
    *'"Account_Name":"bad"'*) echo '{"reject": "no such account"}';;
    *'"Account_Name":"boom"'*) echo 'no such table' >&2; exit 3;;
    *'"Account_Name":"odd"'*) echo '{"set": {"Resource_List.walltime": "soon"}}';;
    *'"Account_Name":"wide"'*) echo '{"set": {"Resource_List.walltime": "0:07:00", "Priority": 9, "Variable_List.SEEN": "by hq"}}';;
    *'"Account_Name":"slow"'*) sleep 30;;
    *'"Account_Name":"late"'*) sleep 1;;
esac"#;

#[test]
fn a_hook_refuses_changes_or_accepts_a_submission() {
    let second =
        r#"case "$in" in *'"walltime":"00:07:00"'*) echo '{"set": {"project": "checked"}}';; esac"#;
    let sandbox = with_hooks(&[
        Hook("second", "event = \"queuejob\"\norder = 2", second),
        Hook("hq", "event = [\"queuejob\"]", BY_ACCOUNT),
    ]);
    let good = qsub(
        &sandbox,
        &["-A", "good", "-N", "one", "-l", "ncpus=1", "-v", "MINE=a b"],
    )
    .line();
    assert!(good.starts_with("1."), "{good}");
    let input = hook_input(&sandbox, "hq");
    assert_eq!(
        (&input["event"], &input["hook"], &input["script"]),
        (&json!("queuejob"), &json!("hq"), &json!("sleep 60\n"))
    );
    assert_eq!(
        (
            &input["job"]["Job_Name"],
            &input["job"]["Resource_List"]["ncpus"]
        ),
        (&json!("one"), &json!(1))
    );
    assert_eq!(
        (&input["job"]["Variable_List"]["MINE"], &input["job"]["id"]),
        (&json!("a b"), &Value::Null)
    );
    assert!(
        input["requestor"].is_string() && input["requestor_host"].is_string(),
        "{input}"
    );

    let refused = qsub(&sandbox, &["-A", "bad"]);
    assert_eq!(
        (refused.code, refused.err.as_str()),
        (32, "qsub: no such account\n")
    );
    let failed = qsub(&sandbox, &["-A", "boom"]);
    let text = "qsub: request rejected as filter hook 'hq' encountered an exception. Please inform Admin\n";
    assert_eq!((failed.code, failed.err.as_str()), (32, text));
    let log = sandbox.log();
    assert!(
        log.contains("hook hq has failed: it ended with status 3; standard error: no such table"),
        "{log}"
    );
    let odd = qsub(&sandbox, &["-A", "odd"]);
    let text = "qsub: hook 'hq': Illegal attribute or resource value Resource_List.walltime\n";
    assert_eq!((odd.code, odd.err.as_str()), (32, text));

    let wide = qsub(&sandbox, &["-A", "wide", "-l", "walltime=60", "-p", "2"]).line();
    assert!(
        wide.starts_with("2."),
        "a refused submission uses no job number: {wide}"
    );
    let job = sandbox.job(&wide);
    assert_eq!(
        (&job["Resource_List"]["walltime"], &job["Priority"]),
        (&json!("00:07:00"), &json!(9)),
        "{job}"
    );
    assert_eq!(
        (&job["Variable_List"]["SEEN"], &job["project"]),
        (&json!("by hq"), &json!("checked")),
        "{job}"
    );
}

#[test]
fn invalid_submissions_and_dry_runs_run_no_hook_and_an_array_runs_one() {
    let count = "echo x >> count";
    let sandbox = with_hooks(&[Hook(
        "hq",
        "event = \"queuejob\"",
        &format!("cd $(dirname $0); {count}"),
    )]);
    assert_ne!(qsub(&sandbox, &["-q", "nowhere"]).code, 0);
    assert_ne!(qsub(&sandbox, &["-l", "walltime=x"]).code, 0);
    sandbox
        .run_with_input("qsub", &["--dry-run"], "true\n")
        .ok();
    assert!(!sandbox.file("count").exists());
    qsub(&sandbox, &["-J", "1-50"]).line();
    assert_eq!(sandbox.read("count"), "x\n");
    let input = hook_input(&sandbox, "hq");
    assert_eq!(input["job"]["array_indices_submitted"], "1-50");
}

#[test]
fn a_hanging_hook_blocks_no_other_client_and_times_out() {
    let sandbox = with_hooks(&[Hook(
        "hq",
        "event = \"queuejob\"\nalarm = \"5s\"",
        BY_ACCOUNT,
    )]);
    qsub(&sandbox, &["-A", "good"]).line();
    let (started, slow) = (Instant::now(), start_qsub(&sandbox, &["-A", "slow"]));
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..3 {
        let sent_at = Instant::now();
        qsub(&sandbox, &["-A", "good"]).line();
        sandbox.run("qstat", &[]).ok();
        assert!(
            sent_at.elapsed() < Duration::from_millis(2500),
            "{:?}",
            sent_at.elapsed()
        );
    }
    let slow = finish(slow.wait_with_output().unwrap());
    assert!(
        started.elapsed() >= Duration::from_secs(5) && started.elapsed() < Duration::from_secs(20)
    );
    assert_eq!(slow.code, 32, "{slow:?}");
    assert!(
        sandbox.log().contains("it took longer than 5 s"),
        "{}",
        sandbox.log()
    );
    sandbox.until("the end of the hook", || {
        sandbox.pid_of("hq.hook").is_none().then_some(())
    });
}

#[test]
fn a_hook_without_its_program_fails() {
    let sandbox = with_hooks(&[Hook("hq", "event = \"queuejob\"", "")]);
    fs::remove_file(sandbox.file("hq.hook")).unwrap();
    let refused = qsub(&sandbox, &[]);
    assert!(
        refused.code == 32
            && refused
                .err
                .contains("filter hook 'hq' encountered an exception"),
        "{refused:?}"
    );
    assert!(
        sandbox
            .log()
            .contains("hook hq has failed: the program cannot be run: No such file"),
        "{}",
        sandbox.log()
    );
}

#[test]
fn a_client_that_disconnects_during_a_hook_submits_no_job() {
    let sandbox = with_hooks(&[Hook("hq", "event = \"queuejob\"", BY_ACCOUNT)]);
    qsub(&sandbox, &["-A", "good"]).line();
    let mut slow = start_qsub(&sandbox, &["-A", "slow"]);
    sandbox.until("the running hook", || sandbox.pid_of("hq.hook"));
    slow.kill().unwrap();
    slow.wait().unwrap();
    sandbox.until("the end of the hook", || {
        sandbox.pid_of("hq.hook").is_none().then_some(())
    });
    assert!(qsub(&sandbox, &["-A", "good"]).line().starts_with("2."));
}

#[test]
fn killing_schedd_during_a_hook_neither_loses_nor_doubles_the_job() {
    let sandbox = with_hooks(&[Hook("hq", "event = \"queuejob\"", BY_ACCOUNT)]);
    qsub(&sandbox, &["-A", "good"]).line();
    let late = start_qsub(&sandbox, &["-A", "late", "-N", "late"]);
    sandbox.until("the running hook", || sandbox.pid_of("hq.hook"));
    sandbox.kill("schedd");
    let late = finish(late.wait_with_output().unwrap());
    let id = late.line();
    assert_eq!(sandbox.job(&id)["Job_Name"], "late");
    let all = sandbox.run("qselect", &["-N", "late"]).ok();
    assert_eq!(all.lines().collect::<Vec<_>>(), [id.as_str()]);
}

fn submission(number: u32) -> ClientRequest {
    let mut token = [0; 16];
    token[..4].copy_from_slice(&number.to_be_bytes());
    ClientRequest::Submit(Box::new(NewJob {
        token,
        settings: Vec::new(),
        payload: Payload::Script(b"true\n".to_vec()),
        environ: Vec::new(),
        inherited: Vec::new(),
        workdir: Text::from("/"),
        submit_host: "h".to_string(),
        arguments: Text::default(),
        defaults: String::new(),
        stored: None,
    }))
}

/// Sends all submissions at once and reads all replies.
fn submit_many(sandbox: &Sandbox, count: u32) -> Vec<Reply> {
    let mut stream = UnixStream::connect(sandbox.home().join("schedd.sock")).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        (0..count).for_each(|number| frame::write(&mut stream, &submission(number)).unwrap());
    });
    let replies = (0..count)
        .map(|_| frame::read(&mut reader).unwrap())
        .collect();
    writer.join().unwrap();
    replies
}

#[test]
fn hundreds_of_submissions_to_a_hook_delay_no_other_client() {
    let sandbox = with_hooks(&[Hook("hq", "event = \"queuejob\"", "sleep 0.02")]);
    sandbox.run("schedd", &[]).ok();
    let ids: BTreeSet<String> = std::thread::scope(|scope| {
        let submitter = scope.spawn(|| submit_many(&sandbox, 300));
        while !submitter.is_finished() {
            let sent_at = Instant::now();
            sandbox.run("qstat", &[]).ok();
            assert!(
                sent_at.elapsed() < Duration::from_millis(2500),
                "{:?}",
                sent_at.elapsed()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        let replies = submitter.join().unwrap().into_iter();
        replies
            .map(|reply| {
                if let Reply::Accepted { id, .. } = reply {
                    id
                } else {
                    panic!("{reply:?}")
                }
            })
            .collect()
    });
    assert_eq!(ids.len(), 300);
    // Repeated submissions return the same jobs and run no hook.
    let again = Instant::now();
    let same: BTreeSet<String> = submit_many(&sandbox, 300)
        .into_iter()
        .map(|reply| {
            if let Reply::Accepted { id, .. } = reply {
                id
            } else {
                panic!("{reply:?}")
            }
        })
        .collect();
    assert_eq!(same, ids);
    assert!(
        again.elapsed() < Duration::from_secs(8),
        "{:?}",
        again.elapsed()
    );
}

#[test]
fn the_number_of_requests_that_wait_for_hooks_is_limited() {
    let sandbox = with_hooks(&[Hook(
        "hq",
        "event = \"queuejob\"\nalarm = \"5m\"",
        "sleep 200",
    )]);
    sandbox.run("schedd", &[]).ok();
    let mut stream = UnixStream::connect(sandbox.home().join("schedd.sock")).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        (0..4010).for_each(|number| frame::write(&mut stream, &submission(number)).unwrap());
    });
    let Reply::Refused(refusal) = frame::read(&mut reader).unwrap() else {
        panic!("the request above the limit was accepted")
    };
    assert!(refusal.text.contains("too many requests wait"), "{refusal}");
    writer.join().unwrap();
    let programs = sandbox.pids_of("hq.hook").len();
    assert!((1..=16).contains(&programs), "{programs} at once");
    let sent_at = Instant::now();
    sandbox.run("qstat", &[]).ok();
    assert!(
        sent_at.elapsed() < Duration::from_millis(2500),
        "{:?}",
        sent_at.elapsed()
    );
    drop(reader);
    sandbox.until("the end of the hooks", || {
        sandbox.pids_of("hq.hook").is_empty().then_some(())
    });
}

#[test]
fn a_modifyjob_hook_sees_job_and_changes_and_refuses_or_changes_them() {
    let body = r#"case "$in" in
        *'"changes":{"Priority":"7"}'*) echo '{"reject": "seven is not for you"}';;
        *'"Resource_List.walltime"'*) echo '{"set": {"Resource_List.walltime": "120", "project": "longer"}}';;
    esac"#;
    let sandbox = with_hooks(&[Hook("hm", "event = \"modifyjob\"", body)]);
    let id = qsub(&sandbox, &["-h", "-N", "one", "-l", "walltime=60"]).line();
    assert!(
        !sandbox.file("hm.hook.in").exists(),
        "a submission runs no modifyjob hook"
    );
    let refused = sandbox.run("qalter", &["-p", "7", &id]);
    assert_eq!(refused.code, 32, "{refused:?}");
    assert!(refused.err.contains("seven is not for you"), "{refused:?}");
    assert_eq!(sandbox.job(&id)["Priority"], 0);
    sandbox.run("qalter", &["-l", "walltime=3600", &id]).ok();
    let input = hook_input(&sandbox, "hm");
    assert_eq!(
        (
            &input["job"]["Resource_List"]["walltime"],
            &input["job"]["id"]
        ),
        (&json!("00:01:00"), &json!(id))
    );
    assert_eq!(input["changes"], json!({"Resource_List.walltime": "3600"}));
    let job = sandbox.job(&id);
    assert_eq!(
        (&job["Resource_List"]["walltime"], &job["project"]),
        (&json!("00:02:00"), &json!("longer")),
        "{job}"
    );
    sandbox.run("qrls", &[&id]).ok();
    sandbox.running(&id);
}

#[test]
fn a_runjob_hook_defers_the_start_until_it_accepts() {
    let body = r#"cd $(dirname $0); [ -e open ] || echo '{"reject": "no licence is free"}'
        [ -e open ] && case "$in" in *'"Job_Name":"one"'*) echo '{"set": {"project": "licensed"}}';; esac"#;
    let sandbox = Sandbox::new();
    configure(
        &sandbox,
        "[launch]\nlogin = false\nretry = \"1s\"",
        &[Hook("hr", "event = \"runjob\"", body)],
    );
    let id = qsub(&sandbox, &["-N", "one", "-l", "ncpus=2"]).line();
    let job = sandbox.until("the refusal", || {
        Some(sandbox.job(&id))
            .filter(|job| job["comment"] == "Not Running: PBS Error: no licence is free")
    });
    assert_eq!(job["job_state"], "Q");
    let why = sandbox.run("qstat", &["--why", &id]).ok();
    assert!(
        why.contains("hook hr") && why.contains("no licence is free"),
        "{why}"
    );
    let input = hook_input(&sandbox, "hr");
    assert_eq!(
        (&input["event"], &input["job"]["id"]),
        (&json!("runjob"), &json!(id))
    );
    assert_eq!(input["nodes"].as_array().map(Vec::len), Some(1), "{input}");
    fs::write(sandbox.file("open"), "").unwrap();
    let job = sandbox.running(&id);
    assert_eq!(
        (&job["project"], &job["run_count"]),
        (&json!("licensed"), &json!(1)),
        "{job}"
    );
    assert!(
        job["comment"].as_str().unwrap().starts_with("Job run at "),
        "{job}"
    );
    let output = sandbox.run("tracejob", &[&id]).ok();
    assert!(
        output.contains("Start refused by hook hr: no licence is free"),
        "{output}"
    );
}

/// A running job is not preempted until the hooks have accepted the start of the preempting job.
#[test]
fn no_job_is_preempted_for_a_start_that_a_hook_refuses() {
    let body = r#"cd $(dirname $0); case "$in" in
        *'"Job_Name":"high"'*) [ -e open ] || echo '{"reject": "no licence is free"}';;
    esac"#;
    let sandbox = Sandbox::new();
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let node = host.split('.').next().unwrap();
    let rest = format!(
        "preset = \"qube\"\n[launch]\nlogin = false\nretry = \"1s\"\n[order]\nby = \"priority\"\n\
         user_priority = \"free\"\nlowest_is_best = false\n[preemption]\nmode = \"aggressive\"\n\
         [[node]]\nname = \"{node}\"\nncpus = 1"
    );
    configure(&sandbox, &rest, &[Hook("hr", "event = \"runjob\"", body)]);
    let low = qsub(&sandbox, &["-N", "low", "-l", "ncpus=1"]).line();
    sandbox.running(&low);
    let high = qsub(&sandbox, &["-N", "high", "-l", "ncpus=1", "-p", "10"]).line();
    let refused = "Not Running: PBS Error: no licence is free";
    sandbox.until("the refusal", || {
        Some(sandbox.job(&high)).filter(|job| job["comment"] == refused)
    });
    assert_eq!(hook_input(&sandbox, "hr")["nodes"], json!([node]));
    let job = sandbox.job(&low);
    assert_eq!(
        (&job["job_state"], &job["run_count"], &job["preempted"]),
        (&json!("R"), &json!(1), &Value::Null)
    );
    fs::write(sandbox.file("open"), "").unwrap();
    sandbox.running(&high);
    assert_eq!(sandbox.job(&low)["preempted"], 1);
}

#[test]
fn the_hook_runs_for_each_subjob_and_a_refusal_defers_the_array() {
    let body = "cd $(dirname $0); [ -e open ] || echo '{\"reject\": \"not yet\"}'; echo x >> count";
    let sandbox = Sandbox::new();
    configure(
        &sandbox,
        "[launch]\nlogin = false\nretry = \"1s\"",
        &[Hook("hr", "event = \"runjob\"", body)],
    );
    let id = sandbox.submit(&["-J", "1-3", "-l", "ncpus=1"], "true\n");
    sandbox.until("the refusal", || {
        Some(sandbox.job(&id)).filter(|job| job["comment"] == "Not Running: PBS Error: not yet")
    });
    assert_eq!(sandbox.state(&id), "Q");
    fs::write(sandbox.file("open"), "").unwrap();
    fs::remove_file(sandbox.file("count")).unwrap();
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 0, "{job}");
    assert!(
        !job["comment"].as_str().unwrap().contains("PBS Error"),
        "{job}"
    );
    assert!(sandbox.read("count").lines().count() >= 3);
}

#[test]
fn qrun_runs_the_hook_and_reports_its_refusal() {
    let body = "cd $(dirname $0); [ -e open ] || echo '{\"reject\": \"not now\"}'";
    let sandbox = with_hooks(&[Hook("hr", "event = \"runjob\"", body)]);
    let id = qsub(&sandbox, &["-h"]).line();
    sandbox.until("the node", || {
        sandbox
            .run("pbsnodes", &["-a"])
            .out
            .contains("state = free")
            .then_some(())
    });
    let refused = sandbox.run("qrun", &[&id]);
    assert_eq!(refused.err, format!("qrun: not now {id}\n"));
    assert_eq!(refused.code, 2, "the exit status of a refused qrun");
    fs::write(sandbox.file("open"), "").unwrap();
    sandbox.run("qrun", &[&id]).ok();
    sandbox.running(&id);
}

#[test]
fn hooks_are_added_and_disabled_by_a_reload() {
    let refuse = Hook(
        "hq",
        "event = [\"queuejob\", \"runjob\"]",
        "echo '{\"reject\": \"closed\"}'",
    );
    let sandbox = with_hooks(&[]);
    let first = qsub(&sandbox, &[]).line();
    sandbox.running(&first);
    configure(&sandbox, "", &[refuse]);
    kill(sandbox.pid_of("schedd").unwrap(), 1);
    sandbox.until("a refusal by the new hook", || {
        Some(qsub(&sandbox, &["-h"])).filter(|done| done.err == "qsub: closed\n")
    });
    configure(
        &sandbox,
        "",
        &[Hook(
            "hq",
            "event = \"queuejob\"\nenabled = false",
            "exit 1",
        )],
    );
    kill(sandbox.pid_of("schedd").unwrap(), 1);
    let last = sandbox
        .until("the hook to be disabled", || {
            Some(qsub(&sandbox, &[])).filter(|done| done.code == 0)
        })
        .line();
    sandbox.running(&last);
}
