//! What a job uses: sampled now and then while it runs, added up when it is over.

use crate::model::job::{Share, Usage};
use crate::model::time::Span;
use crate::sys::cgroup::Cgroup;
use crate::sys::procfs::{self, Process};
use nix::sys::resource::{UsageWho, getrusage};

/// The gauge of one job, read by its shepherd.
#[derive(Debug, Default)]
pub struct Meter {
    so_far: Usage,
}

/// What the living processes of a job had at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Resident memory, in kilobytes; with that of its kin.
    pub mem_kb: u64,
    /// That of the largest process.
    pub largest_kb: u64,
    /// Address space, in kilobytes; with that of its kin.
    pub vmem_kb: u64,
    /// Processor time of all, also of those that are gone.
    pub cput: Span,
}

impl Meter {
    /// For a job that holds these.
    pub fn new(shares: &[Share]) -> Meter {
        let taken = shares.iter().flat_map(|share| &share.taken).filter(|(name, _)| name == "ncpus");
        let ncpus = taken.filter_map(|(_, value)| value.amount()).sum::<i64>();
        Meter { so_far: Usage { ncpus: u32::try_from(ncpus).unwrap_or(0), ..Usage::default() } }
    }

    /// Looks at the job's living processes; what has been used so far.
    pub fn sample(&mut self, cgroup: Option<&Cgroup>, walltime: Span) -> Usage {
        self.look(cgroup, &[], walltime, u64::MAX);
        self.so_far
    }

    /// Looks at the job's living processes, and at its kin: what belongs to the same job but is counted
    /// elsewhere. Memory that seems to be more than `suspect` kilobytes is measured again with what
    /// processes share counted once and without pages of files, which takes the kernel longer.
    pub fn look(&mut self, cgroup: Option<&Cgroup>, kin: &[Process], walltime: Span, suspect: u64) -> Reading {
        let alive: Vec<Process> = match cgroup {
            Some(group) => group.processes().into_iter().filter_map(procfs::process).collect(),
            None => procfs::family(nix::unistd::getpid().as_raw()),
        };
        let (own, kins) = (procfs::with_own_memory(&alive), procfs::with_own_memory(kin));
        let is_suspect = own.iter().chain(&kins).map(|p| p.mem_kb).sum::<u64>() > suspect;
        let size = |p: &&Process| if is_suspect { procfs::proportional_kb(p) } else { p.mem_kb };
        let sizes: Vec<u64> = own.iter().map(size).collect();
        let (mem_kb, vmem_kb) = (sizes.iter().sum(), own.iter().map(|p| p.vmem_kb).sum());
        self.so_far.mem_kb = self.so_far.mem_kb.max(mem_kb);
        self.so_far.vmem_kb = self.so_far.vmem_kb.max(vmem_kb);
        let running = Span(alive.iter().map(|p| p.cput).sum());
        Reading {
            mem_kb: mem_kb + kins.iter().map(size).sum::<u64>(),
            largest_kb: sizes.iter().copied().max().unwrap_or(0),
            vmem_kb: vmem_kb + kins.iter().map(|p| p.vmem_kb).sum::<u64>(),
            cput: self.note(cgroup, running, walltime).cput,
        }
    }

    /// Notes what somebody else has measured: the largest resident memory, in kilobytes.
    pub fn note_peak(&mut self, mem_kb: u64) {
        self.so_far.mem_kb = self.so_far.mem_kb.max(mem_kb);
    }

    /// The sum, once all its processes are gone but before its control group is.
    pub fn total(&mut self, cgroup: Option<&Cgroup>, walltime: Span) -> Usage {
        self.note(cgroup, Span(0), walltime)
    }

    fn note(&mut self, cgroup: Option<&Cgroup>, running: Span, walltime: Span) -> Usage {
        let (reaped, largest_kb) = reaped();
        let cput = cgroup.and_then(Cgroup::cput).unwrap_or(Span(reaped.0 + running.0));
        let so_far = &mut self.so_far;
        // A process that ends unseen by a parent that ignores it takes its time with it: never back.
        so_far.cput = so_far.cput.max(cput);
        so_far.mem_kb = so_far.mem_kb.max(largest_kb);
        so_far.walltime = walltime;
        *so_far
    }
}

/// Processor time of all that this process has waited for, and the largest of them in kilobytes.
fn reaped() -> (Span, u64) {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return (Span(0), 0) };
    let (user, system) = (usage.user_time(), usage.system_time());
    let micros = (user.tv_sec() + system.tv_sec()) * 1_000_000 + user.tv_usec() + system.tv_usec();
    (Span(micros / 1000), usage.max_rss().max(0) as u64)
}
