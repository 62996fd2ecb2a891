//! Malicious and faulty clients do not affect other clients.

use crate::support::sandbox::Sandbox;
use lanai::model::attribute::AttributeSetting;
use lanai::model::job::state::Holds;
use lanai::model::job_id::JobId;
use lanai::model::text::Text;
use lanai::sys::process;
use lanai::wire::frame;
use lanai::wire::message::{
    ClientRequest, Detail, Filter, NewJob, Payload, Question, Reply, VERSION,
};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum duration of a command while other clients misbehave, much shorter than their timeouts.
const SOON: Duration = Duration::from_secs(5);

/// A sandbox with a running schedd.
fn serving() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.submit(&["-h"], "true\n");
    sandbox
}

fn connect(sandbox: &Sandbox) -> UnixStream {
    let stream = UnixStream::connect(sandbox.home().join("schedd.sock")).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

/// Reads until the peer closes the connection.
fn read_until_closed(stream: &mut UnixStream) -> Vec<u8> {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert_eq!(
            error.kind(),
            std::io::ErrorKind::ConnectionReset,
            "the connection is not closed"
        ),
    }
    answer
}

fn exchange(stream: &mut UnixStream, request: &ClientRequest) -> Reply {
    frame::write(stream, request).unwrap();
    frame::read(stream).unwrap()
}

/// Asserts that the same schedd still serves other clients quickly.
#[track_caller]
fn assert_serving(sandbox: &Sandbox, pid: i32) {
    let started = Instant::now();
    let id = sandbox.submit(&["-h"], "true\n");
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    let status = exchange(
        &mut connect(sandbox),
        &ClientRequest::Ask(Question::JobsById(vec![JobId::job(1)], Detail::Row)),
    );
    assert!(matches!(status, Reply::Part(_)), "{status:?}");
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    sandbox.run("qdel", &[&id]).ok();
    assert_eq!(sandbox.pids_of("schedd"), [pid]);
    assert!(!sandbox.log().contains("panicked"), "{}", sandbox.log());
}

fn memory(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn header(version: u16, length: u32) -> Vec<u8> {
    [&b"LN"[..], &version.to_le_bytes(), &length.to_le_bytes()].concat()
}

#[test]
fn garbage_closes_only_its_own_connection() {
    let sandbox = serving();
    let pid = sandbox.pid_of("schedd").unwrap();
    let good = frame::encode(&ClientRequest::Status).unwrap();
    let noise: Vec<u8> = (0..100_000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    for bytes in [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        noise.clone(),
        header(VERSION, u32::MAX),
        header(VERSION, 25 << 20),
        [header(VERSION, 100), vec![0xff; 100]].concat(),
        [header(VERSION, 0), good.clone()].concat(),
        [good.clone(), noise].concat(),
    ] {
        let mut stream = connect(&sandbox);
        // schedd may close the connection before all is written.
        let _ = stream.write_all(&bytes);
        read_until_closed(&mut stream);
    }
    assert_serving(&sandbox, pid);
}

#[test]
fn a_client_of_another_version_is_sent_the_version_of_schedd() {
    let sandbox = serving();
    let mut stream = connect(&sandbox);
    stream
        .write_all(&[header(VERSION + 1, 3), b"abc".to_vec()].concat())
        .unwrap();
    let answer = read_until_closed(&mut stream);
    assert_eq!(answer, header(VERSION, 0));
}

#[test]
fn a_version_mismatch_is_reported_for_a_large_submission_too() {
    let sandbox = Sandbox::new();
    let listener = UnixListener::bind(sandbox.home().join("schedd.sock")).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 8]).unwrap();
        stream.write_all(&header(VERSION + 7, 0)).unwrap();
    });
    let done = sandbox.run_with_input("qsub", &[], &format!("true\n#{}\n", "x".repeat(4 << 20)));
    server.join().unwrap();
    assert!(done.err.contains("uses protocol"), "{done:?}");
}

/// What `qsub` prints if schedd uses this protocol version.
fn met(version: u16) -> String {
    let sandbox = Sandbox::new();
    let listener = UnixListener::bind(sandbox.home().join("schedd.sock")).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 8];
        stream.read_exact(&mut bytes).unwrap();
        stream.write_all(&header(version, 0)).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let done = sandbox.run_with_input("qsub", &[], "true\n");
    server.join().unwrap();
    assert_ne!(done.code, 0);
    assert_eq!(
        (done.out.as_str(), done.err.lines().count()),
        ("", 1),
        "{done:?}"
    );
    done.err
}

