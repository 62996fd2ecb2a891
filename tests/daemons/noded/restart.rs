//! No attempt is lost if noded, the spawner or a shepherd is killed.

use super::{CGROUP_OPTIONS, Node, daemon_of_a_job, is_alive, kill, number, wait_for};
use lanai::model::job::How;
use lanai::model::job_id::JobId;
use lanai::model::time::Span;
use lanai::wire::order::{AttemptStatus, Launch, ScheddOrder};
use std::fs;

#[test]
fn a_restarted_noded_adopts_running_jobs_and_reports_ended_ones() {
    let mut node = Node::start();
    node.order(ScheddOrder::Start(Box::new(
        node.script(1, "while [ ! -e go ]; do sleep 0.02; done; exit 4"),
    )));
    node.order(ScheddOrder::Start(Box::new(
        node.script(2, "while [ ! -e go2 ]; do sleep 0.02; done; exit 5"),
    )));
    let first = node.running(1);
    node.running(2);
    let shepherd = node.shepherd(2);
    node.daemon.kill().unwrap();
    fs::write(node.path("go2"), "").unwrap();
    wait_for(|| (!is_alive(shepherd)).then_some(()));
    let found = node.restart();
    assert_eq!(
        found[0],
        (JobId::job(1), 1, 0, AttemptStatus::Running(first))
    );
    assert!(
        matches!(&found[1].3, AttemptStatus::Ended(o) if o.how == How::Exited(5)),
        "{found:?}"
    );
    fs::write(node.path("go"), "").unwrap();
    assert_eq!(node.ended(1).how, How::Exited(4));
}

#[test]
fn an_adopted_job_can_be_canceled() {
    let mut node = Node::start();
    node.order(ScheddOrder::Start(Box::new(node.script(1, "sleep 60"))));
    node.running(1);
    node.restart();
    node.cancel(1, Span(2000));
    let outcome = node.ended(1);
    assert_eq!((outcome.how, outcome.sent), (How::Signaled(15), Some(15)));
}

/// Starts jobs that record TERM and USR1 in a file, run until the file `go` exists and exit with 0.
fn lingering(node: &mut Node, jobs: impl IntoIterator<Item = u64>) {
    for job in jobs {
        let text = format!(
            "trap 'echo caught >caught{job}' TERM USR1; echo text; while [ ! -e go ]; do sleep 0.02; done"
        );
        let launch = Launch {
            grace: Span::seconds(60),
            ..node.script(job, &format!("{text}; exit 0"))
        };
        node.order(ScheddOrder::Start(Box::new(launch)));
        node.running(job);
        wait_for(|| (node.read(&format!("{job}.o.{job}.part")) == "text\n").then_some(()));
    }
}

/// Waits for the end of these jobs. Returns for each whether its output was delivered.
fn delivered<const N: usize>(node: &mut Node, jobs: [u64; N]) -> [bool; N] {
    fs::write(node.path("go"), "").unwrap();
    jobs.map(|job| {
        assert_eq!(node.ended(job).how, How::Exited(0));
        let (place, part) = (format!("{job}.o"), format!("{job}.o.{job}.part"));
        let is_there = node.path(&place).exists();
        assert_eq!(
            (
                node.read(if is_there { &place } else { &part }).as_str(),
                node.path(&part).exists()
            ),
            ("text\n", !is_there)
        );
        is_there
    })
}

/// A requeue order stays in effect if noded is killed before the job ends.
#[test]
fn an_end_and_requeue_order_survives_a_restart() {
    let mut node = Node::start();
    lingering(&mut node, 1..=2);
    // Job 2 gets a signal first. If it exits with 0 in response, it has finished and is not
    // requeued.
    for (job, signal) in [(1, None), (2, Some(10))] {
        node.requeue(job, signal);
        wait_for(|| node.path(&format!("caught{job}")).exists().then_some(()));
    }
    node.restart();
    for job in [1, 2] {
        let orders = format!("state/attempts/{job}.1/orders");
        wait_for(|| (node.read(&orders).matches("cancel").count() == 2).then_some(()));
    }
    assert_eq!(delivered(&mut node, [1, 2]), [false, true]);
}

