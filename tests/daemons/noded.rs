//! The real noded, in a folder of its own, running real jobs.

use lanai::model::job::run_limits::{RunLimit, TimeLimits};
use lanai::model::job::{Attempt, How, Join, Outcome, Owner, Share, TaskNumber};
use lanai::model::job_id::JobId;
use lanai::model::resource::{Size, Value};
use lanai::model::time::Span;
use lanai::sys::{process, procfs, user};
use lanai::wire::frame;
use lanai::wire::message::Payload;
use lanai::wire::order::{Launch, Notification, Order, Report, Standing};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// With control groups, where they can be made, and without.
const FENCES: [&[&str]; 2] = [&[], &["--no-cgroups"]];

struct Node {
    folder: tempfile::TempDir,
    daemon: Child,
    stream: UnixStream,
    heard: Vec<(JobId, Standing)>,
}

impl Node {
    fn start() -> Node {
        Node::with(&[])
    }

    fn with(options: &[&str]) -> Node {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let daemon = daemon(folder.path(), options);
        let stream = dial(folder.path());
        let mut node = Node {
            folder,
            daemon,
            stream,
            heard: Vec::new(),
        };
        assert_eq!(node.greet(1), []);
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Kills noded where it stands and starts it again.
    fn restart(&mut self) -> Vec<(JobId, Attempt, TaskNumber, Standing)> {
        self.daemon.kill().unwrap();
        self.daemon.wait().unwrap();
        self.daemon = daemon(self.folder.path(), &[]);
        self.stream = dial(self.folder.path());
        self.greet(1)
    }

    fn greet(&mut self, epoch: u64) -> Vec<(JobId, Attempt, TaskNumber, Standing)> {
        self.order(Order::Hello { epoch });
        self.heard.clear();
        loop {
            // What was on its way is said again in the greeting.
            match self.next() {
                Report::Hello { attempts, .. } => return attempts,
                Report::Attempt(..) | Report::Usage(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn order(&mut self, order: Order) {
        frame::write(&mut self.stream, &order).unwrap();
    }

    fn next(&mut self) -> Report {
        frame::read(&mut self.stream).unwrap()
    }

    /// The next standing of a job; those of others are kept for later.
    fn standing(&mut self, job: u64) -> Standing {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(30) {
            if let Some(at) = self.heard.iter().position(|(id, _)| *id == JobId::job(job)) {
                return self.heard.remove(at).1;
            }
            if let Report::Attempt(id, _, 0, standing) = self.next() {
                self.heard.push((id, standing));
            }
        }
        panic!("nothing is said of job {job}");
    }

    fn running(&mut self, job: u64) -> u32 {
        match self.standing(job) {
            Standing::Running(session) => session,
            other => panic!("{other:?}"),
        }
    }

    fn ended(&mut self, job: u64) -> Outcome {
        loop {
            if let Standing::Ended(outcome) = self.standing(job) {
                return outcome;
            }
        }
    }

    fn run(&mut self, launch: Launch) -> Outcome {
        let job = launch.job.number;
        self.order(Order::Start(Box::new(launch)));
        self.ended(job)
    }

    /// A program of the caller's own, to be notified.
    fn program(&self, name: &str, text: &str) -> PathBuf {
        let program = self.path(name);
        fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    fn notify(&mut self, token: u64, program: &Path) {
        let own = user::own();
        let owner = Owner {
            user: own.name,
            uid: own.uid,
            gid: own.gid,
        };
        let notification = Notification {
            token,
            owner,
            program: program.into(),
            document: Vec::new(),
        };
        self.order(Order::Notify(Box::new(notification)));
    }

    /// The next program that was notified, and why it failed.
    fn notified(&mut self) -> (u64, Option<String>) {
        loop {
            if let Report::Notified { token, why } = self.next() {
                return (token, why);
            }
        }
    }

    fn cancel(&mut self, job: u64, grace: Span) {
        self.order(Order::Cancel {
            job: JobId::job(job),
            attempt: 1,
            task: 0,
            grace,
            signal: None,
            again: false,
        });
    }

    /// Ends a job that is to run again.
    fn put_back(&mut self, job: u64, signal: Option<i32>) {
        let grace = Span::seconds(60);
        self.order(Order::Cancel {
            job: JobId::job(job),
            attempt: 1,
            task: 0,
            grace,
            signal,
            again: true,
        });
    }

    fn confirm(&mut self, job: u64) {
        self.order(Order::Confirm {
            job: JobId::job(job),
            attempt: 1,
            task: 0,
        });
        self.order(Order::Ping);
        while !matches!(self.next(), Report::Pong) {}
    }

    /// A job of the caller's own that runs this script.
    fn script(&self, job: u64, text: &str) -> Launch {
        let own = user::own();
        let share = Share {
            node: "n1".into(),
            host: "n1".into(),
            taken: vec![("ncpus".into(), Value::Long(1))],
            cpus: Vec::new(),
            gpus: Vec::new(),
            mpiprocs: 2,
            pooled: vec![],
            ranks: vec![],
        };
        Launch {
            job: JobId::job(job),
            attempt: 1,
            full_id: format!("{job}.test-{}", std::process::id()),
            name: "name".into(),
            queue: "workq".into(),
            account: None,
            owner: Owner {
                user: own.name,
                uid: own.uid,
                gid: own.gid,
            },
            payload: Payload::Script(format!("#!/bin/sh\n{text}\n").into_bytes()),
            arguments: Default::default(),
            shell: None,
            login: false,
            interactive: false,
            environ: b"GIVEN=yes\0PATH=/usr/bin:/bin\0".to_vec(),
            workdir: self.folder.path().to_str().unwrap().into(),
            output: self.path(&format!("{job}.o")).to_str().unwrap().into(),
            error: self.path(&format!("{job}.e")).to_str().unwrap().into(),
            join: Join::No,
            umask: None,
            walltime: None,
            overrun: Span(0),
            grace: Span(300),
            staging_timeout: Span::seconds(60),
            shares: vec![share],
            threads: 1,
            limits: Default::default(),
            responses: Default::default(),
            files: Default::default(),
            groups: None,
            place: Default::default(),
            checkpoints: None,
            rites: None,
        }
    }

    fn spawner(&self) -> i32 {
        let daemon = self.daemon.id() as i32;
        wait_for(|| {
            procfs::all()
                .into_iter()
                .find(|p| p.parent == daemon && p.lives())
                .map(|p| p.pid)
        })
    }

    fn shepherd(&self, job: u64) -> i32 {
        let record = self.read(&format!("state/attempts/{job}.1/record"));
        let identity: serde_json::Value = serde_json::from_str(&record[..512]).unwrap();
        identity["pid"].as_i64().unwrap() as i32
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn daemon(folder: &Path, options: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_noded"));
    command
        .args(["--foreground", "--name", "n1", "--socket"])
        .arg(folder.join("s.sock"));
    command
        .arg("--state")
        .arg(folder.join("state"))
        .args(options);
    let log = fs::File::options()
        .append(true)
        .create(true)
        .open(folder.join("log"))
        .unwrap();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn dial(folder: &Path) -> UnixStream {
    let socket = folder.join("s.sock");
    let stream = wait_for(|| UnixStream::connect(&socket).ok());
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

fn wait_for<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = what() {
            return found;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it did not happen in time"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn lives(pid: i32) -> bool {
    procfs::process(pid).is_some_and(|p| p.lives())
}

fn signal(pid: i32, name: &str) {
    let signal: nix::sys::signal::Signal = format!("SIG{name}").parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
}

fn kill(pid: i32) {
    assert!(lanai::sys::process::send_signal(pid, 9));
}

/// A number the job wrote into a file, once it is there.
fn number(node: &Node, file: &str) -> i32 {
    wait_for(|| node.read(file).trim().parse().ok())
}

/// A daemon that leaves the session, has no parent in the job, ignores TERM and holds nothing open.
fn daemon_of_a_job(file: &str) -> String {
    format!(
        "( trap '' TERM HUP; exec >/dev/null 2>&1 </dev/null; setsid sh -c 'trap \"\" TERM; echo $$ > {file}; \
         while :; do sleep 1; done' & ) & "
    )
}

#[test]
fn a_job_runs_with_its_environment_and_its_outcome_is_kept_until_confirmed() {
    let mut node = Node::start();
    let text = "echo out $GIVEN $PBS_JOBNAME $NCPUS; cat $PBS_NODEFILE; echo err >&2; stat -c %a $TMPDIR; exit 3";
    let outcome = node.run(node.script(1, text));
    assert_eq!((outcome.how, outcome.sent), (How::Exited(3), None));
    assert_eq!(outcome.used.ncpus, 1);
    assert_eq!(node.read("1.o"), "out yes name 1\nn1\nn1\n700\n");
    assert_eq!(node.read("1.e"), "err\n");
    assert_eq!(
        fs::metadata(node.path("1.o")).unwrap().mode() & 0o777,
        0o600
    );
    let again = node.greet(1);
    assert!(
        matches!(&again[..], [(JobId { number: 1, .. }, 1, 0, Standing::Ended(o))] if o.how == How::Exited(3)),
        "{again:?}"
    );
    assert!(matches!(
        &node.restart()[..],
        [(JobId { number: 1, .. }, 1, 0, Standing::Ended(_))]
    ));
    node.confirm(1);
    assert_eq!(node.greet(1), []);
    assert_eq!(
        fs::read_dir(node.path("state/attempts")).unwrap().count(),
        0
    );
}

#[test]
fn a_node_tells_how_much_of_it_is_in_use() {
    let mut node = Node::start();
    node.order(Order::Hello { epoch: 2 });
    let Report::Hello { nodes, .. } = node.next() else {
        panic!("no greeting")
    };
    let used = |name: &str| nodes[0].utilized[name].amount().unwrap();
    let all = nodes[0].available["mem"].amount().unwrap();
    assert!(used("mem") > 0 && used("mem") < all, "{nodes:?}");
    assert!(
        used("ncpus") >= 0 && used("ncpus") <= i64::from(nodes[0].load).div_euclid(1000) + 1,
        "{nodes:?}"
    );
}

#[test]
fn joined_output_keeps_its_order_and_a_folder_gets_the_usual_name() {
    let mut node = Node::start();
    fs::create_dir(node.path("out")).unwrap();
    let output = node.path("out").to_str().unwrap().into();
    let launch = Launch {
        join: Join::Output,
        output,
        ..node.script(1, "echo a; echo b >&2; echo c")
    };
    let file = format!("out/{}.OU", launch.full_id);
    assert_eq!(node.run(launch).how, How::Exited(0));
    assert_eq!(node.read(&file), "a\nb\nc\n");
    assert!(!node.path("1.e").exists());
}

#[test]
fn a_large_script_fits() {
    let mut node = Node::start();
    let padding = "# 0123456789\n".repeat(100_000);
    assert_eq!(
        node.run(node.script(1, &format!("{padding}exit 7"))).how,
        How::Exited(7)
    );
}

#[test]
fn after_a_cancel_nothing_of_the_job_is_left() {
    for options in FENCES {
        let mut node = Node::with(options);
        let text = format!(
            "trap '' TERM; {} while :; do sleep 1; done",
            daemon_of_a_job("pid")
        );
        node.order(Order::Start(Box::new(node.script(1, &text))));
        node.running(1);
        let stray = number(&node, "pid");
        node.cancel(1, Span(200));
        let outcome = node.ended(1);
        assert_eq!((outcome.how, outcome.sent), (How::Signaled(9), Some(15)));
        assert!(!lives(stray));
    }
}

#[test]
fn a_daemon_left_behind_is_gone_when_the_script_ends() {
    for options in FENCES {
        let mut node = Node::with(options);
        let text = format!(
            "{} while [ ! -s pid ]; do sleep 0.01; done",
            daemon_of_a_job("pid")
        );
        assert_eq!(node.run(node.script(1, &text)).how, How::Exited(0));
        assert!(!lives(number(&node, "pid")));
    }
}

#[test]
fn a_job_over_its_walltime_is_told_and_ended() {
    let mut node = Node::start();
    let launch = Launch {
        walltime: Some(Span(1000)),
        ..node.script(1, "sleep 60")
    };
    let outcome = node.run(launch);
    assert!(
        matches!(
            outcome.how,
            How::Overran {
                limit: Span(1000),
                ..
            }
        ),
        "{outcome:?}"
    );
    assert_eq!(outcome.sent, Some(15));
    assert_eq!(
        node.read("1.e"),
        "=>> PBS: job killed: walltime 1 exceeded limit 1\n"
    );
}

#[test]
fn a_walltime_can_be_changed_while_the_job_runs() {
    let mut node = Node::start();
    node.order(Order::Start(Box::new(node.script(1, "sleep 60"))));
    node.running(1);
    node.order(Order::Walltime {
        job: JobId::job(1),
        attempt: 1,
        times: TimeLimits {
            walltime: Some(Span(100)),
            ..TimeLimits::default()
        },
    });
    assert!(matches!(
        node.ended(1).how,
        How::Overran {
            limit: Span(100),
            ..
        }
    ));
}

#[test]
fn a_signal_reaches_the_script() {
    let mut node = Node::start();
    let text = "trap 'echo caught; exit 5' USR1; echo ready > ready; while :; do sleep 0.05; done";
    node.order(Order::Start(Box::new(node.script(1, text))));
    node.running(1);
    wait_for(|| (node.read("ready") == "ready\n").then_some(()));
    node.order(Order::Signal {
        job: JobId::job(1),
        attempt: 1,
        task: 0,
        signal: 10,
    });
    let outcome = node.ended(1);
    assert_eq!((outcome.how, outcome.sent), (How::Exited(5), Some(10)));
    assert!(node.read("1.o").contains("caught"));
}

#[test]
fn a_real_time_signal_ends_a_job_like_any_other() {
    for options in FENCES {
        let mut node = Node::with(options);
        let text = format!(
            "{} while [ ! -s pid ]; do sleep 0.01; done; kill -40 $$",
            daemon_of_a_job("pid")
        );
        assert_eq!(node.run(node.script(1, &text)).how, How::Signaled(40));
        assert!(!lives(number(&node, "pid")));
    }
}

#[test]
fn a_jobs_private_folder_goes_and_its_descriptors_are_as_many_as_usual() {
    lanai::sys::process::raise_descriptor_limit();
    let mut node = Node::start();
    let text = "mkdir $TMPDIR/d; touch $TMPDIR/d/x; echo $TMPDIR; ulimit -Sn";
    assert_eq!(node.run(node.script(1, text)).how, How::Exited(0));
    let output = node.read("1.o");
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines[1].parse::<u64>().unwrap() <= 1024, "{output}");
    wait_for(|| (!Path::new(lines[0]).exists()).then_some(()));
}

#[test]
fn what_was_cancelled_before_its_start_never_runs() {
    let mut node = Node::start();
    node.cancel(1, Span(0));
    assert_eq!(node.ended(1).how, How::Cancelled);
    node.restart();
    assert_eq!(node.run(node.script(1, "touch ran")).how, How::Cancelled);
    assert!(!node.path("ran").exists());
}

#[test]
fn a_start_said_many_times_runs_once() {
    let mut node = Node::start();
    let launch = node.script(1, "echo x >> ran; sleep 0.2");
    for _ in 0..5 {
        node.order(Order::Start(Box::new(launch.clone())));
    }
    node.ended(1);
    node.order(Order::Start(Box::new(launch.clone())));
    node.ended(1);
    node.restart();
    assert_eq!(node.run(launch).how, How::Exited(0));
    assert_eq!(node.read("ran"), "x\n");
}

#[test]
fn a_noded_killed_meanwhile_adopts_what_runs_and_learns_what_ended() {
    let mut node = Node::start();
    node.order(Order::Start(Box::new(
        node.script(1, "while [ ! -e go ]; do sleep 0.02; done; exit 4"),
    )));
    node.order(Order::Start(Box::new(
        node.script(2, "while [ ! -e go2 ]; do sleep 0.02; done; exit 5"),
    )));
    let first = node.running(1);
    node.running(2);
    let shepherd = node.shepherd(2);
    node.daemon.kill().unwrap();
    fs::write(node.path("go2"), "").unwrap();
    wait_for(|| (!lives(shepherd)).then_some(()));
    let found = node.restart();
    assert_eq!(found[0], (JobId::job(1), 1, 0, Standing::Running(first)));
    assert!(
        matches!(&found[1].3, Standing::Ended(o) if o.how == How::Exited(5)),
        "{found:?}"
    );
    fs::write(node.path("go"), "").unwrap();
    assert_eq!(node.ended(1).how, How::Exited(4));
}

#[test]
fn an_adopted_job_can_be_cancelled() {
    let mut node = Node::start();
    node.order(Order::Start(Box::new(node.script(1, "sleep 60"))));
    node.running(1);
    node.restart();
    node.cancel(1, Span(2000));
    let outcome = node.ended(1);
    assert_eq!((outcome.how, outcome.sent), (How::Signaled(15), Some(15)));
}

/// Starts jobs that say when they are told to end, and go on until they may, to end with 0.
fn lingering(node: &mut Node, jobs: impl IntoIterator<Item = u64>) {
    for job in jobs {
        let text = format!(
            "trap 'echo told >told{job}' TERM USR1; echo text; while [ ! -e go ]; do sleep 0.02; done"
        );
        let launch = Launch {
            grace: Span::seconds(60),
            ..node.script(job, &format!("{text}; exit 0"))
        };
        node.order(Order::Start(Box::new(launch)));
        node.running(job);
        wait_for(|| (node.read(&format!("{job}.o.{job}.part")) == "text\n").then_some(()));
    }
}

/// Which of these jobs have their output at its place, once they are over.
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

/// A noded that was killed after it had told a job to end leaves to the next one what that end
/// means.
#[test]
fn who_is_told_to_end_and_run_again_is_told_so_after_a_restart_too() {
    let mut node = Node::start();
    lingering(&mut node, 1..=2);
    // By signal it may come to its end in time, which only its exit status tells.
    for (job, signal) in [(1, None), (2, Some(10))] {
        node.put_back(job, signal);
        wait_for(|| node.path(&format!("told{job}")).exists().then_some(()));
    }
    node.restart();
    for job in [1, 2] {
        let orders = format!("state/attempts/{job}.1/orders");
        wait_for(|| (node.read(&orders).matches("cancel").count() == 2).then_some(()));
    }
    assert_eq!(delivered(&mut node, [1, 2]), [false, true]);
}

/// On a disk that two hosts share, where the one was lost and its job runs on.
#[test]
fn an_attempt_that_has_been_given_up_brings_nothing_of_its_successors_to_its_place() {
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
    let writes = |text: &str| {
        drop(wait_for(|| {
            fs::read_to_string(&part).ok().filter(|found| found == text)
        }))
    };
    fs::write(lost.path("1.o"), "old").unwrap();
    lost.order(Order::Start(Box::new(first)));
    writes("first\n");
    next.order(Order::Start(Box::new(second)));
    writes("second\n");
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

/// Where the disk has no room for an order to end, nothing of it is left to be taken for a part of
/// the next one.
#[test]
fn an_order_to_end_that_finds_no_room_on_disk_says_all_the_same_whether_the_job_runs_again() {
    let mut node = Node::start();
    lingering(&mut node, 1..=3);
    // Nothing can be written there.
    let orders = |node: &Node, job: u64| node.path(&format!("state/attempts/{job}.1/orders"));
    (1..=3).for_each(|job| fs::create_dir(orders(&node, job)).unwrap());
    for (job, signal) in [(1, None), (2, Some(10)), (3, None)] {
        node.put_back(job, signal);
        wait_for(|| node.path(&format!("told{job}")).exists().then_some(()));
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
fn a_spawner_killed_at_any_moment_costs_nothing() {
    let mut node = Node::start();
    for job in 1..=60 {
        node.order(Order::Start(Box::new(
            node.script(job, &format!("echo x >> ran.{job}")),
        )));
        if job % 20 == 10 {
            let spawner = node.spawner();
            kill(spawner);
            // Else it may be found again, dying, in place of the next one.
            wait_for(|| (!lives(spawner)).then_some(()));
        }
    }
    for job in 1..=60 {
        assert_eq!(node.ended(job).how, How::Exited(0));
        assert_eq!(node.read(&format!("ran.{job}")), "x\n", "job {job}");
    }
}

#[test]
fn a_shepherd_that_is_killed_is_noticed_and_its_job_is_gone() {
    for options in FENCES {
        let mut node = Node::with(options);
        let text = format!("{} sleep 60", daemon_of_a_job("pid"));
        node.order(Order::Start(Box::new(node.script(1, &text))));
        let session = node.running(1) as i32;
        let stray = number(&node, "pid");
        kill(node.shepherd(1));
        assert_eq!(node.ended(1).how, How::ShepherdLost);
        wait_for(|| (!lives(session) && !lives(stray)).then_some(()));
    }
}

#[test]
fn what_cannot_start_says_what_failed_on_what_and_why() {
    let mut node = Node::start();
    let text = |text: &str| Payload::Script(text.as_bytes().to_vec());
    let cases = [
        (
            Launch {
                workdir: "/no/such".into(),
                ..node.script(1, "")
            },
            127,
            "working directory: /no/such: No such file",
        ),
        (
            Launch {
                payload: text("#!/no/interp\n"),
                ..node.script(2, "")
            },
            127,
            "interpreter: /no/interp: No such file",
        ),
        (
            Launch {
                shell: Some("/etc/passwd".into()),
                login: true,
                ..node.script(3, "")
            },
            254,
            "interpreter: /etc/passwd: Permission",
        ),
        (
            Launch {
                payload: Payload::Command(vec!["no-such-cmd".into()]),
                ..node.script(5, "")
            },
            254,
            "command: no-such-cmd: No such file",
        ),
        (
            Launch {
                payload: Payload::Command(Vec::new()),
                ..node.script(6, "")
            },
            254,
            "command: : No such file",
        ),
    ];
    for (launch, expected, text) in cases {
        let error = format!("{}.e", launch.job);
        match node.run(launch).how {
            How::CannotStart { status, why } => {
                assert_eq!(status, expected, "{why}");
                assert!(why.starts_with(text), "{why}");
                assert!(node.read(&error).contains(text), "{}", node.read(&error));
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    let stranger = Owner {
        user: "no-such-user".into(),
        uid: 54_321,
        gid: 1,
    };
    let outcome = node.run(Launch {
        owner: stranger,
        ..node.script(7, "touch ran")
    });
    match user::effective() {
        0 => assert!(matches!(outcome.how, How::NodeFault(_)), "{outcome:?}"),
        _ => assert!(
            matches!(outcome.how, How::CannotStart { status: 127, .. }),
            "{outcome:?}"
        ),
    }
    assert!(!node.path("ran").exists());
}

#[test]
fn memory_and_processor_time_are_bounded_with_and_without_control_groups() {
    for options in FENCES {
        let mut node = Node::with(options);
        // What takes the memory has lost its parent.
        let mut hog = node.script(1, "(head -c 400m /dev/zero | tail &) ; sleep 60");
        hog.shares[0]
            .taken
            .push(("mem".into(), Value::Size(Size::megabytes(60))));
        let outcome = node.run(hog);
        match outcome.how {
            How::Exceeded {
                bound: RunLimit::Mem,
                used,
                limit: 61_440,
            } if used > 61_440 => {
                assert!(outcome.used.mem_kb >= used.unsigned_abs(), "{outcome:?}");
            }
            _ => panic!("{options:?}: {outcome:?}"),
        }
        let mut busy = node.script(2, "while :; do :; done & while :; do :; done");
        busy.limits.cput = Some(Span(1500));
        let outcome = node.run(busy);
        match outcome.how {
            How::Exceeded {
                bound: RunLimit::Cput,
                used,
                limit: 1500,
            } => assert!(used > 1500, "{outcome:?}"),
            _ => panic!("{options:?}: {outcome:?}"),
        }
        assert!(
            node.read("2.e")
                .starts_with("=>> PBS: job killed: cput 1 exceeded limit 1\n"),
            "{}",
            node.read("2.e")
        );
    }
}

#[test]
fn a_command_is_run_without_a_shell() {
    let mut node = Node::start();
    let words = ["printf", "%s|", "a b", "$HOME"].map(Into::into).to_vec();
    let outcome = node.run(Launch {
        payload: Payload::Command(words),
        ..node.script(1, "")
    });
    assert_eq!(outcome.how, How::Exited(0));
    assert_eq!(node.read("1.o"), "a b|$HOME|");
}

#[test]
fn a_schedd_of_an_earlier_epoch_is_not_followed() {
    let mut node = Node::start();
    node.greet(7);
    node.stream = dial(node.folder.path());
    node.order(Order::Hello { epoch: 6 });
    assert!(matches!(node.next(), Report::Fenced { epoch: 7 }));
    node.daemon.kill().unwrap();
    node.daemon.wait().unwrap();
    node.daemon = daemon(node.folder.path(), &[]);
    node.stream = dial(node.folder.path());
    node.order(Order::Hello { epoch: 6 });
    assert!(matches!(node.next(), Report::Fenced { epoch: 7 }));
}

#[test]
fn a_schedd_that_says_leave_and_waits_for_no_answer_is_obeyed() {
    let mut node = Node::start();
    let daemon = node.daemon.id() as i32;
    signal(daemon, "STOP");
    let mut hasty = dial(node.folder.path());
    frame::write(&mut hasty, &Order::Hello { epoch: 2 }).unwrap();
    frame::write(&mut hasty, &Order::Leave).unwrap();
    drop(hasty);
    signal(daemon, "CONT");
    wait_for(|| node.daemon.try_wait().unwrap());
}

#[test]
fn the_second_noded_in_a_folder_refuses() {
    let node = Node::start();
    let mut second = Command::new(env!("CARGO_BIN_EXE_noded"));
    second
        .args(["--foreground", "--socket"])
        .arg(node.path("t.sock"))
        .arg("--state")
        .arg(node.path("state"));
    let output = second.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains(&format!("another noded (process {})", node.daemon.id())),
        "{said}"
    );
}

#[test]
fn garbage_on_the_socket_disturbs_nobody() {
    use std::io::Write;
    let mut node = Node::start();
    for _ in 0..30 {
        let mut stranger = UnixStream::connect(node.path("s.sock")).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    }
    assert_eq!(node.run(node.script(1, "exit 2")).how, How::Exited(2));
}

#[test]
fn in_the_background_it_holds_nothing_of_its_caller_and_leaves_when_idle() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_noded"));
    command
        .args(["--exit-when-idle", "1", "--socket"])
        .arg(folder.path().join("s.sock"));
    // Returns only when nobody holds the pipe any more.
    let output = command
        .arg("--state")
        .arg(folder.path().join("state"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let socket = folder.path().join("s.sock");
    assert!(UnixStream::connect(&socket).is_ok());
    wait_for(|| (!socket.exists()).then_some(()));
}

#[test]
fn pretended_jobs_run_without_processes() {
    let mut node = Node::with(&["--hollow", "--nodes", "3"]);
    let environ = b"HOLLOW_RUNTIME=0.2\0".to_vec();
    let outcome = node.run(Launch {
        environ,
        ..node.script(1, "touch ran")
    });
    assert_eq!(outcome.how, How::Exited(0));
    assert!(!node.path("ran").exists());
}

#[test]
#[ignore = "measures"]
fn launches_per_second() {
    for options in FENCES {
        let mut node = Node::with(options);
        let begun = Instant::now();
        for job in 1..=500 {
            node.order(Order::Start(Box::new(node.script(job, "exit 0"))));
        }
        for job in 1..=500 {
            node.ended(job);
        }
        let rate = 500.0 / begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        for job in 501..=600 {
            node.order(Order::Start(Box::new(node.script(job, "exit 0"))));
            node.running(job);
            node.ended(job);
        }
        println!(
            "{options:?}: {rate:.0} jobs a second, {:?} each one after another",
            begun.elapsed() / 100
        );
    }
}

/// A process that makes others wait who open a file: it has a lease on the file and does not give
/// it up. The kernel takes the lease away after `/proc/sys/fs/lease-break-time`.
struct Lease(Child);

impl Lease {
    fn on(path: &Path) -> Lease {
        let script = "use Fcntl qw(F_SETLEASE F_WRLCK); $| = 1; $SIG{IO} = 'IGNORE'; open(F, '<', $ARGV[0]) or die $!; \
                      until (fcntl(F, F_SETLEASE, F_WRLCK)) { $!{EAGAIN} or die $!; select(undef, undef, undef, .01) } \
                      print \"held\\n\"; sleep 1000";
        let mut holder = Command::new("perl")
            .args(["-e", script])
            .arg(path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "held\n");
        Lease(holder)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_notified_program_whose_file_does_not_respond_is_ended_in_time() {
    let lasts = fs::read_to_string("/proc/sys/fs/lease-break-time")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    if !Path::new("/usr/bin/perl").exists() || lasts.is_none_or(|seconds: u64| seconds < 40) {
        return println!("skipped: needs perl and a lease-break-time of 40 s");
    }
    let mut node = Node::start();
    let program = node.program("program", "exit 0");
    let lease = Lease::on(&program);
    node.stream
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    node.notify(1, &program);
    let (token, why) = node.notified();
    let expected = format!(
        "{} of {}: it took longer than 30 s",
        program.display(),
        user::own().name
    );
    assert_eq!((token, why), (1, Some(expected)));
    let noded = node.daemon.id() as i32;
    let left: Vec<_> = procfs::descendants(noded)
        .into_iter()
        .filter(|p| p.parent != noded)
        .collect();
    assert!(left.is_empty(), "all its processes have ended: {left:?}");
    drop(lease);
    node.notify(2, &program);
    assert_eq!(node.notified(), (2, None));
}

#[test]
fn programs_of_one_user_leave_room_for_those_of_others() {
    let mut node = Node::start();
    let program = node.program("program", "until [ -e ${0%/*}/go ]; do sleep .1; done");
    (1..=5).for_each(|token| node.notify(token, &program));
    let (token, why) = node.notified();
    let why = why.unwrap();
    assert!(
        token == 5 && why.ends_with(": it was not started: 4 programs of this user run already"),
        "{token} {why}"
    );
    fs::write(node.path("go"), "").unwrap();
    let mut others: Vec<_> = (1..=4).map(|_| node.notified()).collect();
    others.sort();
    assert_eq!(others, [(1, None), (2, None), (3, None), (4, None)]);
    node.notify(6, &program);
    assert_eq!(node.notified(), (6, None));
}

#[test]
fn a_notified_program_that_loses_its_supervisor_is_named() {
    let mut node = Node::start();
    let program = node.program(
        "program",
        "echo $$ > ${0%/*}/pid.new; mv ${0%/*}/pid.new ${0%/*}/pid; sleep 1000",
    );
    node.notify(1, &program);
    let pid = wait_for(|| node.read("pid").trim().parse().ok());
    let noded = node.daemon.id() as i32;
    let parent = |pid: &i32| procfs::process(*pid).map(|process| process.parent);
    let supervisor = std::iter::successors(Some(pid), parent)
        .find(|pid| parent(pid) == Some(noded))
        .unwrap();
    process::end(supervisor);
    let expected = format!(
        "{} of {}: it was killed",
        program.display(),
        user::own().name
    );
    assert_eq!(node.notified(), (1, Some(expected)));
    wait_for(|| {
        procfs::process(pid)
            .is_none_or(|process| !process.lives())
            .then_some(())
    });
}

#[test]
fn root_runs_jobs_as_their_owners() {
    if user::effective() != 0 {
        return println!("skipped: needs root");
    }
    let name = format!("lanai-t{}", std::process::id() % 10_000);
    let made = Command::new("useradd")
        .args([
            "--no-create-home",
            "--shell",
            "/bin/bash",
            "--user-group",
            "--groups",
            "daemon",
            &name,
        ])
        .status();
    if !made.is_ok_and(|status| status.success()) {
        return println!("skipped: needs useradd");
    }
    let result = std::panic::catch_unwind(|| as_owner(&name));
    let _ = Command::new("userdel").arg(&name).status();
    result.unwrap();
}

fn as_owner(name: &str) {
    let mut node = Node::with(&["--shared"]);
    let account = user::named(name).unwrap().unwrap();
    let owner = Owner {
        user: name.into(),
        uid: account.uid,
        gid: account.gid,
    };
    let theirs = node.path("theirs");
    fs::create_dir(&theirs).unwrap();
    std::os::unix::fs::chown(&theirs, Some(account.uid), Some(account.gid)).unwrap();
    let place = |file: &str| theirs.join(file).to_str().unwrap().into();
    let own = |launch: Launch| Launch {
        owner: owner.clone(),
        workdir: place(""),
        output: place("out"),
        error: place("err"),
        ..launch
    };
    let text = "id -un; id -Gn; grep NoNewPrivs /proc/self/status; touch $TMPDIR/x; cat $PBS_NODEFILE; ls -d $0";
    assert_eq!(
        node.run(own(node.script(1, text))).how,
        How::Exited(0),
        "{}",
        node.read("theirs/err")
    );
    let output = node.read("theirs/out");
    assert!(
        output.starts_with(&format!("{name}\n{name} daemon\nNoNewPrivs:\t1\nn1\nn1\n")),
        "{output}"
    );
    assert_eq!(fs::metadata(theirs.join("out")).unwrap().uid(), account.uid);

    // Under a login shell without a profile; the tester's own may do anything.
    let login = Launch {
        login: true,
        ..own(node.script(5, "echo $$; ps -o args= -p $$"))
    };
    node.order(Order::Start(Box::new(login)));
    let session = node.running(5);
    assert_eq!(
        node.ended(5).how,
        How::Exited(0),
        "{}",
        node.read("theirs/err")
    );
    let output = node.read("theirs/out");
    assert!(
        output.starts_with(&format!("{session}\n/bin/sh ")),
        "the login shell is gone: {output}"
    );

    let script = node.path("state/attempts/1.1/script");
    let mode = fs::metadata(script).unwrap().mode() & 0o777;
    assert_eq!(mode, 0o500, "nobody else reads a script");

    fs::write(node.path("secret"), "kept").unwrap();
    symlink(node.path("secret"), theirs.join("trap")).unwrap();
    let trapped = Launch {
        output: place("trap"),
        ..own(node.script(2, "echo overwritten"))
    };
    let outcome = node.run(trapped);
    assert!(
        matches!(&outcome.how, How::CannotStart { why, .. } if why.contains("Permission denied")),
        "{outcome:?}"
    );
    assert_eq!(node.read("secret"), "kept");

    let outcome = node.run(node.script(3, "touch ran"));
    assert!(
        matches!(&outcome.how, How::CannotStart { why, .. } if why.contains("shared")),
        "{outcome:?}"
    );
    let wrong = Owner {
        uid: account.uid + 1,
        ..owner.clone()
    };
    let outcome = node.run(Launch {
        owner: wrong,
        ..own(node.script(4, "true"))
    });
    assert!(
        matches!(&outcome.how, How::NodeFault(why) if why.contains("has number")),
        "{outcome:?}"
    );
}