#[test]
fn a_version_mismatch_is_reported_in_one_line_with_the_remedy() {
    for (version, remedy) in [
        (VERSION - 1, "run schedd --stop and repeat the command"),
        (VERSION + 7, "this command is older than schedd"),
    ] {
        let text = met(version);
        for part in [
            format!("schedd uses protocol version {version}"),
            format!("this command uses version {VERSION}"),
            remedy.into(),
        ] {
            assert!(text.contains(&part), "{part}: {text}");
        }
    }
}

#[test]
fn idle_connections_and_partial_frames_block_no_other_client() {
    let sandbox = serving();
    let pid = sandbox.pid_of("schedd").unwrap();
    let mut idle: Vec<UnixStream> = (0..300).map(|_| connect(&sandbox)).collect();
    for (n, stream) in idle.iter_mut().enumerate() {
        let bytes = frame::encode(&ClientRequest::Hold(JobId::job(1), Holds::USER)).unwrap();
        stream.write_all(&bytes[..n % bytes.len()]).unwrap();
    }
    assert_serving(&sandbox, pid);
    let request = ClientRequest::Ask(Question::Server);
    for stream in &mut idle[..100] {
        // Some connections have sent nothing and some a partial frame, which this turns into
        // garbage.
        let _ = frame::write(stream, &request);
    }
    assert_serving(&sandbox, pid);
}

#[test]
fn clients_that_never_read_block_no_other_client() {
    let sandbox = serving();
    let pid = sandbox.pid_of("schedd").unwrap();
    let idle: Vec<UnixStream> = (0..40)
        .map(|_| {
            let mut stream = connect(&sandbox);
            frame::write(&mut stream, &ClientRequest::Ask(Question::Server)).unwrap();
            stream
        })
        .collect();
    assert_serving(&sandbox, pid);
    drop(idle);
}

#[test]
fn a_client_that_reads_no_replies_is_disconnected() {
    let sandbox = serving();
    let pid = sandbox.pid_of("schedd").unwrap();
    let mut stream = connect(&sandbox);
    stream
        .set_write_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let requests = frame::encode(&ClientRequest::Status)
        .unwrap()
        .repeat(10_000);
    let is_disconnected = (0..40).any(|_| stream.write_all(&requests).is_err());
    assert!(is_disconnected, "schedd keeps the connection open");
    assert!(memory(pid) < 200_000, "{} kB", memory(pid));
    assert_serving(&sandbox, pid);
}

#[test]
fn job_ids_of_any_size_are_reported_as_unknown() {
    let sandbox = serving();
    let pid = sandbox.pid_of("schedd").unwrap();
    for number in [0, 2, u64::MAX, i64::MAX as u64, i64::MAX as u64 + 1] {
        let job = JobId::job(number);
        for request in [
            ClientRequest::Delete {
                job,
                only: None,
                force: true,
                purge: true,
            },
            ClientRequest::Hold(job, Holds::SYSTEM),
            ClientRequest::Release(job, Holds::USER),
            ClientRequest::Rerun {
                job,
                only: None,
                force: true,
            },
            ClientRequest::Signal {
                job,
                only: None,
                signal: "TERM".into(),
            },
            ClientRequest::Alter(job, vec![AttributeSetting::new("Job_Name", "x")]),
            ClientRequest::Wait(job),
        ] {
            let reply = exchange(&mut connect(&sandbox), &request);
            let Reply::Refused(refusal) = reply else {
                panic!("{request:?}: {reply:?}")
            };
            assert_eq!(refusal.text, "Unknown Job Id", "{request:?}");
        }
        let mut stream = connect(&sandbox);
        let mut reply = exchange(
            &mut stream,
            &ClientRequest::Ask(Question::JobsById(vec![job], Detail::Environment)),
        );
        while let Reply::Part(_) = reply {
            reply = frame::read(&mut stream).unwrap();
        }
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    }
    for command in ["qstat", "qdel", "qhold", "qrls", "qsig", "qrerun"] {
        for id in [
            "99999999999999999999999",
            "18446744073709551615",
            "0",
            "00000000000000000000000000",
        ] {
            let done = sandbox.run(command, &[id]);
            assert!(
                done.code != 0 && done.err.lines().count() == 1,
                "{command} {id}: {done:?}"
            );
        }
    }
    assert_serving(&sandbox, pid);
}

