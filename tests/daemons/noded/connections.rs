//! Connections of schedd to noded, and noded in the background.

use super::{Node, connect, daemon, signal, wait_for};
use lanai::model::job::How;
use lanai::wire::frame;
use lanai::wire::order::{NodeReport, ScheddOrder};
use std::os::unix::net::UnixStream;
use std::process::Command;

#[test]
fn a_schedd_with_an_earlier_epoch_is_refused() {
    let mut node = Node::start();
    node.greet(7);
    node.stream = connect(node.folder.path());
    node.order(ScheddOrder::Hello { epoch: 6 });
    assert!(matches!(node.next(), NodeReport::Fenced { epoch: 7 }));
    node.daemon.kill().unwrap();
    node.daemon.wait().unwrap();
    node.daemon = daemon(node.folder.path(), &[]);
    node.stream = connect(node.folder.path());
    node.order(ScheddOrder::Hello { epoch: 6 });
    assert!(matches!(node.next(), NodeReport::Fenced { epoch: 7 }));
}

#[test]
fn noded_obeys_a_leave_order_from_a_closed_connection() {
    let mut node = Node::start();
    let daemon = node.daemon.id() as i32;
    signal(daemon, "STOP");
    let mut client = connect(node.folder.path());
    frame::write(&mut client, &ScheddOrder::Hello { epoch: 2 }).unwrap();
    frame::write(&mut client, &ScheddOrder::Leave).unwrap();
    drop(client);
    signal(daemon, "CONT");
    wait_for(|| node.daemon.try_wait().unwrap());
}

#[test]
fn a_second_noded_with_the_same_state_directory_exits() {
    let node = Node::start();
    let mut second = Command::new(env!("CARGO_BIN_EXE_noded"));
    second
        .args(["--foreground", "--socket"])
        .arg(node.path("t.sock"))
        .arg("--state")
        .arg(node.path("state"));
    let output = second.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        errors.contains(&format!("another noded (process {})", node.daemon.id())),
        "{errors}"
    );
}

#[test]
fn garbage_on_the_socket_affects_no_other_client() {
    use std::io::Write;
    let mut node = Node::start();
    for _ in 0..30 {
        let mut client = UnixStream::connect(node.path("s.sock")).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    }
    assert_eq!(node.run(node.script(1, "exit 2")).how, How::Exited(2));
}

#[test]
fn noded_in_the_background_closes_its_output_and_exits_when_idle() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_noded"));
    command
        .args(["--exit-when-idle", "1", "--socket"])
        .arg(folder.path().join("s.sock"));
    // `output` returns only when no process holds the pipe any more.
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
