//! Enforcement of a job's limits: by the kernel where possible, else by periodic checks.
//!
//! The job's cgroup limits its memory and number of processes, if it has the memory and pids
//! controllers. Without them, and for limits that the kernel does not have (processor time of all
//! processes, resident memory of a process), the shepherd checks: soon after the start, then at
//! growing intervals, and more often near a limit. Jobs without such limits are not checked.
//!
//! A limit that may be exceeded for a time (`limits` of `lanai.toml`, M51) is not enforced by the
//! kernel: the shepherd records since when the job exceeds it, and resets that when it no longer
//! does.

use super::meter::{UsageMeter, UsageSample};
use crate::model::job::How;
use crate::model::job::attempt::RunLimit;
use crate::model::job::response::Responses;
use crate::model::job::run_limits::{HostMemoryLimit, RunLimits};
use crate::model::time::Span;
use crate::sys::cgroup::Cgroup;
use crate::sys::procfs::Process;
use crate::sys::{clock, sensors};
use crate::wire::order::Launch;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::io;

/// First delay, and minimum and maximum delay between memory checks.
const FIRST_DELAY: Span = Span(100);
const MIN_DELAY: Span = Span(100);
const MAX_DELAY: Span = Span::seconds(2);
/// Maximum delay between processor time checks.
const MAX_CPUT_DELAY: Span = Span::seconds(60);
/// The delay before a check is at least this multiple of the duration of the last one.
const CHECK_COST_FACTOR: i64 = 50;

/// The memory limits of a process on this host: from the script's shares here, or as ordered for a
/// task.
fn memory_limit(launch: &Launch) -> HostMemoryLimit {
    match (launch.place.task, launch.shares.first()) {
        (0, Some(first)) => HostMemoryLimit::on(&first.host, &launch.shares),
        _ => launch.place.room,
    }
}

/// The limits of a job that the kernel enforces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelLimits {
    /// Memory.
    pub memory: bool,
    /// Number of processes.
    pub processes: bool,
}

/// Sets the kernel's limits on a job's memory and processes, where possible. The shepherd enforces
/// a memory limit that may be exceeded for a time.
pub fn fence(launch: &Launch, cgroup: &Cgroup, processes: Option<u64>) -> KernelLimits {
    let memory = memory_limit(launch).mem;
    KernelLimits {
        memory: launch.responses.mem.ends_at_once()
            && memory.is_some_and(|limit| cgroup.bound_memory(limit)),
        processes: processes.is_some_and(|limit| cgroup.bound_processes(limit)),
    }
}

/// Whether the job has a memory limit here.
pub fn bounds_memory(launch: &Launch) -> bool {
    memory_limit(launch).mem.is_some()
}

/// The outcome of a job that ran out of memory in its cgroup; None for other jobs.
pub fn denied(launch: &Launch, cgroup: &Cgroup) -> Option<How> {
    let limit = memory_limit(launch).mem?;
    let peak = cgroup.out_of_memory()?;
    Some(exceeded(RunLimit::Mem, kb(peak.max(limit)), kb(limit)))
}

/// The limits that are enforced by checks, and the next check.
#[derive(Debug)]
pub struct Guard {
    room: HostMemoryLimit,
    pmem: Option<u64>,
    cput: Option<Span>,
    /// Maximum number of threads, unless the kernel enforces it.
    threads: Option<u64>,
    responses: Responses,
    /// Since when each limit has been exceeded.
    over: BTreeMap<RunLimit, Span>,
    next: Option<Span>,
    /// Time and result of the last check, and the delay before it.
    last: (Span, UsageSample, Span),
}

