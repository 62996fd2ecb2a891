//! Enforcement of a job's limits: by the kernel where possible, else by the job's shepherd, which
//! checks them periodically.
//!
//! The job's cgroup limits memory and the number of processes, if the cgroup has the memory and
//! pids controllers. The shepherd checks these limits if the controllers are missing. It also
//! checks limits that the kernel does not have: the processor time and the address space of all
//! processes, and the resident memory of a process. The first check is soon after the start. Then
//! the intervals grow, except near a limit. If there is no limit to check, the shepherd makes no
//! checks.
//!
//! A limit that a job is allowed to exceed for a time (the key `limits` of `[launch]` in
//! `lanai.toml`, M51) is not enforced by the kernel. The shepherd records when the job began to
//! exceed the limit, and forgets that time when the job no longer exceeds the limit.

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

/// Delay before the first check.
const FIRST_DELAY: Span = Span(100);
/// Minimum delay between checks.
const MIN_DELAY: Span = Span(100);
/// Maximum delay between checks. For processor time, this maximum applies only while the job
/// exceeds the limit.
const MAX_DELAY: Span = Span::seconds(2);
/// Maximum delay between checks of processor time while the job is within the limit.
const MAX_CPUT_DELAY: Span = Span::seconds(60);
/// The delay before a check is at least this multiple of the duration of the previous check, unless
/// the time for which the job is allowed to exceed a limit ends earlier.
const CHECK_COST_FACTOR: i64 = 50;

/// The memory limits of an attempt on this host: the sum of the script's shares on this host, or
/// the limits in the launch of a task.
fn memory_limit(launch: &Launch) -> HostMemoryLimit {
    match (launch.place.task, launch.shares.first()) {
        (0, Some(first)) => HostMemoryLimit::on(&first.host, &launch.shares),
        _ => launch.place.room,
    }
}

/// Which limits of a job the kernel enforces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelLimits {
    /// The memory of all processes.
    pub memory: bool,
    /// The number of processes and threads.
    pub processes: bool,
}

/// Sets limits of the job's cgroup on memory and processes, where possible. A memory limit that the
/// job is allowed to exceed for a time is not set. Returns the limits that were set.
pub fn set_kernel_limits(launch: &Launch, cgroup: &Cgroup, processes: Option<u64>) -> KernelLimits {
    let memory = memory_limit(launch).mem;
    KernelLimits {
        memory: launch.responses.mem.ends_at_once()
            && memory.is_some_and(|limit| cgroup.limit_memory(limit)),
        processes: processes.is_some_and(|limit| cgroup.limit_processes(limit)),
    }
}

/// Whether the job has a memory limit on this host.
pub fn has_memory_limit(launch: &Launch) -> bool {
    memory_limit(launch).mem.is_some()
}

/// The outcome of a job that ran out of memory in its cgroup; None if the job did not, or has no
/// memory limit.
pub fn out_of_memory(launch: &Launch, cgroup: &Cgroup) -> Option<How> {
    let limit = memory_limit(launch).mem?;
    let peak = cgroup.out_of_memory()?;
    Some(exceeded(RunLimit::Mem, kb(peak.max(limit)), kb(limit)))
}

/// Checks the limits that the kernel does not enforce.
#[derive(Debug)]
pub struct Guard {
    memory: HostMemoryLimit,
    pmem: Option<u64>,
    cput: Option<Span>,
    /// Maximum number of threads; None if there is no limit, or the kernel enforces it.
    threads: Option<u64>,
    responses: Responses,
    /// When the job began to exceed each limit that it exceeds.
    over: BTreeMap<RunLimit, Span>,
    next: Option<Span>,
    /// Time and result of the last check, and the delay that followed it.
    last: (Span, UsageSample, Span),
}

