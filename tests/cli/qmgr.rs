//! `qmgr` with running daemons: a change applies at once, survives restarts, and can be read back.

mod golden;
mod live_changes;
mod nodes;

use crate::support::installation::shared;
use crate::support::people::two_users;
use crate::support::root;
use crate::support::sandbox::{Done, Sandbox};
use golden::{Block, blocks};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// Commands that contain one of these texts are not compared, with the reasons.
const SKIPPED_COMMANDS: &[(&str, &str)] = &[
    (
        "hook hq",
        "hooks of Lanai are programs that read JSON, not Python",
    ),
    (
        "list hook",
        "Lanai has no predefined hooks; user and host names differ",
    ),
    ("create hook zz", "user and host names differ"),
];

/// Lines that begin with one of these texts are not compared, with the reasons.
const SKIPPED_LINES: &[(&str, &str)] = &[
    ("    sched_host = ", "depends on the test machine"),
    (
        "    sched_cycle_length = ",
        "a cycle of Lanai ends when all jobs are decided",
    ),
    ("    job_run_wait = ", "Lanai does not have this attribute"),
    ("    partition = ", "the only scheduler has all nodes"),
    ("    sched_priv = ", "the scheduler has no directories"),
    ("    sched_log = ", "the scheduler has no directories"),
    (
        "    preempt_order = ",
        "the preset sets the preemption actions",
    ),
    ("    log_events = 767", "schedd has its own log"),
    (
        "    server_dyn_res_alarm = ",
        "the test has no programs that report resources",
    ),
    ("set sched sched_host = ", "read-only in Lanai"),
    ("set sched state = ", "read-only in Lanai"),
    ("set sched sched_", "see the entries above"),
    ("set sched job_run_wait = ", "see the entries above"),
    ("set sched partition = ", "see the entries above"),
    ("set sched preempt_order = ", "see the entries above"),
    ("set sched log_events = ", "see the entries above"),
    ("set sched server_dyn_res_alarm = ", "see the entries above"),
    ("    server_host = ", "depends on the test machine"),
    ("    pbs_version = ", "the versions differ"),
    ("    pcpus = ", "depends on the test machine"),
    ("    jobs = ", "the number of the job differs"),
    ("    Port = ", "Lanai has no ports"),
    ("    license", "Lanai has no licenses"),
    ("    last_", "times differ"),
    (
        "    power_provisioning = ",
        "Lanai does not switch off nodes",
    ),
    ("    loadave = ", "noded measures the load of its node"),
    (
        "    resources_utilized",
        "noded measures the usage of its node",
    ),
    (
        "    resv_users = ",
        "Lanai limits the reservations of each user",
    ),
    (
        "    resv_max_",
        "Lanai limits the reservations of each user",
    ),
    (
        "set server resv_users = ",
        "Lanai limits the reservations of each user",
    ),
    (
        "set server resv_max_",
        "Lanai limits the reservations of each user",
    ),
    (
        "    eligible_time_enable = ",
        "Lanai always computes eligible time",
    ),
    (
        "set server eligible_time_enable = ",
        "Lanai always computes eligible time",
    ),
];

/// Settings of the recorded server, including defaults that Lanai does not have.
const RECORDED_SETTINGS: &str = "\
    set server acl_roots = root@*, log_events = 511, mailer = <OVL>/mailer, mail_from = adm, \
    resources_default.ncpus = 1, default_chunk.ncpus = 1, scheduler_iteration = 600, flatuid = True, \
    node_fail_requeue = 310, max_array_size = 10000, resend_term_delay = 5, pbs_license_min = 0, \
    pbs_license_max = 2147483647, pbs_license_linger_time = 31536000, max_concurrent_provision = 5, \
    clear_topjob_estimates_enable = False, max_job_sequence_id = 9999999";

/// Replaces the path of the recorded server's mailer.
fn with_local_mailer(text: &str) -> String {
    text.replace("<OVL>", "/nowhere")
}

