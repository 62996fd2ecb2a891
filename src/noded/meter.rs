//! Resource usage of a job: sampled while it runs, summed at its end.

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
    /// Its files in shared memory, if they count as memory.
    files: Option<SharedMemory>,
}

/// A sample of the living processes of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageSample {
    /// Resident memory in kilobytes, including the job's other processes here.
    pub mem_kb: u64,
    /// Resident memory of the largest process, in kilobytes.
    pub largest_kb: u64,
    /// Address space in kilobytes, including the job's other processes here.
    pub vmem_kb: u64,
    /// Processor time of all processes, including ended ones.
    pub cput: Span,
    /// Number of threads.
    pub threads: u64,
}

impl UsageMeter {
    /// A meter for a job with these shares. `files` are its files in shared memory, if they count.
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

    /// Samples the job's living processes and `others`: processes of the same job that are counted
    /// elsewhere. If memory seems to exceed `threshold_kb`, it is measured again with shared
    /// pages counted once and without file pages, which takes longer.
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

    /// Records a peak measured elsewhere: the largest resident memory, in kilobytes.
    pub fn note_peak(&mut self, mem_kb: u64) {
        self.so_far.mem_kb = self.so_far.mem_kb.max(mem_kb);
    }

    /// The total, once all processes have ended but before the cgroup is removed.
    pub fn total(&mut self, cgroup: Option<&Cgroup>, walltime: Span) -> Usage {
        self.note(cgroup, Span(0), walltime)
    }

    fn note(&mut self, cgroup: Option<&Cgroup>, running: Span, walltime: Span) -> Usage {
        let (reaped, largest_kb) = reaped();
        let cput = cgroup
            .and_then(Cgroup::cput)
            .unwrap_or(Span(reaped.0 + running.0));
        let so_far = &mut self.so_far;
        // Processor time of a process may be lost if its parent ignores its end, so never decrease.
        so_far.cput = so_far.cput.max(cput);
        so_far.mem_kb = so_far.mem_kb.max(largest_kb);
        so_far.walltime = walltime;
        *so_far
    }
}

/// The memory of a job's processes, and the memory including `others`. It is measured again if all
/// of it, with files in shared memory, seems to exceed `threshold_kb`.
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

/// The private and the shared memory of each process. If not `is_exact`, all resident memory counts
/// as shared.
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

/// The memory of processes, each with its own and shared part, and of files in shared memory. These
/// files may be mapped and so be in the shared parts, too: the larger of both counts.
fn sum<'a>(memory_parts: impl Iterator<Item = &'a (u64, u64)>, files_kb: u64) -> u64 {
    let (own, shared) = memory_parts.fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
    own + shared.max(files_kb)
}

/// Processor time of all reaped children, and the largest resident memory of one, in kilobytes.
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

    /// A process that has ended: its second measurement is zero.
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
    fn memory_is_measured_again_only_if_it_seems_too_much_with_other_processes() {
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
    fn files_that_are_mapped_count_once() {
        let memory_parts = [(100, 30), (50, 20)];
        assert_eq!(
            [0, 40, 80].map(|files| sum(memory_parts.iter(), files)),
            [200, 200, 230]
        );
    }

    #[test]
    fn memory_that_a_process_borrows_is_counted_once() {
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

    /// The memory of other processes is not part of this job's usage.
    #[test]
    fn the_peak_counts_only_own_processes() {
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