impl Guard {
    /// A guard for a job forked at `began`. `processes` is the maximum number of processes and
    /// threads of its script or task. The kernel enforces the limits in `fence`, but for a task
    /// only its own memory: the memory it uses together with the script and other tasks here is
    /// measured.
    pub fn new(launch: &Launch, processes: Option<u64>, fence: KernelLimits, began: Span) -> Guard {
        let mut room = memory_limit(launch);
        if fence.memory && launch.place.task == 0 {
            room.mem = None;
        }
        let RunLimits { cput, pmem_kb, .. } = launch.limits;
        let last = (began, UsageSample::default(), FIRST_DELAY);
        let (responses, over) = (launch.responses, BTreeMap::new());
        let threads = if fence.processes { None } else { processes };
        let mut guard = Guard {
            room,
            pmem: pmem_kb,
            cput,
            threads,
            responses,
            over,
            next: None,
            last,
        };
        guard.next = guard.pause().map(|_| later(began, FIRST_DELAY));
        guard
    }

    /// When the next check is due; None for never.
    pub fn next(&self) -> Option<Span> {
        self.next
    }

    /// Changes the limit on processor time.
    pub fn bound_cput(&mut self, cput: Option<Span>) {
        if self.cput != cput {
            self.cput = cput;
            self.next = self.pause().map(|_| clock::monotonic());
        }
    }

    /// Skips a suspension of this length: it counts neither as time over a limit nor as time
    /// between checks.
    pub fn skip_suspension(&mut self, length: Span) {
        self.over
            .values_mut()
            .for_each(|since| *since = later(*since, length));
        self.last.0 = later(self.last.0, length);
        self.next = self.next.map(|next| later(next, length));
    }

    /// Checks the limits. Returns the outcome if the job exceeds one for too long. `others` are the
    /// processes of the same attempt here under other shepherds.
    pub fn check(
        &mut self,
        meter: &mut UsageMeter,
        cgroup: Option<&Cgroup>,
        others: impl FnOnce() -> Vec<Process>,
        elapsed: Span,
    ) -> Option<How> {
        let before = clock::monotonic();
        let suspect = self
            .room
            .mem
            .into_iter()
            .chain(self.pmem)
            .min()
            .unwrap_or(u64::MAX);
        let others = if self.room == HostMemoryLimit::default() {
            Vec::new()
        } else {
            others()
        };
        let reading = meter.measure(cgroup, &others, elapsed, suspect);
        let now = clock::monotonic();
        let pause = self.pause_after(&reading, Span(now.0 - self.last.0.0));
        // With very many processes a check takes long.
        let pause = pause.map(|pause| Span(pause.0.max(CHECK_COST_FACTOR * (now.0 - before.0))));
        self.next = pause.map(|pause| later(now, pause));
        self.last = (now, reading, pause.unwrap_or(FIRST_DELAY));
        let due = self.overdue(&reading, now);
        self.next = self.next.map(|next| self.soonest(next, now));
        due
    }

    /// The first limit that has been exceeded for longer than allowed.
    fn overdue(&mut self, reading: &UsageSample, now: Span) -> Option<How> {
        let excesses = self.excesses(reading);
        self.over
            .retain(|bound, _| excesses.iter().any(|(over, _)| over == bound));
        for (bound, how) in excesses {
            let since = *self.over.entry(bound).or_insert(now);
            if now >= later(since, self.responses.of(bound).after) {
                return Some(how);
            }
        }
        None
    }

    /// The next check, moved forward to the time at which a tolerated excess ends the job.
    fn soonest(&self, next: Span, now: Span) -> Span {
        let ends = self
            .over
            .iter()
            .map(|(&bound, &since)| later(since, self.responses.of(bound).after));
        ends.filter(|&end| end > now)
            .chain([next])
            .min()
            .unwrap_or(next)
    }

    /// All exceeded limits.
    fn excesses(&self, reading: &UsageSample) -> Vec<(RunLimit, How)> {
        let counts = [
            (RunLimit::Mem, reading.mem_kb, self.room.mem),
            (RunLimit::Pmem, reading.largest_kb, self.pmem),
            (RunLimit::Processes, reading.threads, self.threads),
            (RunLimit::Vmem, reading.vmem_kb, self.room.vmem),
        ];
        let mut excesses = Vec::new();
        for (bound, used, limit) in counts {
            if let Some(limit) = limit
                && used > limit
            {
                excesses.push((bound, exceeded(bound, kb(used), kb(limit))));
            }
        }
        if let Some(limit) = self.cput
            && reading.cput > limit
        {
            let how = exceeded(RunLimit::Cput, reading.cput.0, limit.0);
            excesses.push((RunLimit::Cput, how));
        }
        excesses
    }

