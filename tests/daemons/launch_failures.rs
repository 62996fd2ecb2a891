//! Failed starts (M10): refused by the node, or neither confirmed nor refused. The job is retried
//! later and finally held. The node stays available to other jobs, and no job runs twice.

use crate::support::people::people;
use crate::support::played::SimulatedNoded;
use crate::support::sandbox::{Sandbox, kill};
use lanai::model::job::{AttemptOutcome, How};
use lanai::model::job_id::JobId;
use lanai::wire::order::{AttemptStatus, NodeReport, ScheddOrder};
use serde_json::json;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A daemon that is killed on drop.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ended(job: JobId, attempt: u32, how: How) -> NodeReport {
    let outcome = AttemptOutcome {
        how,
        sent: None,
        used: Default::default(),
        notes: Vec::new(),
        unfit: None,
        on_its_own: false,
    };
    NodeReport::Attempt(job, attempt, 0, AttemptStatus::Ended(outcome))
}

fn runs_and_ends(job: JobId, attempt: u32) -> Vec<NodeReport> {
    vec![
        NodeReport::Attempt(job, attempt, 0, AttemptStatus::Running(77)),
        ended(job, attempt, How::Exited(0)),
    ]
}

#[test]
fn refused_starts_are_retried_with_growing_delays_then_held() {
    let played = SimulatedNoded::new(
        "retry = \"1s\"\nretry_max = \"2s\"\nmax_failed_starts = 4",
        |order| match order {
            ScheddOrder::Start(launch) if launch.job.number == 1 => {
                vec![ended(
                    launch.job,
                    launch.attempt,
                    How::NodeFault("no slot for the job".into()),
                )]
            }
            ScheddOrder::Start(launch) => runs_and_ends(launch.job, launch.attempt),
            _ => vec![],
        },
    );
    let sandbox = &played.sandbox;
    let id = sandbox.submit(&["-l", "select=1:ncpus=4"], "true\n");
    let job = sandbox.until("the first refusal", || {
        Some(sandbox.job(&id)).filter(|job| job["run_count"] == 1 && job["job_state"] == "Q")
    });
    let comment = job["comment"].as_str().unwrap();
    assert!(
        comment.starts_with("Not Running: Job start failed, tried again on "),
        "{comment}"
    );
    assert!(comment.ends_with(": no slot for the job"), "{comment}");
    played.is_free();
    // Meanwhile another job runs on the same processors.
    let other = sandbox.submit(&["-l", "select=1:ncpus=4"], "true\n");
    assert_eq!(sandbox.ended(&other)["Exit_status"], 0);
    let job = sandbox.until("the hold", || {
        Some(sandbox.job(&id)).filter(|job| job["job_state"] == "H")
    });
    assert_eq!(
        (&job["Hold_Types"], &job["run_count"]),
        (&json!("s"), &json!(4)),
        "{job}"
    );
    assert_eq!(
        job["comment"],
        "job held, too many failed attempts to run: no slot for the job"
    );
    played.is_free();
    let tries: Vec<Instant> = played
        .starts()
        .into_iter()
        .filter(|start| start.1 == 1)
        .map(|start| start.0)
        .collect();
    let gaps: Vec<Duration> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (gap, least) in gaps.iter().zip([1, 2, 2]) {
        assert!(
            *gap >= Duration::from_secs(least) && *gap < Duration::from_secs(least + 10),
            "{gaps:?}"
        );
    }
    assert_eq!(gaps.len(), 3);
}

#[test]
fn an_unconfirmed_start_is_canceled_and_repeated_only_after_confirmation() {
    let slow = Duration::from_millis(1500);
    let played =
        SimulatedNoded::new(
            "retry = \"1s\"\nstart_timeout = \"1s\"",
            move |order| match order {
                ScheddOrder::Start(launch) if launch.attempt > 1 => {
                    runs_and_ends(launch.job, launch.attempt)
                }
                ScheddOrder::Cancel { job, attempt, .. } => {
                    std::thread::sleep(slow);
                    vec![ended(*job, *attempt, How::Cancelled)]
                }
                _ => vec![],
            },
        );
    let sandbox = &played.sandbox;
    let id = sandbox.submit(&["-l", "select=1:ncpus=1"], "true\n");
    let job = sandbox.until("the timeout", || {
        Some(sandbox.job(&id)).filter(|job| {
            job["comment"]
                .as_str()
                .is_some_and(|text| text.contains("not confirmed"))
        })
    });
    assert_eq!(
        (&job["job_state"], &job["run_count"]),
        (&json!("R"), &json!(1)),
        "an unconfirmed job is shown as running: {job}"
    );
    let job = sandbox.ended(&id);
    assert_eq!(
        (&job["Exit_status"], &job["run_count"]),
        (&json!(0), &json!(2)),
        "{job}"
    );
    let starts = played.starts();
    assert_eq!(
        starts.iter().map(|start| start.2).collect::<Vec<_>>(),
        [1, 2]
    );
    let cancelled = played.cancelled(1, 1).unwrap();
    assert!(
        cancelled - starts[0].0 >= Duration::from_secs(1),
        "canceled before start_timeout"
    );
    assert!(
        starts[1].0 >= cancelled + slow,
        "started again before the cancellation was confirmed"
    );
    let output = sandbox.run("tracejob", &[&id]).ok();
    assert!(
        output.contains("Attempt 1 did not start within 1 s: canceled"),
        "{output}"
    );
    played.is_free();
}

