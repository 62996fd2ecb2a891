//! Notify programs configured by users.

use super::{Node, wait_for};
use lanai::sys::{process, procfs, user};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A process that blocks others from opening a file: it holds a lease on the file and does not
/// release it. The kernel breaks the lease after `/proc/sys/fs/lease-break-time`.
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
fn a_notify_program_on_a_hanging_file_system_times_out() {
    let break_time = fs::read_to_string("/proc/sys/fs/lease-break-time")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    if !Path::new("/usr/bin/perl").exists() || break_time.is_none_or(|seconds: u64| seconds < 40) {
        return println!("skipped: requires perl and a lease-break-time of at least 40 s");
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
    assert!(left.is_empty(), "processes of the program remain: {left:?}");
    drop(lease);
    node.notify(2, &program);
    assert_eq!(node.notified(), (2, None));
}

#[test]
fn programs_of_one_user_do_not_delay_those_of_others() {
    let mut node = Node::start();
    let program = node.program("program", "until [ -e ${0%/*}/go ]; do sleep .1; done");
    (1..=5).for_each(|token| node.notify(token, &program));
    let (token, why) = node.notified();
    let why = why.unwrap();
    assert!(
        token == 5
            && why.ends_with(
                ": it was not started: 4 notification programs of this user are already running"
            ),
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
fn a_notify_program_that_loses_its_supervisor_is_reported() {
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
