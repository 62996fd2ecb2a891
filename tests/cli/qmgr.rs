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

/// Parts of commands whose blocks do not apply to Lanai, with the reasons.
const NOT_HELD: &[(&str, &str)] = &[
    (
        "hook hq",
        "hooks are programs here that read JSON, not Python",
    ),
    (
        "list hook",
        "no hook comes with Lanai; and the person and the host have other names",
    ),
    ("create hook zz", "the person and the host have other names"),
];

/// Prefixes of lines that are not compared, with the reasons.
const NOT_COMPARED: &[(&str, &str)] = &[
    (
        "    sched_host = ",
        "the name of the machine that runs the test",
    ),
    (
        "    sched_cycle_length = ",
        "cycles of Lanai end when all is decided",
    ),
    ("    job_run_wait = ", "Lanai has no hooks to wait for"),
    ("    partition = ", "the only scheduler has all nodes"),
    ("    sched_priv = ", "it has no folders of its own"),
    ("    sched_log = ", "the same"),
    (
        "    preempt_order = ",
        "which way jobs make way is the preset's",
    ),
    ("    log_events = 767", "the log is schedd's"),
    (
        "    server_dyn_res_alarm = ",
        "no program tells of resources",
    ),
    ("set sched sched_host = ", "told, and not to be said"),
    ("set sched state = ", "the same"),
    ("set sched sched_", "as in a list"),
    ("set sched job_run_wait = ", "the same"),
    ("set sched partition = ", "the same"),
    ("set sched preempt_order = ", "the same"),
    ("set sched log_events = ", "the same"),
    ("set sched server_dyn_res_alarm = ", "the same"),
    (
        "    server_host = ",
        "the name of the machine that runs the test",
    ),
    ("    pbs_version = ", "the version"),
    ("    pcpus = ", "of the machine that runs the test"),
    ("    jobs = ", "the number of the job differs"),
    ("    Port = ", "Lanai has no ports"),
    ("    license", "Lanai has no licences"),
    ("    last_", "moments"),
    ("    power_provisioning = ", "Lanai switches no node off"),
    ("    loadave = ", "noded measures the load of its node"),
    ("    resources_utilized", "the same"),
    ("    resv_users = ", "Lanai limits users' reservations"),
    ("    resv_max_", "the same"),
    ("set server resv_users = ", "the same"),
    ("set server resv_max_", "the same"),
    ("    eligible_time_enable = ", "always on here"),
    ("set server eligible_time_enable = ", "the same"),
];

/// Settings of the recorded server, including defaults that Lanai does not have.
const TOLD: &str = "set server acl_roots = root@*, log_events = 511, mailer = <OVL>/mailer, mail_from = adm, \
    resources_default.ncpus = 1, default_chunk.ncpus = 1, scheduler_iteration = 600, flatuid = True, \
    node_fail_requeue = 310, max_array_size = 10000, resend_term_delay = 5, pbs_license_min = 0, \
    pbs_license_max = 2147483647, pbs_license_linger_time = 31536000, max_concurrent_provision = 5, \
    clear_topjob_estimates_enable = False, max_job_sequence_id = 9999999";

/// Replaces the path of the recorded server's mailer.
fn placed(text: &str) -> String {
    text.replace("<OVL>", "/nowhere")
}