/// Two hosts share a disk. The first was declared lost, but its attempt still runs.
#[test]
fn an_abandoned_attempt_delivers_no_output_of_its_successor() {
    let (mut lost, mut next) = (Node::start(), Node::start());
    let text = |attempt: &str| {
        format!("echo {attempt}; while [ ! -e {attempt} ]; do sleep 0.02; done; echo {attempt}")
    };
    let launch = |attempt: &str| lost.script(1, &text(attempt));
    let (mut first, second) = (
        launch("first"),
        Launch {
            attempt: 2,
            ..launch("second")
        },
    );
    first.files.remove_output = true;
    let part = lost.path("1.o.1.part");
    let wait_for_output = |text: &str| {
        drop(wait_for(|| {
            fs::read_to_string(&part).ok().filter(|found| found == text)
        }))
    };
    fs::write(lost.path("1.o"), "old").unwrap();
    lost.order(ScheddOrder::Start(Box::new(first)));
    wait_for_output("first\n");
    next.order(ScheddOrder::Start(Box::new(second)));
    wait_for_output("second\n");
    fs::write(lost.path("first"), "").unwrap();
    let outcome = lost.ended(1);
    assert!(
        outcome.how == How::Exited(0) && outcome.notes.concat().contains("another attempt"),
        "{outcome:?}"
    );
    assert_eq!(
        (lost.read("1.o"), lost.read("1.o.1.part")),
        ("old".into(), "second\n".into())
    );
    fs::write(lost.path("second"), "").unwrap();
    assert_eq!(next.ended(1).how, How::Exited(0));
    assert_eq!(
        (lost.read("1.o").as_str(), lost.path("1.o.1.part").exists()),
        ("second\nsecond\n", false)
    );
}

/// If the disk is full, no partial end order remains that could be read as part of the next one.
#[test]
fn an_end_order_on_a_full_disk_still_records_whether_the_job_is_requeued() {
    let mut node = Node::start();
    lingering(&mut node, 1..=3);
    // A directory in its place makes the orders file unwritable.
    let orders = |node: &Node, job: u64| node.path(&format!("state/attempts/{job}.1/orders"));
    (1..=3).for_each(|job| fs::create_dir(orders(&node, job)).unwrap());
    for (job, signal) in [(1, None), (2, Some(10)), (3, None)] {
        node.requeue(job, signal);
        wait_for(|| node.path(&format!("caught{job}")).exists().then_some(()));
    }
    fs::remove_dir(orders(&node, 3)).unwrap();
    node.cancel(3, Span::seconds(60));
    wait_for(|| {
        fs::read_to_string(orders(&node, 3))
            .ok()
            .filter(|orders| orders.contains("cancel"))
    });
    assert_eq!(delivered(&mut node, [1, 2, 3]), [false, true, true]);
}

#[test]
fn a_killed_spawner_loses_no_job() {
    let mut node = Node::start();
    for job in 1..=60 {
        node.order(ScheddOrder::Start(Box::new(
            node.script(job, &format!("echo x >> ran.{job}")),
        )));
        if job % 20 == 10 {
            let spawner = node.spawner();
            kill(spawner);
            // Otherwise the dying spawner may be found again in place of its successor.
            wait_for(|| (!is_alive(spawner)).then_some(()));
        }
    }
    for job in 1..=60 {
        assert_eq!(node.ended(job).how, How::Exited(0));
        assert_eq!(node.read(&format!("ran.{job}")), "x\n", "job {job}");
    }
}

#[test]
fn a_killed_shepherd_is_detected_and_its_job_ends() {
    for options in CGROUP_OPTIONS {
        let mut node = Node::with(options);
        let text = format!("{} sleep 60", daemon_of_a_job("pid"));
        node.order(ScheddOrder::Start(Box::new(node.script(1, &text))));
        let session = node.running(1) as i32;
        let stray = number(&node, "pid");
        kill(node.shepherd(1));
        assert_eq!(node.ended(1).how, How::ShepherdLost);
        wait_for(|| (!is_alive(session) && !is_alive(stray)).then_some(()));
    }
}
