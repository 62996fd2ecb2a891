//! `spool.sql` is the dump of a personal spool of schema 18 with finished, queued, held, dependent
//! and deleted jobs, two arrays, a reservation, a planned start, settings by qmgr and accounting.

use super::old_text;
use crate::support::sandbox::Sandbox;
use rusqlite::Connection;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// Configuration of the server that wrote the spool. It keeps finished jobs for a century, so that
/// the tests can read them.
const CONFIG: &str = r#"
preset = "hybrid"
[server]
name = "head"
history = "36500d"
accounting = "36500d"
[[account]]
name = "physics"
shares = 40
users = { root = 2 }
[[account]]
name = "crystals"
parent = "physics"
shares = 30
[[qos]]
name = "high"
factor = 0.8
charge = 2.0
[[resource]]
name = "licence"
type = "long"
consumable = true
host_level = false
total = 50
[[node]]
name = "head"
ncpus = 4
mem = "8gb"
"#;

/// Starts schedd on a copy of the old spool.
fn opened() -> Sandbox {
    let sandbox = Sandbox::configured(CONFIG);
    let folder = sandbox.home().join("spool");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    let spool = Connection::open(folder.join("spool.db")).unwrap();
    spool.execute_batch(&old_text("spool.sql")).unwrap();
    drop(spool);
    sandbox.run("schedd", &[]).ok();
    sandbox
}

/// Attributes in `qstat -f -F json`: job, JSON pointer below it, value.
const ATTRIBUTES: &[(&str, &str, &str)] = &[
    ("1.head", "/Job_Name", "finished"),
    ("1.head", "/Job_Owner", "root@head"),
    ("1.head", "/job_state", "F"),
    ("1.head", "/substate", "93"),
    ("1.head", "/Account_Name", "physics"),
    ("1.head", "/qos", "high"),
    ("1.head", "/ctime", "Sun Nov 23 01:25:36 2025"),
    ("1.head", "/stime", "Sun Nov 23 01:25:36 2025"),
    ("1.head", "/obittime", "Sun Nov 23 01:25:36 2025"),
    ("1.head", "/exec_host", "head/0*2"),
    ("1.head", "/exec_vnode", "(head:ncpus=2:mem=102400kb)"),
    ("1.head", "/Resource_List/select", "1:ncpus=2:mem=100mb"),
    ("1.head", "/Resource_List/walltime", "00:01:00"),
    ("1.head", "/resources_used/mem", "7488kb"),
    ("1.head", "/resources_used/ncpus", "2"),
    ("1.head", "/run_count", "1"),
    ("1.head", "/Exit_status", "3"),
    ("2[].head", "/job_state", "F"),
    ("2[].head", "/Exit_status", "1"),
    ("2[].head", "/array_indices_submitted", "1-3"),
    ("2[].head", "/array_indices_failed", "2"),
    (
        "2[].head",
        "/array_state_count",
        "Queued:0 Running:0 Exiting:0 Expired:3",
    ),
    ("3.head", "/job_state", "F"),
    ("3.head", "/resources_used/walltime", "00:00:03"),
    ("3.head", "/obittime", "Sun Nov 23 01:25:41 2025"),
    ("4.head", "/Account_Name", "crystals"),
    ("5.head", "/umask", "27"),
    ("6.head", "/job_state", "Q"),
    ("6.head", "/lanai_reason/code", "amount.ncpus"),
    ("6.head", "/lanai_reason/stage", "match"),
    ("6.head", "/estimated/exec_vnode", "(head:ncpus=1)"),
    ("7.head", "/job_state", "Q"),
    ("7.head", "/queue", "night"),
    ("7.head", "/project", "wave"),
    ("7.head", "/depend", "beforeok:9.head@head"),
    ("7.head", "/Mail_Points", "abe"),
    ("7.head", "/Mail_Users", "ann@example.org"),
    ("7.head", "/Resource_List/licence", "2"),
    ("7.head", "/Resource_List/nodect", "2"),
    ("7.head", "/Resource_List/mem", "1034mb"),
    (
        "7.head",
        "/Resource_List/select",
        "1:ncpus=1:mem=1gb+1:ncpus=2",
    ),
    ("8.head", "/job_state", "H"),
    ("8.head", "/Hold_Types", "u"),
    ("8.head", "/label", "sim"),
    ("8.head", "/Resource_List/walltime", "00:20:00"),
    ("9.head", "/job_state", "H"),
    ("9.head", "/Hold_Types", "s"),
    ("9.head", "/depend", "afterok:7.head@head:8.head@head"),
    ("10[].head", "/job_state", "Q"),
    ("10[].head", "/Rerunable", "False"),
    ("10[].head", "/Join_Path", "oe"),
    (
        "10[].head",
        "/Output_Path",
        "head:/tmp/lanai/run/work/out.txt",
    ),
    ("10[].head", "/array_indices_remaining", "0-8:2"),
    ("10[].head", "/max_run_subjobs", "2"),
    ("11.head", "/Execution_Time", "Sun Jan  1 09:00:00 2040"),
    ("11.head", "/Hold_Types", "o"),
    ("12.head", "/Exit_status", "271"),
];