impl Guard {
    /// Creates the guard of a job forked at `began`. `processes` is the maximum number of processes
    /// and threads of the script or task. The kernel enforces the limits in `kernel_limits`. A
    /// task's memory is checked anyway, because its limit also counts the memory of the script and
    /// the other tasks on this host.
    pub fn new(
        launch: &Launch,
        processes: Option<u64>,
        kernel_limits: KernelLimits,
        began: Span,
    ) -> Guard {
        let mut memory = memory_limit(launch);
        if kernel_limits.memory && launch.place.task == 0 {
            memory.mem = None;
        }
        let RunLimits { cput, pmem_kb, .. } = launch.limits;
        let last = (began, UsageSample::default(), FIRST_DELAY);
        let (responses, over) = (launch.responses, BTreeMap::new());
        let threads = if kernel_limits.processes {
            None
        } else {
            processes
        };
        let mut guard = Guard {
            memory,
            pmem: pmem_kb,
            cput,
            threads,
            responses,
            over,
            next: None,
            last,
        };
        guard.next = guard.delay().map(|_| later(began, FIRST_DELAY));
        guard
    }

    /// When the next check is due; None if there is nothing to check.
    pub fn next(&self) -> Option<Span> {
        self.next
    }

    /// Changes the limit on processor time.
    pub fn set_cput_limit(&mut self, cput: Option<Span>) {
        if self.cput != cput {
            self.cput = cput;
            self.next = self.delay().map(|_| clock::monotonic());
        }
    }

    /// Skips a suspension: its length counts neither as time over a limit nor as time between
    /// checks.
    pub fn skip_suspension(&mut self, length: Span) {
        self.over
            .values_mut()
            .for_each(|since| *since = later(*since, length));
        self.last.0 = later(self.last.0, length);
        self.next = self.next.map(|next| later(next, length));
    }

    /// Checks the limits. Returns the outcome if the job exceeds a limit and is no longer allowed
    /// to. `others` returns the processes of the same attempt on this host under other shepherds.
    pub fn check(
        &mut self,
        meter: &mut UsageMeter,
        cgroup: Option<&Cgroup>,
        others: impl FnOnce() -> Vec<Process>,
        elapsed: Span,
    ) -> Option<How> {
        let before = clock::monotonic();
        let suspect = self
            .memory
            .mem
            .into_iter()
            .chain(self.pmem)
            .min()
            .unwrap_or(u64::MAX);
        let others = if self.memory == HostMemoryLimit::default() {
            Vec::new()
        } else {
            others()
        };
        let reading = meter.measure(cgroup, &others, elapsed, suspect);
        let now = clock::monotonic();
        let delay = self.delay_after(&reading, Span(now.0 - self.last.0.0));
        // A check of very many processes takes long, so the next check must be later.
        let delay = delay.map(|delay| Span(delay.0.max(CHECK_COST_FACTOR * (now.0 - before.0))));
        self.next = delay.map(|delay| later(now, delay));
        self.last = (now, reading, delay.unwrap_or(FIRST_DELAY));
        let due = self.overdue(&reading, now);
        self.next = self.next.map(|next| self.earliest_check(next, now));
        due
    }

    /// The outcome for the first limit that the job exceeds and is no longer allowed to exceed.
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

    /// The time of the next check: `next`, or the earlier time from which the job is no longer
    /// allowed to exceed a limit.
    fn earliest_check(&self, next: Span, now: Span) -> Span {
        let ends = self
            .over
            .iter()
            .map(|(&bound, &since)| later(since, self.responses.of(bound).after));
        ends.filter(|&end| end > now)
            .chain([next])
            .min()
            .unwrap_or(next)
    }

