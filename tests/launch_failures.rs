//! Starts that fail (M10): refused by the node, or neither confirmed nor refused. The job is put off
//! and held in the end, the node stays free for others, and nothing runs twice.

use crate::support::sandbox::{Sandbox, kill};
use lanai::model::job::{How, JobId, Outcome};
use lanai::model::node::NodeFacts;
use lanai::model::resource::{Size, Value};
use lanai::wire::frame;
use lanai::wire::order::{Order, Report, Standing};
use serde_json::json;
use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What a played noded has been ordered: when, and which.
type Heard = Arc<Mutex<Vec<(Instant, Order)>>>;

/// A noded played by the test, which answers orders as it is told to.
struct Played {
    sandbox: Sandbox,
    heard: Heard,
}

impl Played {
    fn new(launch: &str, answer: impl Fn(&Order) -> Vec<Report> + Send + 'static) -> Played {
        let sandbox = Sandbox::new();
        let socket = sandbox.home().join("played.sock");
        let config =
            format!("[launch]\nlogin = false\n{launch}\n[[node]]\nname = \"n1\"\nsocket = \"{}\"\n", socket.display());
        fs::write(sandbox.home().join("lanai.toml"), config).unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        let heard = Heard::default();
        let notes = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                converse(stream.unwrap(), &notes, &answer);
            }
        });
        Played { sandbox, heard }
    }

    /// The orders to start, as job and attempt, and when they came.
    fn starts(&self) -> Vec<(Instant, u64, u32)> {
        let heard = self.heard.lock().unwrap();
        let start = |(at, order): &(Instant, Order)| match order {
            Order::Start(launch) => Some((*at, launch.job.number, launch.attempt)),
            _ => None,
        };
        heard.iter().filter_map(start).collect()
    }

    /// When an attempt of a job was told to end.
    fn cancelled(&self, number: u64, wanted: u32) -> Option<Instant> {
        let heard = self.heard.lock().unwrap();
        let is_it = |order: &Order| matches!(order, Order::Cancel { job, attempt, .. } if job.number == number && *attempt == wanted);
        heard.iter().find(|(_, order)| is_it(order)).map(|(at, _)| *at)
    }

    /// Nothing of the node counts as taken.
    #[track_caller]
    fn is_free(&self) {
        let text = self.sandbox.run("pbsnodes", &["n1"]).ok();
        assert!(text.contains("state = free") && text.contains("resources_assigned.ncpus = 0"), "{text}");
    }
}

fn converse(mut stream: UnixStream, heard: &Heard, answer: &impl Fn(&Order) -> Vec<Report>) {
    while let Ok(order) = frame::read::<Order>(&mut stream) {
        heard.lock().unwrap().push((Instant::now(), order.clone()));
        let reports = match &order {
            Order::Hello { .. } => vec![Report::Hello { boot: "b".into(), nodes: vec![facts()], attempts: vec![] }],
            Order::Ping => vec![Report::Pong],
            order => answer(order),
        };
        for report in reports {
            let _ = frame::write(&mut stream, &report);
        }
    }
}

fn facts() -> NodeFacts {
    let available = [
        ("ncpus".to_string(), Value::Long(4)),
        ("mem".to_string(), Value::Size(Size::parse("4gb").unwrap())),
        ("host".to_string(), Value::String("n1".into())),
        ("vnode".to_string(), Value::String("n1".into())),
    ];
    NodeFacts { name: "n1".into(), host: "n1".into(), available: available.into(), pcpus: 4, ..NodeFacts::default() }
}

fn over(job: JobId, attempt: u32, how: How) -> Report {
    let outcome = Outcome { how, sent: None, used: Default::default(), notes: Vec::new() };
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
