//! Mutated messages: bytes of real requests with some changes. Those that decode are sent to a real
//! schedd, which replies, refuses or closes the connection, and continues.

use crate::support::sandbox::Sandbox;
use lanai::config::overrides::command::{Edit, Op, QmgrCommand, Verb};
use lanai::config::overrides::{AttributeKey, QmgrObject};
use lanai::model::account::accounting::{AccountingFilter, GroupKey as Grouping};
use lanai::model::attribute::AttributeSetting;
use lanai::model::job::state::Holds;
use lanai::model::job_id::JobId;
use lanai::model::reservation::request::ReservationRequest;
use lanai::model::time::Wall;
use lanai::wire::ahead::ForecastQuery;
use lanai::wire::frame;
use lanai::wire::message::{
    ClientRequest, Detail, Filter, NewJob, Payload, Placing, Question, Reply, VERSION, WatchedJobs,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Number of mutated messages, of which about a third decodes.
const MESSAGES: usize = 6000;

/// Number of requests per connection. A failure is reported for all of them.
const AT_ONCE: usize = 40;

fn submission(settings: Vec<AttributeSetting>) -> NewJob {
    NewJob {
        token: [7; 16],
        settings,
        payload: Payload::Command(vec!["/bin/true".into()]),
        environ: b"A=1\0B=2\0".to_vec(),
        inherited: Vec::new(),
        workdir: "/tmp".into(),
        submit_host: "head".into(),
        arguments: "-h -- /bin/true".into(),
        defaults: String::new(),
        stored: None,
    }
}

fn submissions() -> Vec<ClientRequest> {
    let held = || {
        vec![
            AttributeSetting::new("Hold_Types", "u"),
            AttributeSetting::resource("select", "2:ncpus=1:mem=8gb"),
        ]
    };
    let with = |setting: AttributeSetting| {
        ClientRequest::Submit(Box::new(submission([held(), vec![setting]].concat())))
    };
    vec![
        with(AttributeSetting::new("array_indices_submitted", "1-9:2%3")),
        with(AttributeSetting::resource("walltime", "1:00:00")),
        with(AttributeSetting::new("depend", "afterok:1,on:2")),
        with(AttributeSetting::new("Execution_Time", "99999999999")),
        with(AttributeSetting::new("geometry", "{(0)(1)}")),
        ClientRequest::Ask(Question::Ahead(ForecastQuery::Windows(Box::new(
            submission(held()),
        )))),
        ClientRequest::Ask(Question::Ahead(ForecastQuery::Trial(Box::new(submission(
            held(),
        ))))),
    ]
}

/// Commands for job 1 and array 2.
fn commands() -> Vec<ClientRequest> {
    let (job, array) = (JobId::job(1), JobId::array(2));
    let only = Some("1-9:2".parse().unwrap());
    vec![
        ClientRequest::Alter(
            job,
            vec![
                AttributeSetting::new("Priority", "5"),
                AttributeSetting::resource("walltime", "60"),
            ],
        ),
        ClientRequest::Hold(array, Holds::USER),
        ClientRequest::Release(job, Holds::USER),
        ClientRequest::Delete {
            job: array,
            only,
            force: false,
            purge: false,
        },
        ClientRequest::Rerun {
            job: array,
            only,
            force: false,
        },
        ClientRequest::RerunFailed(array),
        ClientRequest::Retry { job: array, only },
        ClientRequest::Signal {
            job: array,
            only,
            signal: "TERM".into(),
        },
        ClientRequest::Move(job, "workq".into()),
        ClientRequest::Swap(job, array),
        ClientRequest::Message {
            job,
            output: true,
            errors: true,
            text: "x".into(),
        },
        ClientRequest::Run {
            job,
            on: Placing::On(vec!["n1".into()]),
            detached: true,
        },
        ClientRequest::Wait(job),
        ClientRequest::Attach(job),
        ClientRequest::Watch {
            of: WatchedJobs::Jobs(vec![job, array]),
            since: 3,
        },
        ClientRequest::MarkNode {
            node: "n1".into(),
            offline: Some(true),
            comment: Some("x".into()),
        },
        ClientRequest::DeclareGone { node: "n1".into() },
    ]
}

fn questions() -> Vec<ClientRequest> {
    let (job, array) = (JobId::job(1), JobId::array(2));
    let inquiry = || {
        Box::new(AccountingFilter {
            from: Some(Wall(5)),
            to: Some(Wall(99)),
            ..AccountingFilter::default()
        })
    };
    let filter = Filter {
        after: Some(job),
        owners: vec!["a".into()],
        ..Filter::default()
    };
    let questions = vec![
        Question::JobsById(vec![job, array, JobId::element(2, 3)], Detail::Environment),
        Question::Jobs(filter, Detail::Row),
        Question::Elements(array, Some("1-9:2".parse().unwrap()), Detail::Whole),
        Question::Trace(job),
        Question::Objects,
        Question::Accounts(inquiry(), vec![Grouping::User, Grouping::Quarter]),
        Question::Entries(inquiry(), vec![array]),
        Question::Ahead(ForecastQuery::Starts(vec![job])),
        Question::Ahead(ForecastQuery::Why(job)),
        Question::Ahead(ForecastQuery::Places(vec![job, array])),
        Question::Ahead(ForecastQuery::Queue(Some(3))),
        Question::Ahead(ForecastQuery::Limits),
    ];
    questions.into_iter().map(ClientRequest::Ask).collect()
}

fn site() -> Vec<ClientRequest> {
    let reserving = |rule: Option<&str>| ReservationRequest {
        from: Some(Wall(4_000_000_000)),
        to: Some(Wall(4_000_003_600)),
        duration: Some("1:00:00".into()),
        resources: vec![("select".into(), "1:ncpus=1".into())],
        rule: rule.map(String::from),
        zone: rule.map(|_| "UTC".into()),
        ..ReservationRequest::default()
    };
    let amend = |target, attribute: &str, value: &str| {
        let key = AttributeKey {
            attribute: attribute.into(),
            resource: None,
        };
        let edits = vec![Edit {
            key,
            op: Op::Set,
            value: value.into(),
        }];
        ClientRequest::Amend(QmgrCommand {
            verb: Verb::Set,
            target,
            edits,
        })
    };
    vec![
        ClientRequest::Reserve(Box::new(reserving(None))),
        ClientRequest::Reserve(Box::new(reserving(Some("FREQ=DAILY;COUNT=3")))),
        ClientRequest::AlterReservation {
            id: "R3".into(),
            changes: Box::new(reserving(None)),
            force: true,
        },
        ClientRequest::DeleteReservation("R3".into()),
        amend(QmgrObject::Queue("workq".into()), "priority", "5"),
        amend(QmgrObject::Server, "max_run", "[u:PBS_GENERIC=3]"),
        amend(QmgrObject::Node("n1".into()), "comment", "x"),
    ]
}

/// Bytes of a request with up to three bytes changed, inserted or removed.
fn changed() -> impl Strategy<Value = Vec<u8>> {
    let requests = [submissions(), commands(), questions(), site()].concat();
    let sent: Vec<Vec<u8>> = requests
        .iter()
        .map(|request| postcard::to_stdvec(request).unwrap())
        .collect();
    let byte = prop_oneof![
        Just(0u8),
        Just(1),
        Just(2),
        Just(0x7f),
        Just(0x80),
        Just(0xff),
        any::<u8>()
    ];
    let change = (any::<prop::sample::Index>(), byte, 0..4u8);
    (
        prop::sample::select(sent),
        prop::collection::vec(change, 0..4),
    )
        .prop_map(|(mut bytes, changes)| {
            for (at, byte, kind) in changes {
                let at = at
                    .index(bytes.len().max(1))
                    .min(bytes.len().saturating_sub(1));
                match kind {
                    0 => bytes.insert(at, byte),
                    1 if bytes.len() > 1 => drop(bytes.remove(at)),
                    // The largest encodable 32-bit number.
                    2 => drop(bytes.splice(at..=at, [0xff, 0xff, 0xff, 0xff, 0x0f])),
                    _ => bytes[at] = byte,
                }
            }
            bytes
        })
}

/// Mutated messages that decode. `Stop` is left out, and so is `Status`, which ends each
/// connection in [`answered`].
fn decoded() -> Vec<ClientRequest> {
    let (mut runner, strategy) = (TestRunner::deterministic(), changed());
    let mutated = (0..MESSAGES).map(|_| strategy.new_tree(&mut runner).unwrap().current());
    let requests = mutated.filter_map(|bytes| postcard::from_bytes::<ClientRequest>(&bytes).ok());
    requests
        .filter(|request| !matches!(request, ClientRequest::Stop | ClientRequest::Status))
        .collect()
}

/// True if the reply waits for an event that may never happen.
fn is_patient(request: &ClientRequest) -> bool {
    matches!(
        request,
        ClientRequest::Wait(_) | ClientRequest::Watch { .. } | ClientRequest::Attach(_)
    )
}

/// Sends requests one by one and reads the replies. Returns the number of answered requests.
fn answered(stream: &mut UnixStream, requests: &[ClientRequest]) -> usize {
    let last = [ClientRequest::Status];
    for (number, request) in requests.iter().chain(&last).enumerate() {
        let sent = frame::write(stream, request);
        loop {
            match frame::read(stream) {
                Ok(Reply::Part(_)) => {}
                Ok(_) => break,
                Err(_) => return number,
            }
        }
        assert!(sent.is_ok(), "{sent:?}");
    }
    requests.len()
}

#[test]
fn schedd_survives_mutated_requests() {
    let sandbox = Sandbox::new();
    sandbox.submit(&["-h"], "true\n");
    sandbox.submit(&["-h", "-J", "1-9"], "true\n");
    let pid = sandbox.pid_of("schedd").unwrap();
    let (patient, prompt): (Vec<ClientRequest>, Vec<ClientRequest>) =
        decoded().into_iter().partition(is_patient);
    assert!(
        prompt.len() > MESSAGES / 4,
        "only {} of {MESSAGES} mutated messages decode",
        prompt.len()
    );
    let connect = || {
        let stream = UnixStream::connect(sandbox.home().join("schedd.sock")).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
    };
    for some in prompt.chunks(AT_ONCE) {
        let count = answered(&mut connect(), some);
        let is_alive = sandbox.pids_of("schedd") == [pid] && !sandbox.log().contains("panicked");
        assert!(
            is_alive && count == some.len(),
            "after {:#?}\n{}",
            some.get(count),
            sandbox.log()
        );
    }
    for request in patient {
        frame::write(&mut connect(), &request).unwrap();
    }
    assert!(
        sandbox
            .run("schedd", &["--status"])
            .ok()
            .contains(&format!("process {pid}"))
    );
    sandbox.run("qstat", &["-f"]).ok();
}

/// Replaces the range `1-9:2` in an encoded request; None if it has none.
fn with_range(request: &ClientRequest, range: [u8; 3]) -> Option<Vec<u8>> {
    let mut sent = postcard::to_stdvec(request).unwrap();
    let at = sent.windows(4).position(|bytes| bytes == [1, 1, 9, 2])?;
    sent.splice(at + 1..at + 4, range);
    Some(sent)
}

#[test]
fn an_invalid_range_closes_only_its_own_connection() {
    let sandbox = Sandbox::new();
    sandbox.submit(&["-h"], "true\n");
    sandbox.submit(&["-h", "-J", "1-9"], "true\n");
    let pid = sandbox.pid_of("schedd").unwrap();
    let mut sent = 0;
    for request in [commands(), questions()].concat() {
        for range in [[1, 9, 0], [9, 1, 1], [9, 1, 0], [0, 0, 0]] {
            let Some(payload) = with_range(&request, range) else {
                continue;
            };
            let mut stream = UnixStream::connect(sandbox.home().join("schedd.sock")).unwrap();
            let header = [
                &b"LN"[..],
                &VERSION.to_le_bytes(),
                &(payload.len() as u32).to_le_bytes(),
            ]
            .concat();
            stream.write_all(&[header, payload].concat()).unwrap();
            let reply = frame::read::<Reply>(&mut stream);
            assert!(reply.is_err(), "{request:?} with {range:?}: {reply:?}");
            sent += 1;
        }
    }
    assert_eq!(sent, 20);
    assert!(
        sandbox
            .run("schedd", &["--status"])
            .ok()
            .contains(&format!("process {pid}")),
        "{}",
        sandbox.log()
    );
}