    /// All limits that the job exceeds, with the outcome for each.
    fn excesses(&self, reading: &UsageSample) -> Vec<(RunLimit, How)> {
        let counts = [
            (RunLimit::Mem, reading.mem_kb, self.memory.mem),
            (RunLimit::Pmem, reading.largest_kb, self.pmem),
            (RunLimit::Processes, reading.threads, self.threads),
            (RunLimit::Vmem, reading.vmem_kb, self.memory.vmem),
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

    fn delay(&self) -> Option<Span> {
        self.delay_after(&UsageSample::default(), Span(1))
    }

    /// The delay before the next check; None if there is nothing to check. The delay is the
    /// shortest delay for a limit. For memory and threads, this is half the time until the job
    /// reaches the limit if its usage grows as between the last two checks, and at most twice the
    /// previous delay. For processor time, it is the time until the job reaches the limit if it
    /// uses all processors of the host. All delays have a minimum and a maximum.
    fn delay_after(&self, reading: &UsageSample, since: Span) -> Option<Span> {
        let last = &self.last.1;
        let counts = [
            (RunLimit::Mem, self.memory.mem, reading.mem_kb, last.mem_kb),
            (
                RunLimit::Pmem,
                self.pmem,
                reading.largest_kb,
                last.largest_kb,
            ),
            (
                RunLimit::Vmem,
                self.memory.vmem,
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
        let mut delays = Vec::new();
        for (bound, limit, now, before) in counts {
            let Some(limit) = limit else { continue };
            delays.push(if now > limit && self.over.contains_key(&bound) {
                // The job is allowed to exceed this limit for a time, so there is no need to check
                // often.
                MAX_DELAY.0
            } else {
                let grown = kb(now.saturating_sub(before)).max(1);
                let left = kb(limit.saturating_sub(now)).saturating_mul(since.0.max(1)) / grown / 2;
                left.min(self.last.2.0.saturating_mul(2))
                    .clamp(MIN_DELAY.0, MAX_DELAY.0)
            });
        }
        if let Some(limit) = self.cput {
            let is_over = reading.cput > limit && self.over.contains_key(&RunLimit::Cput);
            let processors = i64::from(sensors::host_processors().max(1));
            let left = limit.0.saturating_sub(reading.cput.0).max(0) / processors;
            delays.push(if is_over {
                MAX_DELAY.0
            } else {
                left.clamp(MIN_DELAY.0, MAX_CPUT_DELAY.0)
            });
        }
        delays.into_iter().min().map(Span)
    }
}

/// Sets the kernel's limits per process, for this process and its future children.
pub fn set_process_limits(limits: &RunLimits) -> io::Result<()> {
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

fn later(moment: Span, delay: Span) -> Span {
    Span(moment.0.saturating_add(delay.0))
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
    fn only_a_job_with_limits_is_checked() {
        assert_eq!(guard(None, None).next(), None);
        assert_eq!(guard(Some(1000), None).next(), Some(FIRST_DELAY));
        let mut late = guard(None, None);
        late.set_cput_limit(Some(Span::seconds(5)));
        assert!(late.next().is_some());
    }

    #[test]
    fn delays_grow_at_most_twofold_and_shrink_near_the_limit() {
        let mut guard = guard(Some(1000), None);
        guard.last = (Span(0), reading(100), Span(400));
        let delay = |mem_kb| guard.delay_after(&reading(mem_kb), Span(100));
        assert_eq!(delay(100), Some(Span(800)), "at most twice the last delay");
        assert_eq!(delay(400), Some(MIN_DELAY), "600 left, 300 grown in 100 ms");
        assert_eq!(delay(2000), Some(MIN_DELAY));
    }

    #[test]
    fn usage_equal_to_a_limit_does_not_exceed_the_limit() {
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
    fn processes_are_checked_unless_the_kernel_limits_them() {
        let launch = launch();
        let made =
            |kernel_limits: KernelLimits| Guard::new(&launch, Some(10), kernel_limits, Span(0));
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
        // M51: MEM:EXTENDED:CANCEL:00:05 ends a job only after it has exceeded the limit for five
        // minutes without a break.
        let mut guard = guard(Some(1000), None);
        guard.responses.mem.after = Span::seconds(300);
        let minute = |n: i64| Span::seconds(60 * n);
        assert_eq!(guard.overdue(&reading(1001), minute(1)), None);
        assert_eq!(guard.earliest_check(minute(30), minute(1)), minute(6));
        assert_eq!(guard.overdue(&reading(900), minute(5)), None);
        assert_eq!(
            guard.overdue(&reading(2000), minute(7)),
            None,
            "the usage was below the limit in between"
        );
        assert_eq!(
            guard.delay_after(&reading(2000), Span(100)),
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
