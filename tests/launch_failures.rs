//! Starts that fail (M10): refused by the node, or neither confirmed nor refused. The job is put off
//! and held in the end, the node stays free for others, and nothing runs twice.

use crate::support::played::Played;
use crate::support::sandbox::{Sandbox, kill};
use lanai::model::job::{How, JobId, Outcome};
use lanai::wire::order::{Order, Report, Standing};
use serde_json::json;
use std::time::{Duration, Instant};

fn over(job: JobId, attempt: u32, how: How) -> Report {
    let outcome =
        Outcome { how, sent: None, used: Default::default(), notes: Vec::new(), unfit: None, on_its_own: false };
    Report::Attempt(job, attempt, 0, Standing::Ended(outcome))
}

fn runs_through(job: JobId, attempt: u32) -> Vec<Report> {
    vec![Report::Attempt(job, attempt, 0, Standing::Running(77)), over(job, attempt, How::Exited(0))]
}

#[test]
fn a_refused_start_is_put_off_longer_each_time_and_held_in_the_end() {
    let played = Played::new("retry = \"1s\"\nretry_max = \"2s\"\nmax_failed_starts = 4", |order| match order {
        Order::Start(launch) if launch.job.number == 1 => {
            vec![over(launch.job, launch.attempt, How::NodeFault("no room for it".into()))]
        }
        Order::Start(launch) => runs_through(launch.job, launch.attempt),
        _ => vec![],
    });
    let sandbox = &played.sandbox;
    let id = sandbox.submit(&["-l", "select=1:ncpus=4"], "true\n");
    let job = sandbox.until("the first refusal", || {
        Some(sandbox.job(&id)).filter(|job| job["run_count"] == 1 && job["job_state"] == "Q")
    });
    let comment = job["comment"].as_str().unwrap();
    assert!(comment.starts_with("Not Running: Job start failed, tried again on "), "{comment}");
    assert!(comment.ends_with(": no room for it"), "{comment}");
    played.is_free();
    // Others go on meanwhile, on the same processors.
    let other = sandbox.submit(&["-l", "select=1:ncpus=4"], "true\n");
    assert_eq!(sandbox.ended(&other)["Exit_status"], 0);
    let job = sandbox.until("the hold", || Some(sandbox.job(&id)).filter(|job| job["job_state"] == "H"));
    assert_eq!((&job["Hold_Types"], &job["run_count"]), (&json!("s"), &json!(4)), "{job}");
    assert_eq!(job["comment"], "job held, too many failed attempts to run: no room for it");
    played.is_free();
    let tries: Vec<Instant> = played.starts().into_iter().filter(|start| start.1 == 1).map(|start| start.0).collect();
    let gaps: Vec<Duration> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (gap, least) in gaps.iter().zip([1, 2, 2]) {
        assert!(*gap >= Duration::from_secs(least) && *gap < Duration::from_secs(least + 10), "{gaps:?}");
    }
    assert_eq!(gaps.len(), 3);
}

#[test]
fn a_start_of_which_nothing_is_heard_is_cancelled_and_made_anew_only_when_that_is_confirmed() {
    let slow = Duration::from_millis(1500);
    let played = Played::new("retry = \"1s\"\nstart_timeout = \"1s\"", move |order| match order {
        Order::Start(launch) if launch.attempt > 1 => runs_through(launch.job, launch.attempt),
        Order::Cancel { job, attempt, .. } => {
            std::thread::sleep(slow);
            vec![over(*job, *attempt, How::Cancelled)]
        }
        _ => vec![],
    });
    let sandbox = &played.sandbox;
    let id = sandbox.submit(&["-l", "select=1:ncpus=1"], "true\n");
    let job = sandbox.until("the timeout", || {
        Some(sandbox.job(&id)).filter(|job| job["comment"].as_str().is_some_and(|text| text.contains("not confirmed")))
    });
    assert_eq!((&job["job_state"], &job["run_count"]), (&json!("R"), &json!(1)), "nobody knows that it is not: {job}");
    let job = sandbox.ended(&id);
    assert_eq!((&job["Exit_status"], &job["run_count"]), (&json!(0), &json!(2)), "{job}");
    let starts = played.starts();
    assert_eq!(starts.iter().map(|start| start.2).collect::<Vec<_>>(), [1, 2]);
    let cancelled = played.cancelled(1, 1).unwrap();
    assert!(cancelled - starts[0].0 >= Duration::from_secs(1), "before its time");
    assert!(starts[1].0 >= cancelled + slow, "before it was confirmed");
    let story = sandbox.run("tracejob", &[&id]).ok();
    assert!(story.contains("Attempt 1 not begun within 1 s: cancelled"), "{story}");
    played.is_free();
}

#[test]
fn a_start_that_is_confirmed_too_late_and_then_ends_by_itself_counts() {
    let played = Played::new("start_timeout = \"1s\"", |order| match order {
        Order::Cancel { job, attempt, .. } => runs_through(*job, *attempt),
        _ => vec![],
    });
    let id = played.sandbox.submit(&["-l", "select=1:ncpus=1"], "true\n");
    let job = played.sandbox.ended(&id);
    assert_eq!((&job["Exit_status"], &job["run_count"]), (&json!(0), &json!(1)), "{job}");
    assert_eq!(played.starts().len(), 1);
}

#[test]
fn a_real_node_that_hangs_over_a_start_runs_it_once() {
    let sandbox = Sandbox::configured("[launch]\nretry = \"1s\"\nstart_timeout = \"1s\"\ngrace = \"1s\"\n");
    let first = sandbox.submit(&[], "true\n");
    sandbox.ended(&first);
    let spawner = sandbox.pid_of("lanai-spawner").unwrap();
    kill(spawner, 19);
    let id = sandbox.submit(&["-N", "once"], "echo run >> runs\n");
    sandbox.until("the timeout", || {
        sandbox.job(&id)["comment"].as_str().is_some_and(|text| text.contains("not confirmed")).then_some(())
    });
    kill(spawner, 18);
    let job = sandbox.ended(&id);
    assert_eq!((&job["Exit_status"], &job["run_count"]), (&json!(0), &json!(2)), "{job}");
    assert_eq!(sandbox.read("runs"), "run\n");
}
