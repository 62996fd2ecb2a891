//! Resource usage of a job: sampled while the job runs, and completed when the job has ended.

use super::shared_memory::SharedMemory;
use crate::model::job::{NodeShare, Usage};
use crate::model::time::Span;
use crate::sys::cgroup::Cgroup;
use crate::sys::procfs::{self, Process};
use nix::sys::resource::{UsageWho, getrusage};

/// The usage of one job, measured by its shepherd.
#[derive(Debug, Default)]
pub struct UsageMeter {
    so_far: Usage,
    /// The job's files in shared memory; None if they do not count as memory.
    files: Option<SharedMemory>,
}

/// A sample of the living processes of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageSample {
    /// Resident memory and files in shared memory, in kilobytes, including the `others` of
    /// [`UsageMeter::measure`].
    pub mem_kb: u64,
    /// Resident memory of the largest process, in kilobytes.
    pub largest_kb: u64,
    /// Address space in kilobytes, including the `others` of [`UsageMeter::measure`].
    pub vmem_kb: u64,
    /// Processor time of all processes, including processes that have ended, without the `others`.
    pub cput: Span,
    /// Number of threads, without those of the `others`.
    pub threads: u64,
}

impl UsageMeter {
    /// Creates a meter for a job with the shares `shares`. `files` are the job's files in shared
    /// memory, if they count as memory.
    pub fn new(shares: &[NodeShare], files: Option<SharedMemory>) -> UsageMeter {
        let taken = shares
            .iter()
            .flat_map(|share| &share.taken)
            .filter(|(name, _)| name == "ncpus");
        let ncpus = taken.filter_map(|(_, value)| value.amount()).sum::<i64>();
        UsageMeter {
            so_far: Usage {
                ncpus: u32::try_from(ncpus).unwrap_or(0),
                ..Usage::default()
            },
            files,
        }
    }

    /// Samples the job's living processes. Returns the usage so far.
    pub fn sample(&mut self, cgroup: Option<&Cgroup>, walltime: Span) -> Usage {
        self.measure(cgroup, &[], walltime, u64::MAX);
        self.so_far
    }

    /// Samples the job's living processes and `others`: processes of the same job under other
    /// shepherds on this host, which record the usage of these processes. If the memory seems to
    /// exceed `threshold_kb`, it is measured again: then shared pages count once, and pages of
    /// files on disk do not count. This takes longer. Without a threshold (`u64::MAX`), files in
    /// shared memory do not count.
    pub fn measure(
        &mut self,
        cgroup: Option<&Cgroup>,
        others: &[Process],
        walltime: Span,
        threshold_kb: u64,
    ) -> UsageSample {
        let alive: Vec<Process> = match cgroup {
            Some(group) => group
                .processes()
                .into_iter()
                .filter_map(procfs::process)
                .collect(),
            None => procfs::family(nix::unistd::getpid().as_raw()),
        };
        let together: Vec<&Process> = alive.iter().chain(others).collect();
        let is_sample = threshold_kb == u64::MAX;
        let files_kb = match &mut self.files {
            Some(files) if !is_sample => files.measure(&together),
            _ => 0,
        };
        let (own, all) = measure(&alive, others, threshold_kb, files_kb);
        self.so_far.mem_kb = self.so_far.mem_kb.max(own.mem_kb);
        self.so_far.vmem_kb = self.so_far.vmem_kb.max(own.vmem_kb);
        let threads = alive.iter().map(|p| p.threads).sum();
        let running = Span(alive.iter().map(|p| p.cput).sum());
        UsageSample {
            cput: self.note(cgroup, running, walltime).cput,
            threads,
            ..all
        }
    }

    /// Records a peak of resident memory, in kilobytes, that the kernel has measured.
    pub fn note_peak(&mut self, mem_kb: u64) {
        self.so_far.mem_kb = self.so_far.mem_kb.max(mem_kb);
    }

    /// Updates the total usage after the script has ended, and returns it.
    pub fn total(&mut self, cgroup: Option<&Cgroup>, walltime: Span) -> Usage {
        self.note(cgroup, Span(0), walltime)
    }

    fn note(&mut self, cgroup: Option<&Cgroup>, running: Span, walltime: Span) -> Usage {
        let (reaped, largest_kb) = reaped();
        let cput = cgroup
            .and_then(Cgroup::cput)
            .unwrap_or(Span(reaped.0 + running.0));
        let so_far = &mut self.so_far;
        // If a parent process ignores the end of its child, the child's processor time may be lost.
        // So never decrease the total.
        so_far.cput = so_far.cput.max(cput);
        so_far.mem_kb = so_far.mem_kb.max(largest_kb);
        so_far.walltime = walltime;
        *so_far
    }
}

