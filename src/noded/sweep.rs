//! Every process of a job, to be signalled or to be ended.
//!
//! With a control group the kernel does it. Without one the shepherd, which inherits every orphan
//! of the job, walks its descendants: it freezes until no new one appears, then kills. What that
//! cannot reach is a process that runs as another user (`sudo` in a personal installation).

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

/// How often a sweep is tried before the rest is given up.
const ROUNDS: usize = 3;
/// How long a round waits for the killed to be gone.
const PATIENCE: Span = Span::seconds(3);

/// The processes of the job this process is shepherd of.
pub fn processes(cgroup: Option<&Cgroup>) -> Vec<i32> {
    match cgroup {
        Some(group) => group.processes(),
        None => procfs::descendants(own()).iter().map(|p| p.pid).collect(),
    }
}

/// Sends a signal to every process of the job. TERM also wakes those that are stopped.
pub fn signal(cgroup: Option<&Cgroup>, number: i32) {
    for pid in processes(cgroup) {
        process::send_signal(pid, number);
        if number == SIGTERM {
            process::send_signal(pid, SIGCONT);
        }
    }
}

/// The same while they are to stay stopped: what would wake one of them is held back, all else
/// waits for it.
pub fn signal_stopped(cgroup: Option<&Cgroup>, number: i32) {
    if number != SIGCONT {
        for pid in processes(cgroup) {
            process::send_signal(pid, number);
        }
    }
}

/// Ends every process of the job and waits until they are gone. `children` reports SIGCHLD.
pub fn end(cgroup: Option<&Cgroup>, children: &SignalFd) {
    for round in 0..ROUNDS {
        if alone() {
            break;
        }
        let fenced = cgroup.is_some_and(|group| group.kill().is_ok());
        if !fenced || round > 0 {
            freeze_and_kill();
        }
        wait_until_alone(children);
    }
    if let Some(group) = cgroup.filter(|group| !group.remove()) {
        let _ = group.kill();
        group.wait_until_empty(PATIENCE);
        group.remove();
    }
}

/// Reaps what has ended; whether no child is left. An ended descendant is a child sooner or later.
fn alone() -> bool {
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
    // Each pass freezes all it finds, so only what was being forked meanwhile is new in the next.
    for _ in 0..100 {
        if !freeze(procfs::descendants(own()).iter(), &mut frozen) {
            break;
        }
    }
    kill(&frozen);
}

/// Processes that have been stopped, each by its number and when it started.
pub type Frozen = BTreeSet<(i32, u64)>;

/// Stops those of these processes that are new; whether any was.
pub fn freeze<'a>(family: impl Iterator<Item = &'a Process>, frozen: &mut Frozen) -> bool {
    let before = frozen.len();
    for process in family.filter(|p| p.lives()) {
        if frozen.insert((process.pid, process.started)) {
            process::send_signal(process.pid, SIGSTOP);
        }
    }
    frozen.len() > before
}

/// Ends what was stopped.
pub fn kill(frozen: &Frozen) {
    for &(pid, started) in frozen {
        // Held before it is looked at: by now the number may be another process's.
        let held = process::pidfd(Pid::from_raw(pid));
        if procfs::process(pid).is_some_and(|p| p.started == started) {
            held.map_or_else(
                |_| process::end(pid),
                |held| drop(process::send_to(&held, Signal::SIGKILL)),
            );
        }
    }
}

fn wait_until_alone(children: &SignalFd) {
    let until = clock::monotonic().0 + PATIENCE.0;
    while !alone() {
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
