//! Failed starts, and limits with and without control groups.

use super::{CGROUP_OPTIONS, Node};
use lanai::model::job::attempt::RunLimit;
use lanai::model::job::{How, Owner};
use lanai::model::resource::{ResourceValue, Size};
use lanai::model::time::Span;
use lanai::sys::user;
use lanai::wire::message::Payload;
use lanai::wire::order::Launch;

#[test]
fn a_failed_start_reports_operation_object_and_cause() {
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
    let unknown = Owner {
        user: "no-such-user".into(),
        uid: 54_321,
        gid: 1,
    };
    let outcome = node.run(Launch {
        owner: unknown,
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
fn memory_and_processor_time_are_limited_with_and_without_control_groups() {
    for options in CGROUP_OPTIONS {
        let mut node = Node::with(options);
        // The process that allocates the memory has lost its parent.
        let mut hog = node.script(
            1,
            "((head -c 400m /dev/zero; sleep 60) | tail &) ; sleep 60",
        );
        hog.shares[0]
            .taken
            .push(("mem".into(), ResourceValue::Size(Size::megabytes(60))));
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
