//! The real noded with real jobs, in its own directory.

mod connections;
mod limits;
mod notifications;
mod owners;
mod restart;

use lanai::model::job::run_limits::TimeLimits;
use lanai::model::job::{Attempt, AttemptOutcome, How, Join, NodeShare, Owner, TaskNumber};
use lanai::model::job_id::JobId;
use lanai::model::resource::ResourceValue;
use lanai::model::time::Span;
use lanai::sys::{procfs, user};
use lanai::wire::frame;
use lanai::wire::message::Payload;
use lanai::wire::order::{AttemptStatus, Launch, NodeReport, Notification, ScheddOrder};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Options of noded: with control groups, if available, and without.
const CGROUP_OPTIONS: [&[&str]; 2] = [&[], &["--no-cgroups"]];

struct Node {
    folder: tempfile::TempDir,
    daemon: Child,
    stream: UnixStream,
    received: Vec<(JobId, AttemptStatus)>,
}

impl Node {
    fn start() -> Node {
        Node::with(&[])
    }

    fn with(options: &[&str]) -> Node {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let daemon = daemon(folder.path(), options);
        let stream = connect(folder.path());
        let mut node = Node {
            folder,
            daemon,
            stream,
            received: Vec::new(),
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

    /// Kills noded with SIGKILL and starts it again. Returns the attempts that the new noded
    /// reports.
    fn restart(&mut self) -> Vec<(JobId, Attempt, TaskNumber, AttemptStatus)> {
        self.daemon.kill().unwrap();
        self.daemon.wait().unwrap();
        self.daemon = daemon(self.folder.path(), &[]);
        self.stream = connect(self.folder.path());
        self.greet(1)
    }

    fn greet(&mut self, epoch: u64) -> Vec<(JobId, Attempt, TaskNumber, AttemptStatus)> {
        self.order(ScheddOrder::Hello { epoch });
        self.received.clear();
        loop {
            // Reports that were in transit are repeated in the greeting.
            match self.next() {
                NodeReport::Hello { attempts, .. } => return attempts,
                NodeReport::Attempt(..) | NodeReport::Usage(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn order(&mut self, order: ScheddOrder) {
        frame::write(&mut self.stream, &order).unwrap();
    }

    fn next(&mut self) -> NodeReport {
        frame::read(&mut self.stream).unwrap()
    }

    /// Waits for the next status of a job. Reports on other jobs are kept for later.
    fn status(&mut self, job: u64) -> AttemptStatus {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(30) {
            if let Some(at) = self
                .received
                .iter()
                .position(|(id, _)| *id == JobId::job(job))
            {
                return self.received.remove(at).1;
            }
            if let NodeReport::Attempt(id, _, 0, status) = self.next() {
                self.received.push((id, status));
            }
        }
        panic!("no report on job {job} within 30 s");
    }

    fn running(&mut self, job: u64) -> u32 {
        match self.status(job) {
            AttemptStatus::Running(session) => session,
            other => panic!("{other:?}"),
        }
    }

    fn ended(&mut self, job: u64) -> AttemptOutcome {
        loop {
            if let AttemptStatus::Ended(outcome) = self.status(job) {
                return outcome;
            }
        }
    }

    fn run(&mut self, launch: Launch) -> AttemptOutcome {
        let job = launch.job.number;
        self.order(ScheddOrder::Start(Box::new(launch)));
        self.ended(job)
    }

    /// Writes an executable notify program of the current user.
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
        self.order(ScheddOrder::Notify(Box::new(notification)));
    }

    /// Waits for the next notification result: its token, and the error if it failed.
    fn notified(&mut self) -> (u64, Option<String>) {
        loop {
            if let NodeReport::Notified { token, why } = self.next() {
                return (token, why);
            }
        }
    }

    fn cancel(&mut self, job: u64, grace: Span) {
        self.order(ScheddOrder::Cancel {
            job: JobId::job(job),
            attempt: 1,
            task: 0,
            grace,
            signal: None,
            again: false,
        });
    }

    /// Ends a job that is to be requeued.
    fn requeue(&mut self, job: u64, signal: Option<i32>) {
        let grace = Span::seconds(60);
        self.order(ScheddOrder::Cancel {
            job: JobId::job(job),
            attempt: 1,
            task: 0,
            grace,
            signal,
            again: true,
        });
    }

    fn confirm(&mut self, job: u64) {
        self.order(ScheddOrder::Confirm {
            job: JobId::job(job),
            attempt: 1,
            task: 0,
        });
        self.order(ScheddOrder::Ping);
        while !matches!(self.next(), NodeReport::Pong) {}
    }

    /// Launch order of a job of the current user with this script.
    fn script(&self, job: u64, text: &str) -> Launch {
        let own = user::own();
        let share = NodeShare {
            node: "n1".into(),
            host: "n1".into(),
            taken: vec![("ncpus".into(), ResourceValue::Long(1))],
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
            job_hooks: None,
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

fn connect(folder: &Path) -> UnixStream {
    let socket = folder.join("s.sock");
    let stream = wait_for(|| UnixStream::connect(&socket).ok());
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

fn wait_for<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "the condition did not become true within 20 s"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_alive(pid: i32) -> bool {
    procfs::process(pid).is_some_and(|p| p.lives())
}

fn signal(pid: i32, name: &str) {
    let signal: nix::sys::signal::Signal = format!("SIG{name}").parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
}

fn kill(pid: i32) {
    assert!(lanai::sys::process::send_signal(pid, 9));
}

/// Waits for a number that the job writes to a file.
fn number(node: &Node, file: &str) -> i32 {
    wait_for(|| node.read(file).trim().parse().ok())
}

/// Script that starts a daemon: it has its own session and no parent in the job, ignores TERM, and
/// holds no files of the job open.
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
        matches!(&again[..], [(JobId { number: 1, .. }, 1, 0, AttemptStatus::Ended(o))] if o.how == How::Exited(3)),
        "{again:?}"
    );
    assert!(matches!(
        &node.restart()[..],
        [(JobId { number: 1, .. }, 1, 0, AttemptStatus::Ended(_))]
    ));
    node.confirm(1);
    assert_eq!(node.greet(1), []);
    assert_eq!(
        fs::read_dir(node.path("state/attempts")).unwrap().count(),
        0
    );
}

#[test]
fn noded_reports_its_utilization() {
    let mut node = Node::start();
    node.order(ScheddOrder::Hello { epoch: 2 });
    let NodeReport::Hello { nodes, .. } = node.next() else {
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
fn joined_output_is_in_order_and_goes_to_the_output_directory() {
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
fn a_script_of_1_mb_runs() {
    let mut node = Node::start();
    let padding = "# 0123456789\n".repeat(100_000);
    assert_eq!(
        node.run(node.script(1, &format!("{padding}exit 7"))).how,
        How::Exited(7)
    );
}

#[test]
fn canceling_a_job_ends_all_its_processes() {
    for options in CGROUP_OPTIONS {
        let mut node = Node::with(options);
        let text = format!(
            "trap '' TERM; {} while :; do sleep 1; done",
            daemon_of_a_job("pid")
        );
        node.order(ScheddOrder::Start(Box::new(node.script(1, &text))));
        node.running(1);
        let stray = number(&node, "pid");
        node.cancel(1, Span(200));
        let outcome = node.ended(1);
        assert_eq!((outcome.how, outcome.sent), (How::Signaled(9), Some(15)));
        assert!(!is_alive(stray));
    }
}

#[test]
fn a_background_process_is_killed_when_the_script_ends() {
    for options in CGROUP_OPTIONS {
        let mut node = Node::with(options);
        let text = format!(
            "{} while [ ! -s pid ]; do sleep 0.01; done",
            daemon_of_a_job("pid")
        );
        assert_eq!(node.run(node.script(1, &text)).how, How::Exited(0));
        assert!(!is_alive(number(&node, "pid")));
    }
}

#[test]
fn a_job_that_exceeds_its_walltime_is_terminated() {
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
    node.order(ScheddOrder::Start(Box::new(node.script(1, "sleep 60"))));
    node.running(1);
    node.order(ScheddOrder::Walltime {
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
    node.order(ScheddOrder::Start(Box::new(node.script(1, text))));
    node.running(1);
    wait_for(|| (node.read("ready") == "ready\n").then_some(()));
    node.order(ScheddOrder::Signal {
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
    for options in CGROUP_OPTIONS {
        let mut node = Node::with(options);
        let text = format!(
            "{} while [ ! -s pid ]; do sleep 0.01; done; kill -40 $$",
            daemon_of_a_job("pid")
        );
        assert_eq!(node.run(node.script(1, &text)).how, How::Signaled(40));
        assert!(!is_alive(number(&node, "pid")));
    }
}

#[test]
fn a_jobs_tmpdir_is_removed_and_its_descriptor_limit_is_the_default() {
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
fn a_job_canceled_before_its_start_never_runs() {
    let mut node = Node::start();
    node.cancel(1, Span(0));
    assert_eq!(node.ended(1).how, How::Cancelled);
    node.restart();
    assert_eq!(node.run(node.script(1, "touch ran")).how, How::Cancelled);
    assert!(!node.path("ran").exists());
}

#[test]
fn a_repeated_start_order_runs_once() {
    let mut node = Node::start();
    let launch = node.script(1, "echo x >> ran; sleep 0.2");
    for _ in 0..5 {
        node.order(ScheddOrder::Start(Box::new(launch.clone())));
    }
    node.ended(1);
    node.order(ScheddOrder::Start(Box::new(launch.clone())));
    node.ended(1);
    node.restart();
    assert_eq!(node.run(launch).how, How::Exited(0));
    assert_eq!(node.read("ran"), "x\n");
}

#[test]
fn jobs_on_hollow_nodes_run_without_processes() {
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
#[ignore = "a measurement"]
fn launches_per_second() {
    for options in CGROUP_OPTIONS {
        let mut node = Node::with(options);
        let started = Instant::now();
        for job in 1..=500 {
            node.order(ScheddOrder::Start(Box::new(node.script(job, "exit 0"))));
        }
        for job in 1..=500 {
            node.ended(job);
        }
        let rate = 500.0 / started.elapsed().as_secs_f64();
        let started = Instant::now();
        for job in 501..=600 {
            node.order(ScheddOrder::Start(Box::new(node.script(job, "exit 0"))));
            node.running(job);
            node.ended(job);
        }
        println!(
            "{options:?}: {rate:.0} jobs per second; one at a time, {:?} per job",
            started.elapsed() / 100
        );
    }
}
