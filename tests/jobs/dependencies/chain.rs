//! Long dependency chains: the cost grows linearly with their length.

use super::head;
use crate::support::sandbox::Sandbox;
use lanai::model::attribute::AttributeSetting;
use lanai::model::job::state::JobState;
use lanai::model::job_id::JobId;
use lanai::wire::frame;
use lanai::wire::message::{
    ClientAnswer, ClientRequest, Detail, Filter, History, JobRow, NewJob, Payload, Question, Reply,
};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

fn connect(sandbox: &Sandbox) -> UnixStream {
    let stream = UnixStream::connect(sandbox.home().join("schedd.sock")).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream
}

fn submission(number: u64, settings: Vec<AttributeSetting>) -> ClientRequest {
    let mut token = [0; 16];
    token[..8].copy_from_slice(&number.to_le_bytes());
    ClientRequest::Submit(Box::new(NewJob {
        token,
        settings,
        payload: Payload::Command(vec!["/bin/true".into()]),
        environ: Vec::new(),
        inherited: Vec::new(),
        workdir: "/".into(),
        submit_host: "head".into(),
        arguments: "-- /bin/true".into(),
        defaults: String::new(),
        stored: None,
    }))
}

/// Submits jobs 2 to `length`, each dependent on its predecessor. Returns the duration.
fn submit_chain(sandbox: &Sandbox, length: u64) -> Duration {
    let started = Instant::now();
    let mut stream = connect(sandbox);
    for batch in (2..=length).collect::<Vec<_>>().chunks(100) {
        for number in batch {
            let depend = AttributeSetting::new("depend", format!("afterok:{}", number - 1));
            frame::write(&mut stream, &submission(*number, vec![depend])).unwrap();
        }
        for number in batch {
            let reply: Reply = frame::read(&mut stream).unwrap();
            assert!(
                matches!(&reply, Reply::Accepted { id, .. } if *id == format!("{number}.head")),
                "{number}: {reply:?}"
            );
        }
    }
    started.elapsed()
}

fn rows(sandbox: &Sandbox) -> Vec<JobRow> {
    let mut stream = connect(sandbox);
    let filter = Filter {
        history: History::All,
        ..Filter::default()
    };
    frame::write(
        &mut stream,
        &ClientRequest::Ask(Question::Jobs(filter, Detail::Row)),
    )
    .unwrap();
    let mut rows = Vec::new();
    loop {
        match frame::read(&mut stream).unwrap() {
            Reply::Part(ClientAnswer::Rows(more)) => rows.extend(more),
            Reply::Part(_) => {}
            Reply::Done => return rows,
            other => panic!("{other:?}"),
        }
    }
}

/// Time to submit a chain, to load it in a new schedd, and to delete it through its first job.
fn chain(length: u64) -> [Duration; 3] {
    let sandbox = head();
    assert_eq!(
        sandbox.run("qsub", &["-h", "--", "/bin/true"]).line(),
        "1.head"
    );
    let submitted = submit_chain(&sandbox, length);
    sandbox.kill("schedd");
    let started = Instant::now();
    sandbox.run("schedd", &[]).ok();
    let loaded = started.elapsed();
    let started = Instant::now();
    let mut stream = connect(&sandbox);
    frame::write(
        &mut stream,
        &ClientRequest::Delete {
            job: JobId::job(1),
            only: None,
            force: false,
            purge: false,
        },
    )
    .unwrap();
    let reply: Reply = frame::read(&mut stream).unwrap();
    assert!(matches!(reply, Reply::Done), "{reply:?}");
    let deleted = started.elapsed();
    let rows = rows(&sandbox);
    assert_eq!(rows.len() as u64, length);
    assert!(
        rows.iter().all(|row| row.state == JobState::Finished),
        "all jobs have ended when qdel returns"
    );
    let last = sandbox.job(&format!("{length}.head"));
    let why = format!(
        "on job {}.head: afterok, but it was deleted as result of its own dependency",
        length - 1
    );
    assert!(last["comment"].as_str().unwrap().ends_with(&why), "{last}");
    [submitted, loaded, deleted]
}

#[test]
fn the_cost_of_a_dependency_chain_is_linear_in_its_length() {
    let (short, long) = (chain(1_000), chain(10_000));
    println!("submitted, loaded, deleted: 1,000 in {short:?}, 10,000 in {long:?}");
    for (what, (short, long)) in ["submitting", "loading", "deleting"]
        .iter()
        .zip(short.iter().zip(&long))
    {
        let least = Duration::from_millis(50);
        // Linear cost means ten times as much for ten times the jobs; quadratic cost, a hundred
        // times.
        assert!(
            *long < 50 * (*short).max(least),
            "{what}: 1,000 in {short:?}, 10,000 in {long:?}"
        );
    }
}

#[test]
fn a_job_can_have_5000_parents_and_5000_dependents() {
    let sandbox = head();
    assert_eq!(
        sandbox
            .run("qsub", &["-h", "-W", "depend=on:5000", "--", "/bin/true"])
            .line(),
        "1.head"
    );
    let mut stream = connect(&sandbox);
    for (first, depend) in [(2, "beforeany:1"), (5002, "after:1")] {
        for batch in (first..first + 5000).collect::<Vec<u64>>().chunks(100) {
            for number in batch {
                let settings = vec![
                    AttributeSetting::new("depend", depend),
                    AttributeSetting::new("Hold_Types", "u"),
                ];
                frame::write(&mut stream, &submission(*number, settings)).unwrap();
            }
            for _ in batch {
                let reply: Reply = frame::read(&mut stream).unwrap();
                assert!(matches!(&reply, Reply::Accepted { .. }), "{reply:?}");
            }
        }
    }
    let started = Instant::now();
    let all: Vec<JobId> = (2..5002).map(JobId::job).collect();
    for batch in all.chunks(100) {
        for &job in batch {
            frame::write(
                &mut stream,
                &ClientRequest::Delete {
                    job,
                    only: None,
                    force: false,
                    purge: false,
                },
            )
            .unwrap();
        }
        for _ in batch {
            let reply: Reply = frame::read(&mut stream).unwrap();
            assert!(matches!(reply, Reply::Done), "{reply:?}");
        }
    }
    println!("5,000 conditions met in {:?}", started.elapsed());
    let job = sandbox.job("1.head");
    assert_eq!(
        (&job["job_state"], &job["Hold_Types"]),
        (&"H".into(), &"u".into()),
        "{}",
        job["depend"]
    );
    let started = Instant::now();
    sandbox.run("qrls", &["1"]).ok();
    sandbox.ended("1.head");
    println!("5,000 jobs released in {:?}", started.elapsed());
    assert_eq!(
        sandbox.job("10001.head")["Hold_Types"],
        "u",
        "its dependency hold is released, its user hold remains"
    );
}
