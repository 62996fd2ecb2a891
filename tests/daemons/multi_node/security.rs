//! Access to the task socket.

use super::Cluster;
use crate::support::people::two_users;
use crate::support::sandbox::Sandbox;
use lanai::model::job_id::JobId;
use lanai::wire::frame;
use lanai::wire::task::{TaskClientMessage, TaskNews};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

#[test]
fn tasks_start_only_inside_a_job_and_with_its_cookie() {
    let cluster = Cluster::new();
    let done = cluster.sandbox.run("pbsdsh", &["true"]);
    assert_eq!(
        (done.code, done.err.as_str()),
        (1, "pbsdsh: not executing under PBS\n")
    );
    assert_eq!(cluster.sandbox.run("pbsdsh", &[]).code, 1);
    for forged in [
        "PBS_JOBCOOKIE=guessed",
        "LANAI_ATTEMPT=9",
        "PBS_TASKNUM=7",
        "PBS_JOBID=99.x",
    ] {
        let (code, lines) = cluster.run(&format!("{forged} pbsdsh -- echo ran\n"));
        assert_eq!(code, 1, "{forged}: {lines:?}");
        assert!(
            lines.len() == 1 && lines[0].contains("is not part of job"),
            "{forged}: {lines:?}"
        );
    }
}

#[test]
fn in_a_shared_installation_only_the_owner_starts_tasks() {
    let Some([ann, bob]) = two_users("task") else {
        return;
    };
    let server = format!(
        "[server]\nname = \"tasks{}\"\nshared = true\n",
        std::process::id()
    );
    let sandbox = Sandbox::configured(&server);
    for folder in [sandbox.home().parent().unwrap(), &sandbox.home()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    sandbox.run("schedd", &[]).ok();
    let script = "env > all; mv all mine; while [ ! -e go ]; do sleep 0.02; done
pbsdsh -- sh -c 'id -u; grep -c . $PBS_NODEFILE; stat -c %u $TMPDIR; grep NoNewPrivs /proc/self/status'\n";
    let id = ann.submit(
        &sandbox,
        &[
            "-N",
            "wide",
            "-v",
            "PATH",
            "-l",
            "select=1:mpiprocs=2",
            "-j",
            "oe",
        ],
        script,
    );
    sandbox.running(&id);
    let mine = sandbox.until("the environment", || {
        fs::read_to_string(ann.file("mine")).ok()
    });
    let nodes = sandbox.home().parent().unwrap().join("nodes");
    fs::write(&nodes, "n1\n").unwrap();
    let value = |name: &str| {
        mine.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .unwrap()
    };
    let names = [
        "LANAI_TASKS",
        "PBS_JOBID",
        "LANAI_ATTEMPT",
        "PBS_TASKNUM",
        "PBS_JOBCOOKIE",
    ];
    let secrets: String = names
        .map(|name| format!("{name}={} ", value(name)))
        .concat();
    let forged = format!(
        "PBS_NODEFILE={} {secrets} pbsdsh -n 0 -- touch /tmp/forged",
        nodes.display()
    );
    let done = bob.shell(&sandbox, &forged);
    assert!(
        done.code == 1 && done.err.contains("is not part of job 1 on this node"),
        "{done:?}"
    );
    fs::write(ann.file("go"), "").unwrap();
    let job = sandbox.ended(&id);
    let out = ann.read("wide.o1");
    assert_eq!(job["Exit_status"], 0, "{out}");
    let uid = ann.uid.to_string();
    let count = |line: &str| out.lines().filter(|other| *other == line).count();
    assert_eq!(
        [
            count(&uid),
            count("2"),
            count("NoNewPrivs:\t1"),
            out.lines().count()
        ],
        [4, 2, 2, 8],
        "{out}"
    );
}

#[test]
fn garbage_at_the_task_socket_affects_no_other_client() {
    let cluster = Cluster::new();
    let socket = cluster.sandbox.home().join("n1/tasks.sock");
    let huge = [
        b"LN".as_slice(),
        &1u16.to_le_bytes(),
        &(20u32 << 20).to_le_bytes(),
        &[7; 100_000],
    ]
    .concat();
    let mut open = Vec::new();
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &huge, b"LN", b""].repeat(50) {
        let mut client = UnixStream::connect(&socket).unwrap();
        let _ = client.write_all(bytes);
        open.push(client);
    }
    // The number of connections per user is limited; the tasks of the job need some of them.
    open.truncate(20);
    let (code, lines) = cluster.run("pbsdsh -- echo fine\n");
    assert_eq!((code, lines), (0, vec!["fine".to_string(); 3]));
}

#[test]
fn a_client_that_repeats_its_greeting_is_refused_once() {
    let cluster = Cluster::new();
    let client = UnixStream::connect(cluster.sandbox.home().join("n1/tasks.sock")).unwrap();
    let hello = TaskClientMessage::Hello {
        job: JobId::job(1),
        attempt: 1,
        task: 0,
        cookie: String::new(),
    };
    let greetings = frame::encode(&hello).unwrap().repeat(100_000);
    let _ = (&client).write_all(&greetings);
    let mut replies = Vec::new();
    let _ = (&client).read_to_end(&mut replies);
    assert!(matches!(
        frame::read(&mut replies.as_slice()),
        Ok(TaskNews::Refused(_))
    ));
    let once = frame::encode(&TaskNews::Refused(
        "this process is not part of job 1 on this node".into(),
    ))
    .unwrap();
    assert_eq!(replies.len(), once.len(), "the client must be refused once");
}