#[test]
fn ten_thousand_operands_are_answered() {
    let sandbox = serving();
    let ids: Vec<String> = (1..=10_000).map(|id| id.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let started = Instant::now();
    let done = sandbox.run("qstat", &ids);
    assert_eq!((done.code, done.err.lines().count()), (153, 9999));
    assert_eq!(done.out.lines().count(), 3, "{}", done.out);
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
}

/// Submissions that Lanai's `qsub` never sends.
fn unusual_submissions(workdir: &Path) -> Vec<NewJob> {
    let submission = || NewJob {
        defaults: String::new(),
        stored: None,
        token: process::random().unwrap(),
        settings: Vec::new(),
        payload: Payload::Script(b"true\n".to_vec()),
        environ: Vec::new(),
        inherited: Vec::new(),
        workdir: Text(workdir.as_os_str().to_os_string().into_encoded_bytes()),
        submit_host: "here".into(),
        arguments: Text::default(),
    };
    let set =
        |attribute: &str, value: &[u8]| AttributeSetting::new(attribute, Text(value.to_vec()));
    let with = |setting: AttributeSetting| NewJob {
        settings: vec![setting],
        ..submission()
    };
    vec![
        NewJob {
            environ: b"\0\0=\0=x\0no\0A\xff=\xfe\0PBS_JOBID=9\0unended".to_vec(),
            ..submission()
        },
        NewJob {
            workdir: Text(Vec::new()),
            ..submission()
        },
        NewJob {
            workdir: Text(b"../\0relative".to_vec()),
            ..submission()
        },
        NewJob {
            workdir: Text(vec![b'/'; 100_000]),
            ..submission()
        },
        NewJob {
            submit_host: "h".repeat(1 << 20),
            arguments: Text(vec![0xff; 1 << 20]),
            ..submission()
        },
        NewJob {
            payload: Payload::Script(vec![0; 1 << 20]),
            ..submission()
        },
        NewJob {
            payload: Payload::Script(Vec::new()),
            ..submission()
        },
        NewJob {
            payload: Payload::Command(Vec::new()),
            ..submission()
        },
        NewJob {
            payload: Payload::Command(vec![Text(b"/bin/true\0x".to_vec())]),
            ..submission()
        },
        NewJob {
            payload: Payload::Command(vec![Text(b"/bin/true".to_vec()); 500_000]),
            ..submission()
        },
        NewJob {
            settings: vec![set("Job_Name", b"x"); 100_000],
            ..submission()
        },
        with(set("Job_Name", b"../../evil\n\0")),
        with(set("Job_Name", &[b'n'; 100_000])),
        with(set("Output_Path", b"\xff\0\n")),
        with(set("Output_Path", b"h:/no/such/folder/\xff")),
        with(set("Shell_Path_List", b"/bin/sh\0")),
        with(set("queue", b"\xff")),
        with(set("Priority", b"99999999999999999999")),
        with(set("run_count", b"99999999999999999999")),
        with(set("Execution_Time", b"9223372036854775807")),
        with(set("umask", b"777777777777")),
        with(set("no such attribute", b"")),
        with(AttributeSetting {
            resource: Some("select".into()),
            ..set("Resource_List", b"99999999999999:ncpus=99999999999999999")
        }),
        with(AttributeSetting {
            resource: Some("select".into()),
            ..set("Resource_List", b"1000000000:ncpus=1000000000")
        }),
        with(AttributeSetting {
            resource: Some("walltime".into()),
            ..set("Resource_List", b"9223372036854775807")
        }),
        with(AttributeSetting {
            resource: Some("mem".into()),
            ..set("Resource_List", b"99999999999999999999pb")
        }),
        with(AttributeSetting {
            resource: Some("\0".into()),
            ..set("Resource_List", b"1")
        }),
    ]
}

/// A submission above a size limit is refused. The message names the part that is too large.
#[test]
fn an_oversized_submission_is_refused() {
    let sandbox = serving();
    let [ordinary, ..] = &unusual_submissions(&sandbox.work())[6..] else {
        panic!()
    };
    let large = [
        (
            NewJob {
                environ: vec![b'x'; 2 << 20],
                ..ordinary.clone()
            },
            "an environment",
        ),
        (
            NewJob {
                arguments: Text(vec![b'x'; 1 << 20]),
                ..ordinary.clone()
            },
            "a request",
        ),
        (
            NewJob {
                payload: Payload::Command(vec![Text(Vec::new()); 100_000]),
                ..ordinary.clone()
            },
            "a request",
        ),
        (
            NewJob {
                settings: vec![AttributeSetting::new("Job_Name", "x"); 100_000],
                ..ordinary.clone()
            },
            "a request",
        ),
    ];
    for (submission, what) in large {
        match exchange(
            &mut connect(&sandbox),
            &ClientRequest::Submit(Box::new(submission)),
        ) {
            Reply::Refused(refusal) => assert!(refusal.text.contains(what), "{refusal:?}"),
            reply => panic!("{what}: {reply:?}"),
        }
    }
    // A submission of maximum size: with its start order it must still fit into one frame.
    let fits = NewJob {
        environ: (0..1000)
            .flat_map(|n| format!("V{n}={}\0", "x".repeat(1000)).into_bytes())
            .collect(),
        payload: Payload::Script([b"#".repeat(16 << 20)].concat()),
        ..ordinary.clone()
    };
    let Reply::Accepted { id, .. } = exchange(
        &mut connect(&sandbox),
        &ClientRequest::Submit(Box::new(fits)),
    ) else {
        panic!()
    };
    assert_eq!(sandbox.ended(&id)["Exit_status"], 0);
}

/// A thousand requests sent at once are answered one by one, interleaved with those of other
/// clients.
#[test]
fn a_client_with_many_requests_takes_turns_with_others() {
    let sandbox = serving();
    let mut busy = connect(&sandbox);
    let many: Vec<u8> = (0..1000)
        .flat_map(|id| frame::encode(&ClientRequest::Wait(JobId::job(900_000 + id))).unwrap())
        .collect();
    busy.write_all(&many).unwrap();
    sandbox.run_with_input("qsub", &["-h"], "true\n").line();
    for n in 0..1000 {
        let reply = frame::read::<Reply>(&mut busy).unwrap();
        assert!(matches!(reply, Reply::Refused(_)), "{n}: {reply:?}");
    }
}

#[test]
fn unusual_submissions_are_refused_or_end() {
    let sandbox = serving();
    let pid = sandbox.pid_of("schedd").unwrap();
    for (n, submission) in unusual_submissions(&sandbox.work()).into_iter().enumerate() {
        let mut stream = connect(&sandbox);
        match exchange(&mut stream, &ClientRequest::Submit(Box::new(submission))) {
            Reply::Refused(_) => {}
            Reply::Accepted { id, .. } => {
                sandbox.until(&format!("the end of submission {n}"), || {
                    let job = sandbox.job(&id);
                    let never = job["comment"].as_str()?.starts_with("Can Never Run");
                    (job["job_state"] == "F" || job["job_state"] == "W" || never).then_some(())
                });
                assert!(sandbox.run("qstat", &["-xf", &id]).code == 0);
                sandbox.run("qdel", &["-W", "force", &id]);
            }
            reply => panic!("{n}: {reply:?}"),
        }
    }
    assert_serving(&sandbox, pid);
    let all = sandbox.run("qstat", &["-x", "-f", "-F", "json"]).ok();
    serde_json::from_str::<serde_json::Value>(&all).unwrap();
    let id = sandbox.submit(&[], "exit 3\n");
    assert_eq!(sandbox.ended(&id)["Exit_status"], 3);
}

#[test]
fn unusual_queries_are_answered_or_refused() {
    let sandbox = serving();
    let pid = sandbox.pid_of("schedd").unwrap();
    let many = Filter {
        owners: vec!["' OR 1=1; --".into(); 100_000],
        ..Filter::default()
    };
    for question in [
        Question::Jobs(many, Detail::Whole),
        Question::JobsById((0..200_000).map(JobId::job).collect(), Detail::Environment),
        Question::Jobs(
            Filter {
                queues: vec!["\0".into()],
                ..Filter::default()
            },
            Detail::Row,
        ),
    ] {
        let mut stream = connect(&sandbox);
        let mut reply = exchange(&mut stream, &ClientRequest::Ask(question));
        while let Reply::Part(_) = reply {
            reply = frame::read(&mut stream).unwrap();
        }
        assert!(
            matches!(reply, Reply::Done | Reply::Refused(_)),
            "{reply:?}"
        );
    }
    assert_serving(&sandbox, pid);
}

/// Large unfinished messages of all clients together use a bounded amount of memory.
#[test]
fn unfinished_messages_of_all_clients_use_bounded_memory() {
    let sandbox = serving();
    let pid = sandbox.pid_of("schedd").unwrap();
    let half = [header(VERSION, 20 << 20), vec![0; 15 << 20]].concat();
    let mut open: Vec<UnixStream> = Vec::new();
    for _ in 0..10 {
        let mut stream = connect(&sandbox);
        let _ = stream.write_all(&half);
        open.push(stream);
    }
    assert_serving(&sandbox, pid);
    assert!(memory(pid) < 120 << 10, "{} KiB", memory(pid));
}
