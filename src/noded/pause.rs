//! Suspension of a job: all its processes are stopped, and later resumed.
//!
//! If the job has a cgroup, the kernel freezes the cgroup with all its processes. Otherwise, or if
//! the freeze fails, the job's shepherd sends SIGSTOP to every running process, and repeats that
//! until it finds no running process. If another process continues a stopped process, the next
//! check stops that process again. Processes that the job itself has stopped remain stopped on
//! resumption.

use super::sweep::Frozen;
use crate::model::time::Span;
use crate::sys::cgroup::Cgroup;
use crate::sys::process;
use crate::sys::procfs::{self, Process};
use nix::libc::{SIGCONT, SIGSTOP};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Delay between checks while a process of the job still runs.
const RUNNING_DELAY: Span = Span(5);
/// Delay between checks while all processes of the job are stopped.
const STOPPED_DELAY: Span = Span::seconds(2);
/// Maximum number of passes in a check. The limit lets the shepherd handle orders between two
/// checks.
const MAX_PASSES: usize = 100;

/// The suspension of a job.
#[derive(Debug)]
pub struct Pause {
    /// Monotonic time at which the suspension began.
    pub since: Span,
    /// When the next check is due.
    pub next: Span,
    /// Whether all processes were stopped at the last check.
    pub is_stopped: bool,
    /// The processes that got SIGSTOP.
    frozen: Frozen,
    /// Whether the kernel accepted the last order to freeze the job's cgroup.
    by_kernel: bool,
}

impl Pause {
    /// Creates a suspension. The first [`Pause::check`] stops the processes.
    pub fn new(now: Span) -> Pause {
        Pause {
            since: now,
            next: now,
            is_stopped: false,
            frozen: Frozen::new(),
            by_kernel: false,
        }
    }

    /// Stops processes that are not stopped. Returns true if all processes are stopped now, and not
    /// all were stopped at the previous check.
    pub fn check(&mut self, cgroup: Option<&Cgroup>, now: Span) -> bool {
        let was_stopped = self.is_stopped;
        self.by_kernel = cgroup.is_some_and(|group| group.freeze(true).is_ok());
        self.is_stopped = match cgroup {
            Some(group) if self.by_kernel => group.is_frozen(),
            _ => self.stop(cgroup),
        };
        let delay = if self.is_stopped {
            STOPPED_DELAY
        } else {
            RUNNING_DELAY
        };
        self.next = Span(now.0.saturating_add(delay.0));
        self.is_stopped && !was_stopped
    }

    fn stop(&mut self, cgroup: Option<&Cgroup>) -> bool {
        for _ in 0..MAX_PASSES {
            let before = self.frozen.len();
            for process in family(cgroup)
                .iter()
                .filter(|process| !process.is_stopped())
            {
                self.frozen.insert((process.pid, process.started));
                process::send_signal(process.pid, SIGSTOP);
            }
            if self.frozen.len() == before {
                break;
            }
        }
        family(cgroup)
            .iter()
            .all(|process| self.is_stopped(process))
    }

    /// Whether a process is stopped, or has got SIGSTOP and waits in the kernel. For instance, a
    /// shell in vfork does not handle signals while its new child is stopped before exec.
    fn is_stopped(&self, process: &Process) -> bool {
        process.is_stopped()
            || (process.state == b'D' && self.frozen.contains(&(process.pid, process.started)))
    }

    /// Resumes all processes that this suspension has stopped. Child processes, which usually have
    /// higher pids, are resumed before their parents, so that a waiting shell does not find its
    /// children stopped.
    pub fn end(self, cgroup: Option<&Cgroup>) {
        if let Some(group) = cgroup
            && self.by_kernel
            && group.freeze(false).is_ok()
            && self.frozen.is_empty()
        {
            return;
        }
        for &(pid, started) in self.frozen.iter().rev() {
            if procfs::process(pid).is_some_and(|process| process.started == started) {
                process::send_signal(pid, SIGCONT);
            }
        }
    }
}

/// Binds all threads of a job to the processors `cpus`. Has no effect if `cpus` is empty or
/// contains an invalid number.
pub fn bind(cgroup: Option<&Cgroup>, cpus: &[u16]) {
    let mut set = CpuSet::new();
    if cpus.is_empty() || cpus.iter().any(|&cpu| set.set(cpu.into()).is_err()) {
        return;
    }
    for thread in family(cgroup)
        .iter()
        .flat_map(|process| procfs::threads(process.pid))
    {
        // Fails for threads that have just ended.
        let _ = sched_setaffinity(Pid::from_raw(thread), &set);
    }
}