    fn pause(&self) -> Option<Span> {
        self.pause_after(&UsageSample::default(), Span(1))
    }

    /// The delay before the next check: so long that no limit can be exceeded meanwhile, estimated
    /// from the last two checks.
    fn pause_after(&self, reading: &UsageSample, since: Span) -> Option<Span> {
        let last = &self.last.1;
        let counts = [
            (RunLimit::Mem, self.room.mem, reading.mem_kb, last.mem_kb),
            (
                RunLimit::Pmem,
                self.pmem,
                reading.largest_kb,
                last.largest_kb,
            ),
            (
                RunLimit::Vmem,
                self.room.vmem,
                reading.vmem_kb,
                last.vmem_kb,
            ),
            (
                RunLimit::Processes,
                self.threads,
                reading.threads,
                last.threads,
            ),
        ];
        let mut pauses = Vec::new();
        for (bound, limit, now, before) in counts {
            let Some(limit) = limit else { continue };
            pauses.push(if now > limit && self.over.contains_key(&bound) {
                // The job may exceed the limit for a time: only the end of the excess matters.
                MAX_DELAY.0
            } else {
                let grown = kb(now.saturating_sub(before)).max(1);
                // Half the time to the limit at the recent rate of growth.
                let left = kb(limit.saturating_sub(now)).saturating_mul(since.0.max(1)) / grown / 2;
                left.min(self.last.2.0.saturating_mul(2))
                    .clamp(MIN_DELAY.0, MAX_DELAY.0)
            });
        }
        if let Some(limit) = self.cput {
            let is_over = reading.cput > limit && self.over.contains_key(&RunLimit::Cput);
            let processors = i64::from(sensors::host_processors().max(1));
            let left = limit.0.saturating_sub(reading.cput.0).max(0) / processors;
            pauses.push(if is_over {
                MAX_DELAY.0
            } else {
                left.clamp(MIN_DELAY.0, MAX_CPUT_DELAY.0)
            });
        }
        pauses.into_iter().min().map(Span)
    }
}

/// Sets the kernel's limits on each process, for this process and its future children.
pub fn impose(limits: &RunLimits) -> io::Result<()> {
    let seconds = limits
        .pcput
        .map(|span| span.as_seconds().max(1).unsigned_abs());
    for (resource, limit) in [
        (Resource::RLIMIT_CPU, seconds),
        (Resource::RLIMIT_AS, limits.pvmem_kb.map(in_bytes)),
        (Resource::RLIMIT_FSIZE, limits.file_kb.map(in_bytes)),
    ] {
        let Some(limit) = limit.filter(|&limit| limit < RLIM_INFINITY) else {
            continue;
        };
        let (_, hard) = getrlimit(resource)?;
        setrlimit(resource, limit.min(hard), limit.min(hard))?;
    }
    Ok(())
}

fn in_bytes(kb: u64) -> u64 {
    kb.saturating_mul(1024)
}

fn exceeded(bound: RunLimit, used: i64, limit: i64) -> How {
    How::Exceeded { bound, used, limit }
}