#[test]
fn the_jobs_of_an_old_spool_are_shown_as_they_were() {
    let sandbox = opened();
    let listing = sandbox.run("qstat", &["-x", "-f", "-F", "json"]).ok();
    let document: Value = serde_json::from_str(&listing).unwrap();
    assert_eq!(document["Jobs"].as_object().unwrap().len(), 12);
    for &(job, attribute, expected) in ATTRIBUTES {
        let found = match document["Jobs"][job].pointer(attribute) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => "none".to_string(),
        };
        assert_eq!(found, expected, "{attribute} of {job}");
    }
}

/// Asserts that the command prints each of these lines.
#[track_caller]
fn prints(sandbox: &Sandbox, program: &str, arguments: &[&str], lines: &[&str]) {
    let out = sandbox.run(program, arguments).ok();
    for line in lines {
        assert!(
            out.lines().any(|found| found.trim_end() == *line),
            "{program} {arguments:?} lacks\n{line}\nin\n{out}"
        );
    }
}

#[test]
fn the_settings_and_reservations_of_an_old_spool_are_kept() {
    let sandbox = opened();
    let settings = [
        "set queue night queue_type = Execution",
        "set queue night Priority = 40",
        "set queue night max_run = [u:PBS_GENERIC=2]",
        "set queue night resources_max.walltime = 12:00:00",
        "set queue night started = True",
        "set server scheduling = False",
        "set server operators = carl",
        "set server default_chunk.mem = 10mb",
    ];
    prints(&sandbox, "qmgr", &["-c", "print server"], &settings);
    let node = ["     comment = spare disk", "     resv = R13.head"];
    prints(&sandbox, "pbsnodes", &["head"], &node);
    let reservation = [
        "Reserve_Name = course",
        "Reserve_Owner = root@head",
        "reserve_state = RESV_CONFIRMED",
        "reserve_start = Mon Jan  2 09:00:00 2040",
        "reserve_duration = 3600",
        "resv_nodes = (head:ncpus=2)",
        "Resource_List.select = 1:ncpus=2",
    ];
    prints(&sandbox, "pbs_rstat", &["-F"], &reservation);
}

#[test]
fn the_accounts_and_events_of_an_old_spool_are_shown_as_they_were() {
    let sandbox = opened();
    let out = sandbox
        .run("qacct", &["--by", "account,qos", "-F", "json"])
        .ok();
    let document: Value = serde_json::from_str(&out).unwrap();
    let sums: Vec<(&str, i64, i64, f64)> = document["Accounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                row["account"].as_str().unwrap(),
                row["jobs"].as_i64().unwrap(),
                row["failed"].as_i64().unwrap(),
                row["charged_core_seconds"].as_f64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        sums,
        [
            ("", 2, 1, 0.007),
            ("crystals", 4, 1, 0.032),
            ("physics", 1, 0, 13.124),
            ("physics", 1, 1, 0.036),
        ]
    );

    for (job, events) in [
        (
            "1",
            [
                "01:25:36  S    Job Queued at request of root@head",
                "01:25:36  L    Job run, attempt 1, on exec_vnode (head:ncpus=2:mem=102400kb)",
                "01:25:36  M    Exited with code 3",
            ],
        ),
        (
            "3",
            [
                "01:25:38  S    Job to be suspended at request of root@head",
                "01:25:38  M    Suspended, attempt 1",
                "01:25:38  S    Resumed, attempt 1, on exec_vnode (head:ncpus=4)",
            ],
        ),
    ] {
        let trace = sandbox.run("tracejob", &["-n", "36500", job]).ok();
        for event in events {
            assert!(trace.contains(&format!("11/23/2025 {event}")), "{trace}");
        }
    }
    let cycles = sandbox.run("qstat", &["--cycles"]).ok();
    assert!(cycles.contains("submit:1"), "{cycles}");
}

#[test]
fn the_dependencies_of_an_old_spool_take_effect() {
    let sandbox = opened();
    sandbox.run("qdel", &["8.head"]).ok();
    assert_eq!(sandbox.state("9.head"), "F");
    let next = sandbox.submit(&["-h"], "true");
    assert_eq!(next, "14.head", "job numbers continue");
}
