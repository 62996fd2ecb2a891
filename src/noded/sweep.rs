//! Signals and ends all processes of a job.
//!
//! With a cgroup the kernel kills them. Without one the shepherd, which is the subreaper of the
//! job, walks its descendants: it stops them until no new one appears, then kills them. It cannot
//! kill processes of another user (`sudo` in a personal installation).

use crate::model::time::Span;
use crate::sys::cgroup::Cgroup;
use crate::sys::clock;
use crate::sys::process::{self, Reaped};
use crate::sys::procfs::{self, Process};
use nix::libc::{SIGCONT, SIGSTOP, SIGTERM};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::os::fd::AsFd;

/// Maximum number of rounds.
const ROUNDS: usize = 3;
/// Maximum wait for killed processes per round.
const EXIT_TIMEOUT: Span = Span::seconds(3);

/// The processes of this shepherd's job.
pub fn processes(cgroup: Option<&Cgroup>) -> Vec<i32> {
    match cgroup {
        Some(group) => group.processes(),
        None => procfs::descendants(own()).iter().map(|p| p.pid).collect(),
    }
}

/// Sends a signal to every process of the job. SIGTERM also continues stopped ones.
pub fn signal(cgroup: Option<&Cgroup>, number: i32) {
    for pid in processes(cgroup) {
        process::send_signal(pid, number);
        if number == SIGTERM {
            process::send_signal(pid, SIGCONT);
        }
    }
}

/// Sends a signal to suspended processes. SIGCONT is not sent; other signals stay pending.
pub fn signal_stopped(cgroup: Option<&Cgroup>, number: i32) {
    if number != SIGCONT {
        for pid in processes(cgroup) {
            process::send_signal(pid, number);
        }
    }
}

/// Kills every process of the job and waits for their end. `children` reports SIGCHLD.
pub fn end(cgroup: Option<&Cgroup>, children: &SignalFd) {
    for round in 0..ROUNDS {
        if reap_all() {
            break;
        }
        let fenced = cgroup.is_some_and(|group| group.kill().is_ok());
        if !fenced || round > 0 {
            freeze_and_kill();
        }
        wait_for_exit(children);
    }
    if let Some(group) = cgroup.filter(|group| !group.remove()) {
        let _ = group.kill();
        group.wait_until_empty(EXIT_TIMEOUT);
        group.remove();
    }
}

/// Reaps ended children. Returns whether none is left. An orphaned descendant becomes a child.
fn reap_all() -> bool {
    loop {
        match process::reap(None) {
            Reaped::NoChild => return true,
            Reaped::Living => return false,
            Reaped::Ended(..) => {}
        }
    }
}

fn freeze_and_kill() {
    let mut frozen = Frozen::new();
    // Each pass stops all it finds, so only processes forked meanwhile are new in the next.
    for _ in 0..100 {
        if !freeze(procfs::descendants(own()).iter(), &mut frozen) {
            break;
        }
    }
    kill(&frozen);
}

/// Stopped processes, by pid and start time.
pub type Frozen = BTreeSet<(i32, u64)>;

/// Stops those of these processes that are new. Returns whether any was.
pub fn freeze<'a>(family: impl Iterator<Item = &'a Process>, frozen: &mut Frozen) -> bool {
    let before = frozen.len();
    for process in family.filter(|p| p.lives()) {
        if frozen.insert((process.pid, process.started)) {
            process::send_signal(process.pid, SIGSTOP);
        }
    }
    frozen.len() > before
}

/// Kills the stopped processes.
pub fn kill(frozen: &Frozen) {
    for &(pid, started) in frozen {
        // The pidfd is opened before the check: the pid may have been reused.
        let held = process::pidfd(Pid::from_raw(pid));
        if procfs::process(pid).is_some_and(|p| p.started == started) {
            held.map_or_else(
                |_| process::end(pid),
                |held| drop(process::send_to(&held, Signal::SIGKILL)),
            );
        }
    }
}

fn wait_for_exit(children: &SignalFd) {
    let until = clock::monotonic().0 + EXIT_TIMEOUT.0;
    while !reap_all() {
        let left = until - clock::monotonic().0;
        if left <= 0 {
            return;
        }
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let _ = poll(
            &mut [PollFd::new(children.as_fd(), PollFlags::POLLIN)],
            timeout,
        );
        while let Ok(Some(_)) = children.read_signal() {}
    }
}

fn own() -> i32 {
    nix::unistd::getpid().as_raw()
}
