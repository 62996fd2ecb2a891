//! Usage of a group of jobs, such as the jobs of a user.

use super::gantt::Outcome;
use super::waits::WaitDistribution;
use crate::model::account::accounting::{AccountingEntry, UsageTotals, part};
use crate::model::time::Span;

/// Usage of a group of jobs. All values except one count the attempts that ended in the period, as
/// qacct does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageGroup {
    /// Totals as in qacct.
    pub sums: UsageTotals,
    /// Number of jobs that ended with exit status 0.
    pub done: u64,
    /// Number of jobs that ended with another exit status.
    pub failed: u64,
    /// Number of jobs that were deleted.
    pub deleted: u64,
    /// Number of attempts after which the job was requeued.
    pub requeued: u64,
    /// Allocated processors times run time inside the period, in milliseconds, also of attempts
    /// that have not ended or ended later.
    pub core_ms_in_period: f64,
    /// Run time of the attempts that requested a walltime, in milliseconds.
    walltime_used: f64,
    /// Requested walltime of these attempts, in milliseconds.
    walltime_asked: f64,
    /// Waiting times of the attempts.
    pub waits: WaitDistribution,
}

impl UsageGroup {
    /// Adds an attempt that ended in the period, or a job that ended while it waited.
    pub fn add(&mut self, entry: &AccountingEntry) {
        self.sums = self.sums.and(totals(entry));
        match outcome(entry) {
            Outcome::Deleted => self.deleted += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Requeued => self.requeued += 1,
            Outcome::Done | Outcome::Running => self.done += 1,
        }
        if let Some(asked) = entry
            .asked
            .walltime
            .filter(|_| entry.stamps.began.is_some())
        {
            self.walltime_used += entry.used.walltime.0 as f64;
            self.walltime_asked += asked.0 as f64;
        }
        if let Some(ms) = entry.wait_ms() {
            self.waits.add(ms);
        }
    }

    /// Run time per requested walltime; None if no attempt requested a walltime.
    pub fn walltime_efficiency(&self) -> Option<f64> {
        part(self.walltime_used, self.walltime_asked)
    }

    /// Used per requested or allocated amount: processor time, memory and walltime.
    pub fn efficiencies(&self) -> [Option<f64>; 3] {
        [
            self.sums.cpu_efficiency(),
            self.sums.mem_efficiency(),
            self.walltime_efficiency(),
        ]
    }
}

/// How an attempt ended.
pub fn outcome(entry: &AccountingEntry) -> Outcome {
    match entry.end {
        None => Outcome::Requeued,
        Some(end) if end.deleted => Outcome::Deleted,
        Some(end) if end.status == 0 => Outcome::Done,
        Some(_) => Outcome::Failed,
    }
}

/// The totals of one entry, with the rules of the server's totals.
fn totals(entry: &AccountingEntry) -> UsageTotals {
    let wait = entry.wait_ms();
    let seconds = entry.used.walltime.0 as f64 / 1000.0;
    let asked = entry.asked.mem_kb;
    let Span(walltime_ms) = entry.used.walltime;
    UsageTotals {
        jobs: entry.end.is_some().into(),
        failed: entry.end.is_some_and(|end| end.status != 0).into(),
        attempts: (entry.attempt > 0).into(),
        cput_ms: entry.used.cput.0,
        core_ms: entry.core_ms,
        charged_ms: entry.core_ms as f64 * entry.factor,
        gpu_ms: i64::from(entry.held.gpus).saturating_mul(walltime_ms),
        walltime_ms,
        mem_used: asked.map_or(0.0, |_| entry.used.mem_kb as f64 * seconds),
        mem_asked: asked.map_or(0.0, |asked| asked as f64 * seconds),
        wait_ms: wait.unwrap_or(0),
        waits: wait.is_some().into(),
    }
}

/// The number of bins of an efficiency histogram: ten of 10 percent each, and one for more than
/// 100 percent.
pub const EFFICIENCY_BINS: usize = 11;

/// Number of attempts by efficiency.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EfficiencyHistogram {
    /// The numbers of attempts. Bin `n` begins at `n` times 10 percent; exactly 100 percent counts
    /// in the tenth bin.
    pub bins: [u64; EFFICIENCY_BINS],
}

impl EfficiencyHistogram {
    /// Adds an attempt; an unknown efficiency is ignored.
    pub fn add(&mut self, efficiency: Option<f64>) {
        let Some(efficiency) = efficiency else {
            return;
        };
        let bin = if efficiency > 1.0 {
            EFFICIENCY_BINS - 1
        } else {
            ((efficiency * 10.0).max(0.0) as usize).min(EFFICIENCY_BINS - 2)
        };
        self.bins[bin] += 1;
    }

    /// The number of attempts with a known efficiency.
    pub fn count(&self) -> u64 {
        self.bins.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efficiencies_are_counted_by_tenths() {
        let mut histogram = EfficiencyHistogram::default();
        for efficiency in [0.0, 0.05, 0.1, 0.95, 1.0, 1.01, 7.0] {
            histogram.add(Some(efficiency));
        }
        histogram.add(None);
        assert_eq!(histogram.bins, [2, 1, 0, 0, 0, 0, 0, 0, 0, 2, 2]);
        assert_eq!(histogram.count(), 7);
    }
}