#[test]
fn the_blocks_of_a_real_qmgr_hold() {
    let file = root().join("../shared/spec/pbs-transcripts/13-admin.t");
    let Some(blocks) = blocks(&file, "print server", "qmgr") else {
        return eprintln!("skipped: no {}", file.display());
    };
    let Some([person, _]) = two_users("qmgr") else {
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
    for made in [
        "ngpus type=long,flag=hn",
        "color type=string,flag=h",
        "big type=boolean,flag=h",
        "fl type=float,flag=hn",
        "sz type=size,flag=hn",
        "lic type=long",
        "tags type=string_array,flag=h",
    ] {
        sandbox
            .run("qmgr", &["-c", &format!("create resource {made}")])
            .ok();
    }
    manage(&sandbox, &placed(TOLD)).ok();
    let id = person.submit(&sandbox, &["-l", "select=1:ncpus=2:mem=1gb"], "sleep 600");
    sandbox.running(&id);
    let mut complaints = Vec::new();
    for block in &blocks {
        let done = if block.is_root {
            sandbox.shell(&block.command)
        } else {
            person.shell(&sandbox, &block.command)
        };
        complaints.extend(differs(block, &done));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    sandbox.run("qdel", &["-W", "force", &id]).ok();
}

fn compared(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| {
            !NOT_COMPARED
                .iter()
                .any(|(begin, _)| line.starts_with(begin))
        })
        .collect()
}

fn differs(block: &Block, done: &Done) -> Option<String> {
    let expected = placed(&block.out);
    let is_held = (compared(&expected), &block.err, block.code)
        == (compared(&done.out), &done.err, done.code);
    let excused = NOT_HELD
        .iter()
        .any(|(command, _)| block.command.contains(command));
    if is_held || excused {
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
fn refused(done: &Done, code: i32, text: &str) {
    assert!(
        done.code == code && done.err.contains(text),
        "{code} {text:?}: {done:?}"
    );
}

/// Commands with examples of most settings.
const SAID: &str = "\
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
    let (one, other) = (Sandbox::new(), Sandbox::new());
    let said = one.run_with_input("qmgr", &["-a"], SAID);
    assert_eq!(
        (said.code, said.out.as_str()),
        (0, "Max open servers: 49\n"),
        "{said:?}"
    );
    assert_eq!(
        said.err,
        "qmgr: log_events: stored and shown, without effect in Lanai\n"
    );
    let printed = manage(&one, "print server").ok();
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
    let again = other.run_with_input("qmgr", &["-a"], &printed);
    assert_eq!(
        (again.code, again.out.as_str()),
        (0, "Max open servers: 49\n"),
        "{again:?}"
    );
    assert_eq!(manage(&other, "print server").ok(), printed);
    assert_eq!(
        manage(&other, "list queue @default").ok(),
        manage(&one, "list queue @default").ok()
    );

    one.kill("schedd");
    one.run("qstat", &[]);
    assert_eq!(
        manage(&one, "print server").ok(),
        printed,
        "it outlives schedd"
    );
    let checked = one.run("schedd", &["--check"]).ok();
    let remark = |line: &str| {
        checked
            .lines()
            .find(|known| known.starts_with(line))
            .and_then(|line| line.split("# ").nth(1))
    };
    assert_eq!(
        (remark("priority = 150"), remark("default_queue")),
        (Some("qmgr"), Some("qmgr")),
        "{checked}"
    );
    assert_eq!(
        (remark("depth = 4"), remark("order = ")),
        (Some("qmgr"), Some("preset")),
        "{checked}"
    );

    // The printed configuration, used as a file alone, gives the same limits.
    let file = Sandbox::configured(&checked.replace("login = false", ""));
    let by_file = manage(&file, "print server").ok();
    let telling = |text: &str| {
        text.lines()
            .filter(|line| line.contains("max_run") && !line.contains(" old "))
            .count()
    };
    assert_eq!(telling(&by_file), telling(&printed), "{by_file}");
}

#[test]
fn queues_are_opened_and_closed_while_jobs_wait() {
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
    refused(
        &manage(&sandbox, "delete queue fast"),
        179,
        "Cannot delete busy object",
    );
    sandbox.run("qstart", &["fast"]).ok();
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
    sandbox.run("qdisable", &["fast"]).ok();
    refused(
        &sandbox.run_with_input("qsub", &["-q", "fast"], "true\n"),
        173,
        "Queue is not enabled",
    );
    refused(
        &sandbox.run("qstop", &["nosuch"]),
        2,
        "qstop: Unknown queue nosuch",
    );
    manage(&sandbox, "delete queue fast").ok();
    refused(
        &sandbox.run_with_input("qsub", &["-q", "fast"], "true\n"),
        170,
        "Unknown queue",
    );
}

#[test]
fn nothing_starts_while_scheduling_is_off_but_by_qrun() {
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
fn operators_open_queues_and_managers_change_the_rest() {
    let Some([ann, bob]) = two_users("say") else {
        return;
    };
    let sandbox = shared(&format!("operators = [\"{}\"]\n", ann.name));
    let say = |person: &crate::support::people::TestUser, command: &str| {
        person.run(&sandbox, "qmgr", &["-c", command])
    };
    say(&ann, "set queue workq started = True").ok();
    refused(
        &say(&ann, "set queue workq max_run = [o:PBS_ALL=1]"),
        155,
        "read only or insufficient permission  max_run",
    );
    refused(&say(&ann, "create queue mine"), 159, "Unauthorized Request");
    refused(
        &say(&bob, "set queue workq started = True"),
        159,
        "Unauthorized Request",
    );
    manage(&sandbox, &format!("set server managers += {}@*", bob.name)).ok();
    say(&bob, "create queue mine queue_type=e").ok();
    manage(&sandbox, "unset server managers").ok();
    refused(&say(&bob, "delete queue mine"), 159, "Unauthorized Request");
    assert!(
        say(&bob, "list queue mine")
            .ok()
            .starts_with("Queue mine\n")
    );
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
        "they share it"
    );
    let order = "preempt_order = \"SCR 80 SC 50 S\", preempt_prio = \"express_queue, normal_jobs\", preempt_queue_prio = 120";
    manage(&sandbox, &format!("set sched {order}")).ok();
    for said in [
        "preempt_order = SCR 80 SC 50 S",
        "preempt_prio = express_queue, normal_jobs",
        "preempt_queue_prio = 120",
    ] {
        assert!(
            manage(&sandbox, "list sched")
                .ok()
                .contains(&format!("    {said}\n")),
            "{said}"
        );
    }
    let checked = sandbox.run("schedd", &["--check"]).ok();
    assert!(
        checked
            .lines()
            .any(|line| line.starts_with("action = \"SCR 80") && line.ends_with("# qmgr")),
        "{checked}"
    );
    refused(
        &manage(&sandbox, "set sched preempt_order = SCX"),
        166,
        "Illegal",
    );
    let printed = manage(&sandbox, "print sched").ok();
    let other = Sandbox::new();
    other.run_with_input("qmgr", &["-a"], &printed).ok();
    assert_eq!(manage(&other, "print sched").ok(), printed);
    refused(
        &manage(&sandbox, "set sched throughput_mode = False"),
        181,
        "throughput_mode is always True",
    );
    refused(
        &manage(&sandbox, "set sched job_sort_formula_threshold = nan"),
        166,
        "Illegal",
    );
    refused(
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
    let said = || -> i32 {
        let listed = manage(&sandbox, "list server max_array_size").ok();
        listed
            .split(" = ")
            .nth(1)
            .and_then(|number| number.trim().parse().ok())
            .unwrap_or_else(|| panic!("{listed}"))
    };
    let mut before = said();
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
        let after = said();
        let grown = after - before;
        assert!(
            grown == 1 || (grown == 0 && !was_done),
            "after {milliseconds} ms: {grown} more, done: {was_done}"
        );
        before = after;
    }
}
