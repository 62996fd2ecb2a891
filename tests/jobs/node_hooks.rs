//! Programs of the site that run around jobs on their nodes: hooks, and scripts with PBS's
//! arguments.

mod periodic;

use crate::support::installation::shared;
use crate::support::people::people;
use crate::support::sandbox::{Sandbox, kill};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Directory of the site's programs and their records.
struct Site {
    folder: TempDir,
}

impl Site {
    fn new() -> Site {
        let folder = tempfile::Builder::new()
            .prefix("lanai-site-")
            .tempdir()
            .unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        Site { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, body: &str) -> String {
        let path = self.path(name);
        fs::write(
            &path,
            format!("#!/bin/sh\ncd {}\n{body}\n", self.folder.path().display()),
        )
        .unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    /// Configuration of a `[[hook]]` that runs this script.
    fn hook(&self, name: &str, events: &[&str], more: &str, body: &str) -> String {
        let command = self.program(name, body);
        format!(
            "[[hook]]\nname = \"{name}\"\nevent = {events:?}\ncommand = \"{command}\"\n{more}\n"
        )
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn touch(&self, name: &str) {
        fs::write(self.path(name), "").unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    fn await_file(&self, sandbox: &Sandbox, name: &str) {
        sandbox.until(name, || self.path(name).exists().then_some(()));
    }
}

/// Script that records its input and the order of events.
const RECORD: &str = "cat > $PBS_HOOK_EVENT.json; echo \"$PBS_HOOK_EVENT\" >> order";
const EVENTS: [&str; 4] = [
    "execjob_begin",
    "execjob_prologue",
    "execjob_epilogue",
    "execjob_end",
];
const FAST_RETRY: &str = "[launch]\nretry = \"1s\"\nretry_max = \"1s\"\n";

fn comment(sandbox: &Sandbox, id: &str) -> String {
    sandbox.job(id)["comment"]
        .as_str()
        .unwrap_or_default()
        .to_string()
}

/// Waits until the job's comment contains this text.
#[track_caller]
fn await_comment(sandbox: &Sandbox, id: &str, text: &str) -> String {
    sandbox.until(text, || {
        Some(comment(sandbox, id)).filter(|comment| comment.contains(text))
    })
}

fn node(sandbox: &Sandbox) -> Value {
    let out = sandbox.run("pbsnodes", &["-a", "-F", "json"]).out;
    let document: Value = serde_json::from_str(&out).unwrap_or_default();
    document["nodes"]
        .as_object()
        .and_then(|nodes| nodes.values().next().cloned())
        .unwrap_or_default()
}

#[track_caller]
fn await_offline(sandbox: &Sandbox, why: &str) {
    sandbox.until("the node to become offline", || {
        let node = node(sandbox);
        let is_out = node["state"]
            .as_str()
            .is_some_and(|state| state.contains("offline"));
        (is_out
            && node["comment"]
                .as_str()
                .is_some_and(|comment| comment.contains(why)))
        .then_some(())
    });
}

#[test]
fn hooks_and_scripts_run_in_order_with_the_data_of_the_job() {
    let site = Site::new();
    let script = |name: &str| {
        site.program(
            name,
            &format!("echo {name} >> order; printf '%s\\n' \"$@\" > {name}.args"),
        )
    };
    let config = format!(
        "[launch]\nprologue = \"{}\"\nepilogue = \"{}\"\n{}",
        script("prologue"),
        script("epilogue"),
        site.hook("keep", &EVENTS, "", RECORD)
    );
    let sandbox = Sandbox::configured(&config);
    let order = site.path("order");
    let id = sandbox.submit(
        &[
            "-v",
            "GIVEN=yes",
            "-N",
            "named",
            "-A",
            "physics",
            "-l",
            "walltime=1:00:00",
        ],
        &format!("echo job >> {}; exit 3", order.display()),
    );
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 3);
    let expected =
        "execjob_begin\nexecjob_prologue\nprologue\njob\nexecjob_epilogue\nepilogue\nexecjob_end\n";
    assert_eq!(site.read("order"), expected);
    for event in EVENTS {
        let input = site.json(&format!("{event}.json"));
        assert_eq!(
            (&input["event"], &input["hook"]),
            (&event.into(), &"keep".into())
        );
        assert_eq!(
            (&input["job"]["id"], &input["job"]["Job_Name"]),
            (&id.as_str().into(), &"named".into())
        );
        assert_eq!(input["job"]["Variable_List"]["GIVEN"], "yes");
        assert_eq!(input["job"]["Resource_List"]["walltime"], "01:00:00");
        assert_eq!(input["job"]["exec_vnode"], job["exec_vnode"]);
        let is_after = ["execjob_epilogue", "execjob_end"].contains(&event);
        assert_eq!(
            input["job"]["Exit_status"],
            if is_after { 3.into() } else { Value::Null },
            "{event}"
        );
        assert_eq!(
            input["job"]["resources_used"]["walltime"].is_string(),
            is_after,
            "{event}"
        );
        assert_eq!(input["job"]["session_id"].is_number(), is_after, "{event}");
    }
    let [prologue, epilogue] = ["prologue.args", "epilogue.args"].map(|name| site.read(name));
    let [before, after]: [Vec<&str>; 2] = [prologue.lines().collect(), epilogue.lines().collect()];
    assert_eq!((before.len(), after.len()), (7, 10), "{before:?} {after:?}");
    assert_eq!(
        (before[0], before[3], before[5], before[6]),
        (id.as_str(), "named", "workq", "physics")
    );
    assert!(
        before[4].contains("walltime=01:00:00") && before[4] == after[5],
        "{before:?}"
    );
    assert_eq!(after[..4], before[..4]);
    assert_eq!(after[4], job["session_id"].to_string());
    assert!(
        after[6].contains("cput=") && after[7..] == ["workq", "physics", "3"],
        "{after:?}"
    );
}

#[test]
fn a_rejecting_hook_requeues_the_job_with_its_message() {
    for event in ["execjob_begin", "execjob_prologue"] {
        let site = Site::new();
        let gate = site.hook(
            "gate",
            &[event],
            "",
            "[ -e shut ] && echo '{\"reject\": \"not today\"}'; true",
        );
        let end = site.hook("end", &["execjob_end"], "", "cat > end.json");
        site.touch("shut");
        let sandbox = Sandbox::configured(&format!("{FAST_RETRY}{gate}{end}"));
        let id = sandbox.submit(&[], &format!("echo ran >> {}", site.path("ran").display()));
        let message = await_comment(&sandbox, &id, &format!("{event} hook 'gate': not today"));
        assert!(
            message.starts_with("Not Running: Job start failed"),
            "{message}"
        );
        assert_eq!(
            (site.read("ran").as_str(), sandbox.state(&id).as_str()),
            ("", "Q")
        );
        assert!(
            site.json("end.json")["job"]["Exit_status"].is_null(),
            "the end hook also runs for a job that did not start"
        );
        assert_eq!(node(&sandbox)["state"], "free");
        site.remove("shut");
        assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
        assert_eq!(site.read("ran"), "ran\n");
    }
}

#[test]
fn a_job_that_hooks_keep_rejecting_is_held() {
    let site = Site::new();
    let gate = site.hook(
        "gate",
        &["execjob_begin"],
        "",
        "echo '{\"reject\": \"never\"}'",
    );
    let sandbox = Sandbox::configured(&format!("{FAST_RETRY}max_failed_starts = 2\n{gate}"));
    let id = sandbox.submit(&[], "true");
    await_comment(
        &sandbox,
        &id,
        "job held, too many failed attempts to run: execjob_begin hook 'gate': never",
    );
    assert_eq!(sandbox.state(&id), "H");
}

#[test]
fn a_failing_hook_requeues_the_job_and_may_offline_the_node() {
    let site = Site::new();
    let sick = site.hook(
        "sick",
        &["execjob_prologue"],
        "fail_action = \"offline_vnodes\"",
        "echo no disk >&2; exit 7",
    );
    let sandbox = Sandbox::configured(&format!("{FAST_RETRY}{sick}"));
    let id = sandbox.submit(&[], "true");
    let why =
        "execjob_prologue hook 'sick' failed: it ended with status 7; standard error: no disk";
    await_offline(&sandbox, why);
    assert_ne!(sandbox.state(&id), "F");
    site.program("sick", "true");
    let name = node(&sandbox)["Mom"]
        .as_str()
        .unwrap()
        .split('.')
        .next()
        .unwrap()
        .to_string();
    sandbox.run("pbsnodes", &["-r", &name]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
}

#[test]
fn a_hook_failure_after_the_job_is_reported_and_changes_no_result() {
    let site = Site::new();
    let epilogue = site.hook(
        "late",
        &["execjob_epilogue"],
        "",
        "echo '{\"reject\": \"disk left full\"}'",
    );
    let end = site.hook(
        "sick",
        &["execjob_end"],
        "fail_action = \"offline_vnodes\"",
        "echo rubbish",
    );
    let sandbox = Sandbox::configured(&format!("{epilogue}{end}"));
    let id = sandbox.submit(&[], "exit 4");
    let job = sandbox.ended(&id);
    assert_eq!(job["Exit_status"], 4);
    let message = job["comment"].as_str().unwrap();
    assert!(
        message.contains("execjob_epilogue hook 'late': disk left full"),
        "{message}"
    );
    assert!(
        message.contains("execjob_end hook 'sick' failed: its output is not a valid answer"),
        "{message}"
    );
    await_offline(&sandbox, "execjob_end hook 'sick' failed");
}

#[test]
fn a_hanging_hook_is_killed_with_its_child_processes() {
    let site = Site::new();
    let body = "sleep 300 & echo $! > child; touch started; sleep 300";
    let slow = site.hook("slow", &["execjob_begin"], "alarm = \"1s\"", body);
    let sandbox = Sandbox::configured(&format!("{FAST_RETRY}{slow}"));
    let id = sandbox.submit(&[], "true");
    await_comment(
        &sandbox,
        &id,
        "execjob_begin hook 'slow' failed: it took longer than 1 s",
    );
    await_exit(&sandbox, site.read("child").trim().parse().unwrap());
    sandbox.run("qdel", &[&id]).ok();
    sandbox.ended(&id);
}

#[track_caller]
fn await_exit(sandbox: &Sandbox, pid: i32) {
    sandbox.until("the end of a process", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with('Z'))
            .then_some(())
    });
}

#[test]
fn deleting_a_job_ends_the_hook_that_runs_before_it() {
    for event in ["execjob_begin", "execjob_prologue"] {
        let site = Site::new();
        let slow = site.hook(
            "slow",
            &[event],
            "",
            "echo $$ > pid.new; mv pid.new pid; sleep 300",
        );
        let end = site.hook("end", &["execjob_end"], "", "cat > end.new; mv end.new end");
        let sandbox = Sandbox::configured(&format!("{slow}{end}"));
        let id = sandbox.submit(&[], "true");
        site.await_file(&sandbox, "pid");
        let deleted_at = Instant::now();
        sandbox.run("qdel", &[&id]).ok();
        assert_eq!(sandbox.ended(&id)["Exit_status"], 271);
        assert!(
            deleted_at.elapsed() < Duration::from_secs(15),
            "{event}: {:?}",
            deleted_at.elapsed()
        );
        await_exit(&sandbox, site.read("pid").trim().parse().unwrap());
        assert_eq!(site.json("end")["job"]["Exit_status"], 271, "{event}");
    }
}

#[test]
fn deleting_a_job_does_not_end_its_epilogue_hook() {
    let site = Site::new();
    let body = "touch started; while [ -e wait ]; do sleep 0.02; done; touch tidy";
    let epilogue = site.hook("slow", &["execjob_epilogue"], "", body);
    site.touch("wait");
    let sandbox = Sandbox::configured(&epilogue);
    let id = sandbox.submit(&[], "true");
    site.await_file(&sandbox, "started");
    sandbox.run("qdel", &[&id]).ok();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!site.path("tidy").exists());
    site.remove("wait");
    let job = sandbox.ended(&id);
    assert!(site.path("tidy").exists());
    assert_eq!(
        (job["Exit_status"].as_i64(), job["substate"].as_i64()),
        (Some(0), Some(92)),
        "{job}"
    );
}

/// No process of the job runs yet that could write the message.
#[test]
fn qmsg_is_refused_while_a_prologue_hook_runs() {
    let site = Site::new();
    let gate = site.hook(
        "gate",
        &["execjob_prologue"],
        "",
        "touch started; while [ ! -e go ]; do sleep 0.02; done",
    );
    let sandbox = Sandbox::configured(&gate);
    let id = sandbox.submit(&[], "true");
    site.await_file(&sandbox, "started");
    assert_eq!(sandbox.state(&id), "R");
    let refused = sandbox.run("qmsg", &["early", &id]);
    assert_eq!(
        (refused.code, refused.err),
        (
            168,
            format!("qmsg: Request invalid for state of job {id}\n")
        )
    );
    site.touch("go");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
}

#[test]
fn a_hook_survives_daemon_restarts_and_reruns_after_its_shepherd_dies() {
    for daemon in ["noded", "schedd", "lanai-shepherd"] {
        let site = Site::new();
        let body = "echo run >> runs; while [ -e wait ]; do sleep 0.02; done";
        let gate = site.hook("gate", &["execjob_prologue"], "", body);
        site.touch("wait");
        let sandbox = Sandbox::configured(&format!("{FAST_RETRY}{gate}"));
        let id = sandbox.submit(&[], &format!("echo ran >> {}", site.path("ran").display()));
        site.await_file(&sandbox, "runs");
        sandbox.kill(daemon);
        if daemon == "schedd" {
            sandbox.run("schedd", &[]).ok();
        }
        let is_repeated = daemon == "lanai-shepherd";
        if is_repeated {
            sandbox.until("another run of the hook", || {
                (site.read("runs").lines().count() == 2).then_some(())
            });
        }
        site.remove("wait");
        assert_eq!(sandbox.ended(&id)["Exit_status"], 0, "{daemon}");
        assert_eq!(
            (site.read("ran").as_str(), site.read("runs").lines().count()),
            ("ran\n", 1 + usize::from(is_repeated))
        );
    }
}

#[test]
fn hooks_change_the_environment_of_a_job_and_nothing_else() {
    let site = Site::new();
    let begin = r#"echo '{"set": {"Variable_List.A": "one two", "Variable_List.PBS_JOBID": "forged", "Variable_List.N": 5}}'"#;
    let prologue = r#"grep -q '"A":"one two"' && echo '{"set": {"Variable_List.B": null}}'"#;
    let hooks = [
        site.hook("a", &["execjob_begin"], "", begin),
        site.hook("b", &["execjob_prologue"], "", prologue),
    ];
    let sandbox = Sandbox::configured(&format!("{FAST_RETRY}{}", hooks.concat()));
    let id = sandbox.submit(
        &["-v", "A=0,B=0"],
        "echo \"[$A] [${B-none}] $N $PBS_JOBID\"",
    );
    sandbox.ended(&id);
    let output = sandbox.read(&format!("STDIN.o{}", id.split('.').next().unwrap()));
    assert_eq!(output, format!("[one two] [none] 5 {id}\n"));
    site.program("a", r#"echo '{"set": {"queue": "other"}}'"#);
    let id = sandbox.submit(&[], "true");
    await_comment(
        &sandbox,
        &id,
        "a hook that runs before the job can set only Variable_List.NAME, not `queue`",
    );
}

#[test]
fn hooks_run_in_order_until_the_first_rejects() {
    let site = Site::new();
    let last = site.hook(
        "last",
        &["execjob_begin"],
        "order = 3",
        "echo last >> order",
    );
    let no = site.hook(
        "no",
        &["execjob_begin"],
        "order = 2",
        "echo no >> order; echo '{\"accept\": false}'",
    );
    let first = site.hook("first", &["execjob_begin"], "", "echo first >> order");
    let off = site.hook(
        "off",
        &["execjob_begin"],
        "enabled = false",
        "echo off >> order",
    );
    let sandbox = Sandbox::configured(&format!("[launch]\nretry = \"1h\"\n{last}{no}{first}{off}"));
    let id = sandbox.submit(&[], "true");
    await_comment(
        &sandbox,
        &id,
        "execjob_begin hook 'no': rejected by a site hook",
    );
    assert_eq!(site.read("order"), "first\nno\n");
}

#[test]
fn changed_hooks_apply_to_the_next_job_after_a_reload() {
    let site = Site::new();
    let sandbox =
        Sandbox::configured(&site.hook("keep", &["execjob_begin"], "", "echo run >> runs"));
    sandbox.ended(&sandbox.submit(&[], "true"));
    fs::write(
        sandbox.home().join("lanai.toml"),
        "[launch]\nlogin = false\n",
    )
    .unwrap();
    kill(sandbox.pid_of("schedd").unwrap(), 1);
    sandbox.until("the reload", || {
        sandbox.log().contains("reloaded: ").then_some(())
    });
    sandbox.ended(&sandbox.submit(&[], "true"));
    assert_eq!(site.read("runs"), "run\n");
}

#[test]
fn a_hook_with_user_pbsuser_runs_as_the_job_owner() {
    let Some([ann]) = people("hook") else { return };
    let site = Site::new();
    let own = format!(
        "{{ id -u; id -g; id -G; pwd; env; }} > {}/output",
        ann.home().display()
    );
    let hooks = [
        site.hook(
            "own",
            &["execjob_prologue"],
            "user = \"pbsuser\"",
            &own.replace("pwd; ", ""),
        ),
        site.hook("site", &["execjob_prologue"], "", "id -u > site.id"),
    ];
    let sandbox = shared(&hooks.concat());
    let id = ann.submit(&sandbox, &["-v", "SECRET=x"], "id -G > groups");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    let output = ann.read("output");
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[..2], [ann.uid.to_string(), ann.gid.to_string()]);
    let groups = [lines[2].to_string(), ann.read("groups").trim().to_string()].map(|line| {
        let mut numbers: Vec<u32> = line
            .split(' ')
            .map(|number| number.parse().unwrap())
            .collect();
        numbers.sort_unstable();
        numbers
    });
    assert_eq!(groups[0], groups[1]);
    assert!(
        output.contains(&format!("PBS_JOBID={id}"))
            && output.contains("PBS_HOOK_EVENT=execjob_prologue"),
        "{output}"
    );
    assert!(
        !output.contains("SECRET") && !output.contains("COOKIE"),
        "{output}"
    );
    assert_eq!(site.read("site.id"), "0\n");
}

#[test]
fn the_exit_status_of_the_prologue_starts_aborts_or_requeues_a_job() {
    let site = Site::new();
    let prologue = site.program("prologue", "exit $(cat status)");
    let set = |status: &str| fs::write(site.path("status"), status).unwrap();
    let sandbox = Sandbox::configured(&format!("{FAST_RETRY}prologue = \"{prologue}\"\n"));
    set("1");
    let aborted = sandbox.submit(&[], "true");
    let job = sandbox.ended(&aborted);
    assert_eq!(job["Exit_status"], -1);
    assert!(
        job["comment"]
            .as_str()
            .unwrap()
            .contains("prologue ended with status 1"),
        "{job}"
    );
    set("2");
    let id = sandbox.submit(&[], "true");
    await_comment(&sandbox, &id, "it ended with status 2");
    set("0");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
}

#[test]
fn an_epilogue_that_exceeds_its_timeout_is_reported() {
    let site = Site::new();
    let epilogue = site.program("epilogue", "sleep 300");
    let sandbox = Sandbox::configured(&format!(
        "[launch]\nscript_timeout = \"1s\"\nepilogue = \"{epilogue}\"\n"
    ));
    let job = sandbox.ended(&sandbox.submit(&[], "true"));
    assert_eq!(job["Exit_status"], 0);
    assert!(
        job["comment"]
            .as_str()
            .unwrap()
            .contains("it took longer than 1 s"),
        "{job}"
    );
}

#[test]
fn a_missing_program_is_reported() {
    let hook =
        "[[hook]]\nname = \"gone\"\nevent = \"execjob_begin\"\ncommand = \"/no/such/hook\"\n";
    let sandbox = Sandbox::configured(&format!("{FAST_RETRY}{hook}"));
    assert!(!Path::new("/no/such/hook").exists());
    let id = sandbox.submit(&[], "true");
    await_comment(
        &sandbox,
        &id,
        "execjob_begin hook 'gone' failed: /no/such/hook cannot be run: No such file",
    );
}