#[test]
fn qmgr_output_equals_the_recordings_of_a_real_pbs() {
    let file = root().join("../shared/spec/pbs-transcripts/13-admin.t");
    let Some(blocks) = blocks(&file, "print server", "qmgr") else {
        return eprintln!("skipped: no {}", file.display());
    };
    let Some([user, _]) = two_users("qmgr") else {
        return;
    };
    let sandbox = Sandbox::configured("[server]\nshared = true\nname = \"head\"\n");
    for folder in [sandbox.home().parent().unwrap(), &sandbox.home()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    sandbox
        .run("noded", &["--name", "head", "--ncpus", "4", "--mem", "8gb"])
        .ok();
    sandbox.run("schedd", &[]).ok();
    for resource in [
        "ngpus type=long,flag=hn",
        "color type=string,flag=h",
        "big type=boolean,flag=h",
        "fl type=float,flag=hn",
        "sz type=size,flag=hn",
        "lic type=long",
        "tags type=string_array,flag=h",
    ] {
        sandbox
            .run("qmgr", &["-c", &format!("create resource {resource}")])
            .ok();
    }
    manage(&sandbox, &with_local_mailer(RECORDED_SETTINGS)).ok();
    let id = user.submit(&sandbox, &["-l", "select=1:ncpus=2:mem=1gb"], "sleep 600");
    sandbox.running(&id);
    let mut differences = Vec::new();
    for block in &blocks {
        let done = if block.is_root {
            sandbox.shell(&block.command)
        } else {
            user.shell(&sandbox, &block.command)
        };
        differences.extend(difference(block, &done));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    sandbox.run("qdel", &["-W", "force", &id]).ok();
}

fn compared(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| {
            !SKIPPED_LINES
                .iter()
                .any(|(begin, _)| line.starts_with(begin))
        })
        .collect()
}

/// The error output without the hints that follow an error message of PBS (decision 21).
fn without_hints(expected: &str, output: &str) -> String {
    match output.strip_prefix(expected) {
        Some(rest)
            if !expected.is_empty() && rest.lines().all(|line| line.starts_with("qmgr: ")) =>
        {
            expected.to_string()
        }
        _ => output.to_string(),
    }
}

fn difference(block: &Block, done: &Done) -> Option<String> {
    let expected = with_local_mailer(&block.out);
    let is_equal = (compared(&expected), &block.err, block.code)
        == (
            compared(&done.out),
            &without_hints(&block.err, &done.err),
            done.code,
        );
    let is_skipped = SKIPPED_COMMANDS
        .iter()
        .any(|(command, _)| block.command.contains(command));
    if is_equal || is_skipped {
        return None;
    }
    let Block {
        line,
        command,
        out,
        err,
        code,
        ..
    } = block;
    Some(format!(
        "line {line}: {command}\n--- expected {code}\n{out}{err}--- got {}\n{}{}",
        done.code, done.out, done.err
    ))
}

fn manage(sandbox: &Sandbox, command: &str) -> Done {
    sandbox.run("qmgr", &["-c", command])
}

#[track_caller]
fn assert_refused(done: &Done, code: i32, text: &str) {
    assert!(
        done.code == code && done.err.contains(text),
        "{code} {text:?}: {done:?}"
    );
}

/// Commands with examples of most settings.
const EXAMPLES: &str = "\
# resources, queues and the server
create resource lic type = long, flag = q
create resource colour type=string,flag=h; create resource scratch type=size,flag=hn
create queue gpu
set queue gpu queue_type = e
set queue gpu Priority = 150, max_run = \"[u:PBS_GENERIC=4],[u:alice=10],[g:phys=20],[p:pool=5],[o:PBS_ALL=100]\"
set queue gpu max_run_soft = [u:PBS_GENERIC=2]
set queue gpu max_run_res.mem = [u:PBS_GENERIC=8gb],[o:PBS_ALL=1tb]
set queue gpu max_queued_res.ncpus += [u:bob=64]
set queue gpu queued_jobs_threshold = [g:PBS_GENERIC=9]
set queue gpu resources_max.walltime = 24:00:00
set queue gpu resources_min.ncpus = 2, resources_default.mem = 2gb, default_chunk.colour = red
set queue gpu acl_user_enable = True, acl_users = \"ann@*,-bob@*,+@*\", acl_group_enable = t
set queue gpu acl_groups += phys
set queue gpu max_array_size = 50, backfill_depth = 3, comment = \"for those, who compute\"
set queue gpu \\
  enabled = True, started = True
create queue old queue_type=Execution,max_running=4,max_user_run=2,max_group_res.ncpus=8
create queue way queue_type = Route, route_destinations = \"gpu,workq\", enabled = t, started = t
set queue way route_retry_time = 60, route_lifetime = 3600, route_held_jobs = True
set queue workq from_route_only = True
set server resources_available.lic = 5
set server managers += carol@*, max_run = [u:PBS_GENERIC=50]
set server max_queued_res.nodect = [o:PBS_ALL=500]
set server resources_default.ncpus = 1, default_chunk.ncpus = 1, resources_max.mem = 100gb
set server job_history_duration = 100:00:00, scheduler_iteration = 300, backfill_depth = 4
set server job_sort_formula = \"eligible_time * 2 + ncpus\"
set server max_array_size = 1000, default_queue = way, log_events = 511
set sched job_sort_formula_threshold = -0.5
";

#[test]
fn the_output_of_print_recreates_the_settings() {
    let (first, second) = (Sandbox::new(), Sandbox::new());
    let done = first.run_with_input("qmgr", &["-a"], EXAMPLES);
    assert_eq!(
        (done.code, done.out.as_str()),
        (0, "Max open servers: 49\n"),
        "{done:?}"
    );
    assert_eq!(
        done.err,
        "qmgr: log_events: stored and shown, without effect in Lanai\n"
    );
    let printed = manage(&first, "print server").ok();
    for line in [
        "set queue gpu max_run = [u:alice=10]",
        "set queue old max_user_run = 2",
        "set queue way route_destinations = \"gpu,workq\"",
        "set server resources_available.lic = 5",
        "set queue gpu max_run_res.mem = [u:PBS_GENERIC=8gb]",
        "set queue gpu comment = \"for those, who compute\"",
    ] {
        assert!(
            printed.lines().any(|known| known == line),
            "{line}: {printed}"
        );
    }
    let again = second.run_with_input("qmgr", &["-a"], &printed);
    assert_eq!(
        (again.code, again.out.as_str()),
        (0, "Max open servers: 49\n"),
        "{again:?}"
    );
    assert_eq!(manage(&second, "print server").ok(), printed);
    assert_eq!(
        manage(&second, "list queue @default").ok(),
        manage(&first, "list queue @default").ok()
    );

    first.kill("schedd");
    first.run("qstat", &[]);
    assert_eq!(
        manage(&first, "print server").ok(),
        printed,
        "the settings survive a killed schedd"
    );
    let checked = first.run("schedd", &["--check"]).ok();
    let source = |line: &str| {
        checked
            .lines()
            .find(|known| known.starts_with(line))
            .and_then(|line| line.split("# ").nth(1))
    };
    assert_eq!(
        (source("priority = 150"), source("default_queue")),
        (Some("qmgr"), Some("qmgr")),
        "{checked}"
    );
    assert_eq!(
        (source("depth = 4"), source("order = ")),
        (Some("qmgr"), Some("preset")),
        "{checked}"
    );

    // The printed configuration, used as a file alone, gives the same limits.
    let file = Sandbox::configured(&checked.replace("login = false", ""));
    let by_file = manage(&file, "print server").ok();
    let limit_lines = |text: &str| {
        text.lines()
            .filter(|line| line.contains("max_run") && !line.contains(" old "))
            .count()
    };
    assert_eq!(limit_lines(&by_file), limit_lines(&printed), "{by_file}");
}

#[test]
fn queues_are_started_and_disabled_while_jobs_wait() {
    let sandbox = Sandbox::new();
    manage(&sandbox, "create queue fast queue_type=e,enabled=t").ok();
    let id = sandbox.submit(&["-q", "fast"], "true\n");
    let comment = || {
        sandbox.job(&id)["comment"]
            .as_str()
            .unwrap_or_default()
            .to_string()
    };
    sandbox.until("the comment", || {
        (comment() == "Not Running: Queue not started.").then_some(())
    });
    assert_refused(
        &manage(&sandbox, "delete queue fast"),
        179,
        "Cannot delete busy object",
    );
    sandbox.run("qstart", &["fast"]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    sandbox.run("qdisable", &["fast"]).ok();
    assert_refused(
        &sandbox.run_with_input("qsub", &["-q", "fast"], "true\n"),
        173,
        "Queue is not enabled",
    );
    assert_refused(
        &sandbox.run("qstop", &["nosuch"]),
        2,
        "qstop: Unknown queue nosuch",
    );
    manage(&sandbox, "delete queue fast").ok();
    assert_refused(
        &sandbox.run_with_input("qsub", &["-q", "fast"], "true\n"),
        170,
        "Unknown queue",
    );
}

#[test]
fn only_qrun_starts_jobs_while_scheduling_is_off() {
    let sandbox = Sandbox::new();
    manage(&sandbox, "set server scheduling = False").ok();
    let ids = [sandbox.submit(&[], "true\n"), sandbox.submit(&[], "true\n")];
    sandbox.until("noded", || {
        sandbox
            .run("pbsnodes", &["-a"])
            .out
            .contains("state = free")
            .then_some(())
    });
    let why = sandbox.run("qstat", &["--why", &ids[0]]).ok();
    assert!(why.contains("Scheduling is off"), "{why}");
    let why = sandbox.run("qstat", &["--why", "-F", "json", &ids[0]]).ok();
    assert!(
        why.contains("\"scheduling\": false") || why.contains("\"scheduling\":false"),
        "{why}"
    );
    sandbox.run("qrun", &[&ids[1]]).ok();
    assert_eq!(sandbox.ended(&ids[1])["Exit_status"], 0);
    assert_eq!(sandbox.state(&ids[0]), "Q");
    manage(&sandbox, "set sched scheduling = True").ok();
    assert_eq!(sandbox.ended(&ids[0])["Exit_status"], 0);
}

#[test]
fn operators_may_start_queues_and_managers_change_all_settings() {
    let Some([ann, bob]) = two_users("rights") else {
        return;
    };
    let sandbox = shared(&format!("operators = [\"{}\"]\n", ann.name));
    let run_qmgr = |user: &crate::support::people::TestUser, command: &str| {
        user.run(&sandbox, "qmgr", &["-c", command])
    };
    run_qmgr(&ann, "set queue workq started = True").ok();
    assert_refused(
        &run_qmgr(&ann, "set queue workq max_run = [o:PBS_ALL=1]"),
        155,
        "read only or insufficient permission  max_run",
    );
    assert_refused(
        &run_qmgr(&ann, "create queue mine"),
        159,
        "Unauthorized Request",
    );
    assert_refused(
        &run_qmgr(&bob, "set queue workq started = True"),
        159,
        "Unauthorized Request",
    );
    manage(&sandbox, &format!("set server managers += {}@*", bob.name)).ok();
    run_qmgr(&bob, "create queue mine queue_type=e").ok();
    manage(&sandbox, "unset server managers").ok();
    assert_refused(
        &run_qmgr(&bob, "delete queue mine"),
        159,
        "Unauthorized Request",
    );
    assert!(
        run_qmgr(&bob, "list queue mine")
            .ok()
            .starts_with("Queue mine\n")
    );
}

#[test]
fn quit_ends_the_commands_of_an_argument() {
    let sandbox = Sandbox::new();
    let commands = "create queue first; quit; create queue second";
    manage(&sandbox, commands).ok();
    let queues = manage(&sandbox, "list queue @default").ok();
    assert!(queues.contains("Queue first\n"), "{queues}");
    assert!(!queues.contains("Queue second\n"), "{queues}");
}

#[test]
fn a_syntax_error_is_reported_and_no_prompt_is_shown() {
    let sandbox = Sandbox::new();
    let garbage =
        b"list queue \xff\xfe\nset queue workq comment = \"\x01\n\xc3\x28\nquit\nlist server\n"
            .as_slice();
    let mut command = sandbox.command("qmgr");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), garbage).unwrap();
    let done = crate::support::sandbox::finish(child.wait_with_output().unwrap());
    assert_eq!(
        (done.code, done.out.as_str()),
        (0, "Max open servers: 49\n"),
        "{done:?}"
    );
    assert!(
        done.err.contains("Unknown queue")
            && done.err.contains("Syntax error")
            && done.err.contains("Illegal operation")
    );
}

