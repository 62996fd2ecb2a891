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

impl Meter {
    /// For a job that holds these.
    pub fn new(shares: &[Share]) -> Meter {
        let taken = shares.iter().flat_map(|share| &share.taken).filter(|(name, _)| name == "ncpus");
        let ncpus = taken.filter_map(|(_, value)| value.amount()).sum::<i64>();
        Meter { so_far: Usage { ncpus: u32::try_from(ncpus).unwrap_or(0), ..Usage::default() } }
    }

    /// Looks at the job's living processes.
    pub fn sample(&mut self, cgroup: Option<&Cgroup>, walltime: Span) -> Usage {
        let alive: Vec<Process> = match cgroup {
            Some(group) => group.processes().into_iter().filter_map(procfs::process).collect(),
            None => procfs::descendants(nix::unistd::getpid().as_raw()),
        };
        self.so_far.mem_kb = self.so_far.mem_kb.max(alive.iter().map(|p| p.mem_kb).sum());
        self.so_far.vmem_kb = self.so_far.vmem_kb.max(alive.iter().map(|p| p.vmem_kb).sum());
        let running = Span(alive.iter().map(|p| p.cput).sum());
        self.note(cgroup, running, walltime)
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