fn kb(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

fn later(moment: Span, pause: Span) -> Span {
    Span(moment.0.saturating_add(pause.0))
}

#[cfg(test)]
mod tests {
    use super::super::launch_for_tests as launch;
    use super::*;
    use crate::model::resource::{ResourceValue, Size};

    fn guard(mem_kb: Option<u64>, cput: Option<Span>) -> Guard {
        let mut launch = launch();
        launch.limits.cput = cput;
        let taken = mem_kb.map(|kb| ("mem".to_string(), ResourceValue::Size(Size::kilobytes(kb))));
        launch.shares[0].taken.extend(taken);
        Guard::new(&launch, None, KernelLimits::default(), Span(0))
    }

    fn reading(mem_kb: u64) -> UsageSample {
        UsageSample {
            mem_kb,
            ..UsageSample::default()
        }
    }

    #[test]
    fn a_job_without_limits_is_never_checked() {
        assert_eq!(guard(None, None).next(), None);
        assert_eq!(guard(Some(1000), None).next(), Some(FIRST_DELAY));
        let mut late = guard(None, None);
        late.bound_cput(Some(Span::seconds(5)));
        assert!(late.next().is_some());
    }

    #[test]
    fn pauses_grow_while_nothing_happens_and_shrink_near_the_limit() {
        let mut guard = guard(Some(1000), None);
        guard.last = (Span(0), reading(100), Span(400));
        let pause = |mem_kb| guard.pause_after(&reading(mem_kb), Span(100));
        assert_eq!(pause(100), Some(Span(800)), "at most twice the last one");
        assert_eq!(pause(400), Some(MIN_DELAY), "600 left, 300 grown in 100 ms");
        assert_eq!(pause(2000), Some(MIN_DELAY));
    }

    #[test]
    fn usage_at_the_limit_does_not_exceed_it() {
        let mut guard = guard(Some(1000), Some(Span::seconds(2)));
        assert_eq!(guard.overdue(&reading(1000), Span(0)), None);
        let over = How::Exceeded {
            bound: RunLimit::Mem,
            used: 1001,
            limit: 1000,
        };
        assert_eq!(guard.overdue(&reading(1001), Span(0)), Some(over));
        let busy = UsageSample {
            cput: Span(2001),
            ..UsageSample::default()
        };
        let over = How::Exceeded {
            bound: RunLimit::Cput,
            used: 2001,
            limit: 2000,
        };
        assert_eq!(guard.overdue(&busy, Span(0)), Some(over));
    }

    #[test]
    fn processes_are_counted_unless_the_kernel_limits_them() {
        let launch = launch();
        let made = |fence: KernelLimits| Guard::new(&launch, Some(10), fence, Span(0));
        assert_eq!(
            made(KernelLimits {
                processes: true,
                memory: false
            })
            .next(),
            None
        );
        let mut guard = made(KernelLimits::default());
        assert_eq!(guard.next(), Some(FIRST_DELAY));
        let reading = |threads| UsageSample {
            threads,
            ..UsageSample::default()
        };
        assert_eq!(guard.overdue(&reading(10), Span(0)), None);
        let over = How::Exceeded {
            bound: RunLimit::Processes,
            used: 11,
            limit: 10,
        };
        assert_eq!(guard.overdue(&reading(11), Span(0)), Some(over));
    }

    #[test]
    fn a_tolerated_excess_ends_the_job_only_if_it_is_uninterrupted() {
        // M51: MEM:EXTENDED:CANCEL:00:05 ends it only after five minutes above the limit.
        let mut guard = guard(Some(1000), None);
        guard.responses.mem.after = Span::seconds(300);
        let minute = |n: i64| Span::seconds(60 * n);
        assert_eq!(guard.overdue(&reading(1001), minute(1)), None);
        assert_eq!(guard.soonest(minute(30), minute(1)), minute(6));
        assert_eq!(guard.overdue(&reading(900), minute(5)), None);
        assert_eq!(
            guard.overdue(&reading(2000), minute(7)),
            None,
            "the usage was below the limit in between"
        );
        assert_eq!(
            guard.pause_after(&reading(2000), Span(100)),
            Some(MAX_DELAY)
        );
        assert_eq!(guard.overdue(&reading(3000), minute(11)), None);
        let over = How::Exceeded {
            bound: RunLimit::Mem,
            used: 1500,
            limit: 1000,
        };
        assert_eq!(guard.overdue(&reading(1500), minute(12)), Some(over));
    }
}