/// The memory of a job's processes, first without and then with `others`. If the memory with
/// `others` and with files in shared memory seems to exceed `threshold_kb`, it is measured exactly.
fn measure(
    alive: &[Process],
    others: &[Process],
    threshold_kb: u64,
    files_kb: u64,
) -> (UsageSample, UsageSample) {
    let (own, others) = (
        procfs::with_own_memory(alive),
        procfs::with_own_memory(others),
    );
    let resident: u64 = own.iter().chain(&others).map(|p| p.mem_kb).sum();
    let is_exact = resident.saturating_add(files_kb) > threshold_kb;
    let own_parts = memory_parts(&own, is_exact);
    let other_parts = memory_parts(&others, is_exact);
    let vmem_kb = own.iter().map(|p| p.vmem_kb).sum();
    let largest_kb = own_parts
        .iter()
        .map(|(own, shared)| own + shared)
        .max()
        .unwrap_or(0);
    let own = UsageSample {
        mem_kb: sum(own_parts.iter(), files_kb),
        largest_kb,
        vmem_kb,
        ..UsageSample::default()
    };
    let all = UsageSample {
        mem_kb: sum(own_parts.iter().chain(&other_parts), files_kb),
        vmem_kb: vmem_kb + others.iter().map(|p| p.vmem_kb).sum::<u64>(),
        ..own
    };
    (own, all)
}

/// The private and the shared memory of each process, in kilobytes. Unless `is_exact`, all resident
/// memory counts as shared.
fn memory_parts(processes: &[&Process], is_exact: bool) -> Vec<(u64, u64)> {
    let mut memory_parts = Vec::new();
    for process in processes {
        memory_parts.push(if is_exact {
            procfs::proportional_kb(process)
        } else {
            (0, process.mem_kb)
        });
    }
    memory_parts
}

/// The memory of processes, given by their private and shared parts, and of files in shared memory.
/// Files that are mapped are also in the shared parts. So either all shared parts or the files
/// count, whichever use more memory.
fn sum<'a>(memory_parts: impl Iterator<Item = &'a (u64, u64)>, files_kb: u64) -> u64 {
    let (own, shared) = memory_parts.fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
    own + shared.max(files_kb)
}

/// Processor time of all reaped children, and the largest resident memory of any of them, in
/// kilobytes.
fn reaped() -> (Span, u64) {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else {
        return (Span(0), 0);
    };
    let (user, system) = (usage.user_time(), usage.system_time());
    let micros = (user.tv_sec() + system.tv_sec()) * 1_000_000 + user.tv_usec() + system.tv_usec();
    (Span(micros / 1000), usage.max_rss().max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that has ended, so that an exact measurement finds no memory.
    fn gone(mem_kb: u64) -> Process {
        Process {
            pid: i32::MAX,
            parent: 0,
            mem_kb,
            vmem_kb: 10 * mem_kb,
            ..procfs::own().unwrap()
        }
    }

    #[test]
    fn memory_is_measured_exactly_if_it_seems_to_exceed_the_threshold() {
        let (alive, others) = ([gone(500), gone(300)], [gone(200)]);
        let own = UsageSample {
            mem_kb: 800,
            largest_kb: 500,
            vmem_kb: 8000,
            ..UsageSample::default()
        };
        let all = UsageSample {
            mem_kb: 1000,
            vmem_kb: 10_000,
            ..own
        };
        assert_eq!(measure(&alive, &others, 1000, 0), (own, all));
        let nothing = |of: UsageSample| UsageSample {
            mem_kb: 0,
            largest_kb: 0,
            ..of
        };
        assert_eq!(
            measure(&alive, &others, 999, 0),
            (nothing(own), nothing(all))
        );
        let with_files = |of: UsageSample| UsageSample {
            mem_kb: 300,
            largest_kb: 0,
            ..of
        };
        assert_eq!(
            measure(&alive, &others, 1000, 300),
            (with_files(own), with_files(all))
        );
    }

    #[test]
    fn mapped_files_in_shared_memory_count_once() {
        let memory_parts = [(100, 30), (50, 20)];
        assert_eq!(
            [0, 40, 80].map(|files| sum(memory_parts.iter(), files)),
            [200, 200, 230]
        );
    }

    #[test]
    fn memory_that_a_child_shares_with_its_parent_counts_once() {
        let me = procfs::own().unwrap();
        let family = [
            me,
            Process {
                parent: me.pid,
                ..me
            },
        ];
        let (own, all) = measure(&family, &family, u64::MAX, 0);
        assert_eq!((own.mem_kb, all.mem_kb), (me.mem_kb, 2 * me.mem_kb));
    }

    #[test]
    fn the_peak_does_not_count_processes_of_other_shepherds() {
        let mut meter = UsageMeter::new(&[], None);
        let before = meter.sample(None, Span(0));
        let huge = 1 << 50;
        let reading = meter.measure(None, &[gone(huge)], Span(7), u64::MAX);
        assert!(reading.mem_kb >= huge && reading.vmem_kb >= huge);
        let after = meter.sample(None, Span(8));
        assert!(after.mem_kb < huge && after.vmem_kb < huge && after.cput >= before.cput);
        meter.note_peak(huge);
        assert_eq!(meter.total(None, Span(9)).mem_kb, huge);
    }
}
