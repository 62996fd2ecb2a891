//! Standing still: all processes of a job are stopped, stay so, and go on where they were.
//!
//! A control group is frozen by the kernel, with all that is forked in it. Without one every process is sent
//! STOP, again and again until there is none that is new and none that runs; whoever wakes one of them finds it
//! stopped again at the next look. What the job had stopped itself stays stopped when the rest goes on.

use super::sweep::Frozen;
use crate::model::time::Span;
use crate::sys::cgroup::Cgroup;
use crate::sys::process;
use crate::sys::procfs::{self, Process};
use nix::libc::{SIGCONT, SIGSTOP};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// How soon it is looked again while something still runs, and how often afterwards.
const SOON: Span = Span(5);
const NOW_AND_THEN: Span = Span::seconds(2);
/// Passes in one look: more would keep the shepherd from hearing what it is told.
const PASSES: usize = 100;

/// The pause of a job.
#[derive(Debug)]
pub struct Pause {
    /// Since when, on the clock that nobody sets.
    pub since: Span,
    /// When to look next.
    pub next: Span,
    /// Whether all was stopped at the last look.
    pub is_still: bool,
    frozen: Frozen,
    by_kernel: bool,
}

impl Pause {
    /// It is to begin.
    pub fn new(now: Span) -> Pause {
        Pause { since: now, next: now, is_still: false, frozen: Frozen::new(), by_kernel: false }
    }

    /// Stops what is not stopped; whether with that all of it is for the first time.
    pub fn look(&mut self, cgroup: Option<&Cgroup>, now: Span) -> bool {
        let was_still = self.is_still;
        self.by_kernel = cgroup.is_some_and(|group| group.freeze(true).is_ok());
        self.is_still = match cgroup.filter(|_| self.by_kernel) {
            Some(group) => group.is_frozen(),
            None => self.stop(cgroup),
        };
        let pause = if self.is_still { NOW_AND_THEN } else { SOON };
        self.next = Span(now.0.saturating_add(pause.0));
        self.is_still && !was_still
    }

    fn stop(&mut self, cgroup: Option<&Cgroup>) -> bool {
        for _ in 0..PASSES {
            let before = self.frozen.len();
            for process in family(cgroup).iter().filter(|process| !process.is_stopped()) {
                self.frozen.insert((process.pid, process.started));
                process::send_signal(process.pid, SIGSTOP);
            }
            if self.frozen.len() == before {
                break;
            }
        }
        family(cgroup).iter().all(|process| self.is_still(process))
    }

    /// Stopped, or bound to be before it does anything: a shell hears no signal while a child that it has just
    /// forked is stopped short of its exec.
    fn is_still(&self, process: &Process) -> bool {
        process.is_stopped() || (process.state == b'D' && self.frozen.contains(&(process.pid, process.started)))
    }

    /// Lets all go on that was stopped here. Children first: a shell that waits for one need not see that it had
    /// been stopped.
    pub fn end(self, cgroup: Option<&Cgroup>) {
        let thawed = cgroup.filter(|_| self.by_kernel).map(|group| group.freeze(false));
        if thawed.is_some_and(|thawed| thawed.is_ok()) && self.frozen.is_empty() {
            return;
        }
        for &(pid, started) in self.frozen.iter().rev() {
            if procfs::process(pid).is_some_and(|process| process.started == started) {
                process::send_signal(pid, SIGCONT);
            }
        }
    }
}

/// Binds all threads of a job to these processors.
pub fn bind(cgroup: Option<&Cgroup>, cpus: &[u16]) {
    let mut set = CpuSet::new();
    if cpus.is_empty() || cpus.iter().any(|&cpu| set.set(cpu.into()).is_err()) {
        return;
    }
    for thread in family(cgroup).iter().flat_map(|process| procfs::threads(process.pid)) {
        // One that has just ended need not be bound.
        let _ = sched_setaffinity(Pid::from_raw(thread), &set);
    }
}

/// The living processes of the job whose shepherd this process is.
fn family(cgroup: Option<&Cgroup>) -> Vec<Process> {
    match cgroup {
        Some(group) => group.processes().into_iter().filter_map(procfs::process).filter(Process::lives).collect(),
        None => procfs::descendants(nix::unistd::getpid().as_raw()),
    }
}