#[test]
fn list_sched_shows_the_applicable_attributes() {
    let sandbox = Sandbox::new();
    manage(
        &sandbox,
        "set sched scheduler_iteration = 30, job_sort_formula_threshold = 1.5",
    )
    .ok();
    let listed = manage(&sandbox, "list sched").ok();
    for line in [
        "throughput_mode = True",
        "scheduler_iteration = 30",
        "job_sort_formula_threshold = 1.5",
        "state = idle",
    ] {
        assert!(
            listed.contains(&format!("    {line}\n")),
            "{line}: {listed}"
        );
    }
    assert!(
        manage(&sandbox, "list server")
            .ok()
            .contains("scheduler_iteration = 30"),
        "the server and the scheduler share this attribute"
    );
    let order = "preempt_order = \"SCR 80 SC 50 S\", preempt_prio = \"express_queue, normal_jobs\", preempt_queue_prio = 120";
    manage(&sandbox, &format!("set sched {order}")).ok();
    for line in [
        "preempt_order = SCR 80 SC 50 S",
        "preempt_prio = express_queue, normal_jobs",
        "preempt_queue_prio = 120",
    ] {
        assert!(
            manage(&sandbox, "list sched")
                .ok()
                .contains(&format!("    {line}\n")),
            "{line}"
        );
    }
    let checked = sandbox.run("schedd", &["--check"]).ok();
    assert!(
        checked
            .lines()
            .any(|line| line.starts_with("action = \"SCR 80") && line.ends_with("# qmgr")),
        "{checked}"
    );
    assert_refused(
        &manage(&sandbox, "set sched preempt_order = SCX"),
        166,
        "Illegal",
    );
    let printed = manage(&sandbox, "print sched").ok();
    let copy = Sandbox::new();
    copy.run_with_input("qmgr", &["-a"], &printed).ok();
    assert_eq!(manage(&copy, "print sched").ok(), printed);
    assert_refused(
        &manage(&sandbox, "set sched throughput_mode = False"),
        181,
        "throughput_mode is always True",
    );
    assert_refused(
        &manage(&sandbox, "set sched job_sort_formula_threshold = nan"),
        166,
        "Illegal",
    );
    assert_refused(
        &manage(&sandbox, "set sched partition = p"),
        181,
        "No support for requested service: partition",
    );
    manage(&sandbox, "unset sched job_sort_formula_threshold").ok();
    assert!(!manage(&sandbox, "list sched").ok().contains("threshold"));
}

/// schedd is killed at various times between request, commit and reply.
#[test]
fn a_qmgr_change_during_a_kill_applies_once_or_not_at_all() {
    let sandbox = Sandbox::new();
    manage(&sandbox, "set server max_array_size = 100").ok();
    let value = || -> i32 {
        let listed = manage(&sandbox, "list server max_array_size").ok();
        listed
            .split(" = ")
            .nth(1)
            .and_then(|number| number.trim().parse().ok())
            .unwrap_or_else(|| panic!("{listed}"))
    };
    let mut before = value();
    for milliseconds in [0, 2, 4, 6, 8, 10, 13, 16, 20, 30] {
        let mut command = sandbox.command("qmgr");
        command
            .args(["-c", "set server max_array_size += 1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        sandbox.kill("schedd");
        let was_done = child.wait().unwrap().success();
        let after = value();
        let increase = after - before;
        assert!(
            increase == 1 || (increase == 0 && !was_done),
            "after {milliseconds} ms: increased by {increase}, successful: {was_done}"
        );
        before = after;
    }
}