#[test]
fn a_start_confirmed_after_its_timeout_counts_if_it_ends_by_itself() {
    let played = SimulatedNoded::new("start_timeout = \"1s\"", |order| match order {
        ScheddOrder::Cancel { job, attempt, .. } => runs_and_ends(*job, *attempt),
        _ => vec![],
    });
    let id = played.sandbox.submit(&["-l", "select=1:ncpus=1"], "true\n");
    let job = played.sandbox.ended(&id);
    assert_eq!(
        (&job["Exit_status"], &job["run_count"]),
        (&json!(0), &json!(1)),
        "{job}"
    );
    assert_eq!(played.starts().len(), 1);
}

#[test]
fn a_node_that_hangs_during_a_start_runs_the_job_once() {
    let sandbox =
        Sandbox::configured("[launch]\nretry = \"1s\"\nstart_timeout = \"1s\"\ngrace = \"1s\"\n");
    let first = sandbox.submit(&[], "true\n");
    sandbox.ended(&first);
    let spawner = sandbox.pid_of("lanai-spawner").unwrap();
    kill(spawner, 19);
    let id = sandbox.submit(&["-N", "once"], "echo run >> runs\n");
    sandbox.until("the timeout", || {
        sandbox.job(&id)["comment"]
            .as_str()
            .is_some_and(|text| text.contains("not confirmed"))
            .then_some(())
    });
    kill(spawner, 18);
    let job = sandbox.ended(&id);
    assert_eq!(
        (&job["Exit_status"], &job["run_count"]),
        (&json!(0), &json!(2)),
        "{job}"
    );
    assert_eq!(sandbox.read("runs"), "run\n");
}

/// Starts the noded of a node with one processor. If `bare`, the node sees `homes` as an empty
/// directory.
fn noded(sandbox: &Sandbox, name: &str, homes: &str, bare: bool) -> Daemon {
    let plain = sandbox.command("noded");
    let mut command = Command::new("unshare");
    command.envs(
        plain
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let mount = if bare {
        format!("mount -t tmpfs none {homes} && ")
    } else {
        String::new()
    };
    command
        .args(["--mount", "sh", "-c", &format!("{mount}exec \"$@\""), "sh"])
        .arg(plain.get_program());
    command.args([
        "--foreground",
        "--name",
        name,
        "--ncpus",
        "1",
        "--mem",
        "1gb",
        "--socket",
    ]);
    command.arg(sandbox.home().join(format!("{name}.sock")));
    command
        .arg("--state")
        .arg(sandbox.home().join(format!("state.{name}")));
    Daemon(
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    )
}

#[test]
fn a_node_without_home_directories_fails_no_job() {
    let Some([person]) = people("homeless") else {
        return;
    };
    if !Command::new("unshare")
        .args(["--mount", "true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("homeless: skipped: requires unshare --mount");
        return;
    }
    let homes = tempfile::tempdir().unwrap();
    fs::set_permissions(homes.path(), Permissions::from_mode(0o755)).unwrap();
    let home = homes.path().join(&person.name);
    fs::create_dir(&home).unwrap();
    chown(&home, Some(person.uid), Some(person.gid)).unwrap();
    let moved = Command::new("usermod")
        .arg("--home")
        .arg(&home)
        .arg(&person.name)
        .status()
        .unwrap();
    assert!(moved.success());
    let sandbox = Sandbox::new();
    let socket = |name: &str| {
        format!(
            "[[node]]\nname = \"{name}\"\nsocket = \"{}/{name}.sock\"\n",
            sandbox.home().display()
        )
    };
    let config = format!("[server]\nshared = true\n{}{}", socket("m1"), socket("m2"));
    fs::write(sandbox.home().join("lanai.toml"), config).unwrap();
    for folder in [sandbox.home().parent().unwrap(), &sandbox.home()] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    let path = homes.path().display().to_string();
    let _nodeds = [
        noded(&sandbox, "m1", &path, true),
        noded(&sandbox, "m2", &path, false),
    ];
    sandbox.run("schedd", &[]).ok();
    for node in ["m1", "m2"] {
        sandbox.until(node, || {
            sandbox
                .run("pbsnodes", &[node])
                .out
                .contains("state = free\n")
                .then_some(())
        });
    }
    fs::write(home.join("input"), "input").unwrap();
    // Node m1 has no home directories and refuses each job at once, so every job that waits for m2
    // is tried on m1 as well.
    let placement = ["", "-W stagein=copy@localhost:input", "-W sandbox=PRIVATE"];
    let submit = |option: &&str| {
        let qsub = format!("qsub -l select=1:ncpus=1 {option}");
        let script = format!("sleep 0.5; pwd > {}/$PBS_JOBID", home.display());
        let four = format!(
            "cd {} && for i in 1 2 3 4; do echo '{script}' | {qsub}; done",
            home.display()
        );
        person
            .shell(&sandbox, &four)
            .ok()
            .lines()
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    let submitted: Vec<Vec<String>> = placement.iter().map(submit).collect();
    for (ids, option) in submitted.iter().zip(placement) {
        let mut refused = 0;
        for id in ids {
            let job = sandbox.ended(id);
            assert_eq!(job["Exit_status"], 0, "{option}: {job}");
            assert!(
                job["exec_vnode"].as_str().unwrap().contains("m2"),
                "{option}: {job}"
            );
            assert!(home.join(id).exists(), "{option}");
            refused += usize::from(
                sandbox
                    .run("tracejob", &[id])
                    .ok()
                    .contains("is missing on "),
            );
        }
        assert_eq!(ids.len(), 4);
        assert!(refused > 0, "{option}: no job was tried on m1");
    }
}