/// The living processes of this shepherd's job.
fn family(cgroup: Option<&Cgroup>) -> Vec<Process> {
    match cgroup {
        Some(group) => group
            .processes()
            .into_iter()
            .filter_map(procfs::process)
            .filter(Process::lives)
            .collect(),
        None => procfs::descendants(nix::unistd::getpid().as_raw()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock;
    use crate::sys::program::{ProgramCall, RunningProgram, UNLIMITED};
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    /// Starts a process. `folder` becomes a fake cgroup, which contains the process but cannot
    /// freeze it.
    fn member(folder: &Path) -> (RunningProgram, i32) {
        let pid_file = folder.join("pid");
        let script = format!(
            "echo $$ >{0}.new; mv {0}.new {0}; exec sleep 300",
            pid_file.display()
        );
        let words = ["/bin/sh".into(), "-c".into(), script];
        let call = ProgramCall::new(&words, UNLIMITED);
        let program = call.start(Span(0)).unwrap();
        let pid = wait_for(|| fs::read_to_string(&pid_file).ok());
        fs::write(folder.join("cgroup.procs"), &pid).unwrap();
        (program, pid.trim().parse().unwrap())
    }

    fn wait_for<T>(mut check: impl FnMut() -> Option<T>) -> T {
        for _ in 0..2000 {
            if let Some(seen) = check() {
                return seen;
            }
            clock::sleep(Duration::from_millis(5));
        }
        panic!("timed out")
    }

    fn is_stopped(pid: i32) -> bool {
        procfs::process(pid).is_some_and(|process| process.is_stopped())
    }

    /// Suspends the processes of `group`.
    fn paused(group: &Cgroup) -> Pause {
        let mut pause = Pause::new(Span(0));
        let firsts =
            wait_for(|| Some(pause.check(Some(group), Span(1))).filter(|_| pause.is_stopped));
        assert!(
            firsts && !pause.check(Some(group), Span(1)),
            "a suspension is reported once"
        );
        pause
    }

    #[test]
    fn processes_stopped_by_a_signal_are_resumed() {
        let folder = tempfile::tempdir().unwrap();
        let (program, pid) = member(folder.path());
        let group = Cgroup::at(folder.path());
        let pause = paused(&group);
        assert_eq!(
            (is_stopped(pid), pause.next),
            (true, Span(1 + STOPPED_DELAY.0))
        );
        pause.end(Some(&group));
        wait_for(|| (!is_stopped(pid)).then_some(()));
        program.kill();
    }

    /// The first check cannot freeze the cgroup, so it stops the process by a signal. A later check
    /// freezes the cgroup.
    #[test]
    fn processes_stopped_by_a_signal_are_resumed_after_a_later_freeze() {
        let folder = tempfile::tempdir().unwrap();
        let (program, pid) = member(folder.path());
        let group = Cgroup::at(folder.path());
        let mut pause = paused(&group);
        fs::write(folder.path().join("cgroup.freeze"), "0").unwrap();
        pause.check(Some(&group), Span(2));
        assert_eq!(
            fs::read_to_string(folder.path().join("cgroup.freeze")).unwrap(),
            "1"
        );
        pause.end(Some(&group));
        assert_eq!(
            fs::read_to_string(folder.path().join("cgroup.freeze")).unwrap(),
            "0"
        );
        wait_for(|| (!is_stopped(pid)).then_some(()));
        program.kill();
    }

    #[test]
    fn an_uninterruptible_process_counts_as_stopped_once_signaled() {
        let mut pause = Pause::new(Span(0));
        pause.frozen.insert((7, 70));
        let is_stopped = |state: u8, started: u64| {
            let process = Process {
                pid: 7,
                state,
                parent: 1,
                session: 1,
                started,
                cput: 0,
                vmem_kb: 0,
                mem_kb: 0,
                threads: 1,
            };
            pause.is_stopped(&process)
        };
        assert!(is_stopped(b'T', 70) && is_stopped(b'T', 71) && is_stopped(b'D', 70));
        assert!(!is_stopped(b'D', 71), "another process with the same pid");
        assert!(!is_stopped(b'S', 70) && !is_stopped(b'R', 70));
    }
}
