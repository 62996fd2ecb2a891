//! Signals and kills all processes of a job.
//!
//! The kernel kills all processes of a cgroup. Without a cgroup, or if processes remain, the job's
//! shepherd finds all processes among its descendants, because it is their subreaper. It searches
//! and stops processes repeatedly, until a search finds no new process. Then it kills them. In a
//! personal installation, the shepherd cannot kill processes of other users, such as those of
//! `sudo`.

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

/// Maximum number of tries to kill all processes.
const MAX_TRIES: usize = 3;
/// Maximum time to wait until killed processes have ended, per try.
const EXIT_TIMEOUT: Span = Span::seconds(3);

/// The processes of this shepherd's job. With a cgroup, the processes in child cgroups that the job
/// has created are missing.
pub fn processes(cgroup: Option<&Cgroup>) -> Vec<i32> {
    match cgroup {
        Some(group) => group.processes(),
        None => procfs::descendants(own()).iter().map(|p| p.pid).collect(),
    }
}

/// Sends a signal to the job's [`processes`]. SIGTERM also continues stopped processes.
pub fn signal(cgroup: Option<&Cgroup>, number: i32) {
    for pid in processes(cgroup) {
        process::send_signal(pid, number);
        if number == SIGTERM {
            process::send_signal(pid, SIGCONT);
        }
    }
}

/// Sends a signal, except SIGCONT, to the [`processes`] of a suspended job. SIGKILL takes effect at
/// once, other signals when the job is resumed.
pub fn signal_stopped(cgroup: Option<&Cgroup>, number: i32) {
    if number != SIGCONT {
        for pid in processes(cgroup) {
            process::send_signal(pid, number);
        }
    }
}

/// Kills every process of the job, waits until all have ended or the tries are used up, and removes
/// the cgroup. `children` receives SIGCHLD.
pub fn kill_all(cgroup: Option<&Cgroup>, children: &SignalFd) {
    for number in 0..MAX_TRIES {
        if reap_all() {
            break;
        }
        let is_killed = cgroup.is_some_and(|group| group.kill().is_ok());
        if !is_killed || number > 0 {
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

/// Reaps children that have ended. Returns whether no child is left. Orphaned descendants are
/// children, too.
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
    // Each pass stops all processes that it finds. So the next pass finds new processes only if
    // they were forked during the previous pass.
    for _ in 0..100 {
        if !freeze(procfs::descendants(own()).iter(), &mut frozen) {
            break;
        }
    }
    kill(&frozen);
}

/// Stopped processes, by pid and start time.
pub type Frozen = BTreeSet<(i32, u64)>;

/// Stops the living processes of `family` that are not in `frozen`, and adds them to it. Returns
/// whether there were any.
pub fn freeze<'a>(family: impl Iterator<Item = &'a Process>, frozen: &mut Frozen) -> bool {
    let before = frozen.len();
    for process in family.filter(|p| p.lives()) {
        if frozen.insert((process.pid, process.started)) {
            process::send_signal(process.pid, SIGSTOP);
        }
    }
    frozen.len() > before
}

/// Kills the processes in `frozen`.
pub fn kill(frozen: &Frozen) {
    for &(pid, started) in frozen {
        // Open the pidfd before checking the start time: the pid may have been reused.
        let pidfd = process::pidfd(Pid::from_raw(pid));
        if procfs::process(pid).is_some_and(|p| p.started == started) {
            pidfd.map_or_else(
                |_| process::end(pid),
                |pidfd| drop(process::send_to(&pidfd, Signal::SIGKILL)),
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
