//! Efficiency of many jobs: percentiles of the fractions used of their requests. Memory use does
//! not depend on the number of jobs, because only counts of fractions are stored.

use super::Use;
use super::advice::{Peak, advice};
use crate::cli::output::table::FixedColumn::{Left, Rest, Right};
use crate::cli::output::table::push_line;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The largest counted fraction, in thousandths of the request.
const MOST: f64 = 10_000.0;
/// If half of the jobs use less than this fraction of a resource, advice is given.
const WASTEFUL: f64 = 0.5;

/// The distribution of the fractions that jobs used of one requested resource.
#[derive(Clone, Debug, Default)]
struct Percentiles {
    /// The number of jobs by thousandths used.
    counts: BTreeMap<u32, u64>,
    /// The number of counted jobs.
    all: u64,
}

impl Percentiles {
    fn add(&mut self, part: Option<f64>) {
        let Some(part) = part else { return };
        *self
            .counts
            .entry((part * 1000.0).round().clamp(0.0, MOST) as u32)
            .or_default() += 1;
        self.all += 1;
    }

    /// The fraction that `percent` of the jobs did not exceed; None without jobs.
    fn percentile(&self, percent: u64) -> Option<f64> {
        let rank = (self.all * percent).div_ceil(100).max(1);
        let mut below = 0;
        for (thousandths, count) in &self.counts {
            below += count;
            if below >= rank {
                return Some(f64::from(*thousandths) / 1000.0);
            }
        }
        None
    }

    fn data(&self) -> Value {
        json!({
            "jobs": self.all,
            "p10": self.percentile(10),
            "p50": self.percentile(50),
            "p90": self.percentile(90),
            "max": self.percentile(100),
        })
    }

    fn cells(&self) -> [String; 4] {
        [10, 50, 90, 100].map(|percent| match self.percentile(percent) {
            Some(part) => format!("{:.1}%", 100.0 * part),
            None => "--".to_string(),
        })
    }
}

/// The distributions of a set of jobs, and their maxima.
#[derive(Clone, Debug, Default)]
pub struct Spreads {
    jobs: u64,
    cpu: Percentiles,
    mem: Percentiles,
    time: Percentiles,
    peak: Peak,
    /// The request of the first job.
    first_request: Option<(u32, Option<u64>, Option<i64>)>,
    /// True if another job has a different request.
    requests_differ: bool,
}

impl Spreads {
    /// Adds a job.
    pub fn add(&mut self, used: &Use) {
        self.jobs += 1;
        self.cpu.add(used.cpu());
        self.mem.add(used.mem());
        self.time.add(used.time());
        self.peak = self.peak.and(Peak::of(used));
        let requested = (
            used.cores,
            used.requested.mem_kb,
            used.requested.walltime.map(|span| span.0),
        );
        self.requests_differ |= *self.first_request.get_or_insert(requested) != requested;
    }

    /// Adds a job if `is_selected`.
    pub fn add_if(&mut self, is_selected: bool, used: &Use) {
        if is_selected {
            self.add(used);
        }
    }

    /// The number of jobs.
    pub fn jobs(&self) -> u64 {
        self.jobs
    }

    /// Writes the table of percentiles.
    pub fn write(&self, out: &mut String, what: &str) {
        let _ = writeln!(out, "{} {what}", self.jobs);
        if self.jobs == 0 {
            return;
        }
        let columns = [Left(11), Right(7), Right(7), Right(7), Right(7), Rest];
        let heads = ["", "p10", "p50", "p90", "max", " of the request"];
        push_line(out, columns, heads);
        out.push('\n');
        for (name, spread) in [
            ("  CPU time", &self.cpu),
            ("  Memory", &self.mem),
            ("  Walltime", &self.time),
        ] {
            let cells = spread.cells();
            let cells = std::iter::once(name).chain(cells.iter().map(String::as_str));
            push_line(out, columns, cells);
            out.push('\n');
        }
    }

    /// The percentiles as JSON.
    pub fn data(&self, what: &str) -> Value {
        json!({
            "of": what,
            "jobs": self.jobs,
            "cpu_efficiency": self.cpu.data(),
            "mem_efficiency": self.mem.data(),
            "walltime_efficiency": self.time.data(),
        })
    }

    /// A line of advice. Only jobs with equal requests get a concrete recommendation.
    pub fn advice(&self) -> Option<String> {
        if !self.requests_differ {
            return advice(&self.peak);
        }
        let wasted = [
            ("processor time", &self.cpu),
            ("memory", &self.mem),
            ("walltime", &self.time),
        ];
        let mut low = Vec::new();
        for (what, spread) in wasted {
            if let Some(half) = spread.percentile(50)
                && half < WASTEFUL
            {
                low.push(format!("{:.0}% of the {what}", (100.0 * half).ceil()));
            }
        }
        if low.is_empty() {
            return None;
        }
        let low = low.join(", ");
        Some(format!(
            "Half of the jobs used at most {low} they requested: request less."
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::used;
    use super::*;

    /// Rule P11.
    #[test]
    fn many_jobs_are_summarized_by_percentiles() {
        let mut spreads = Spreads::default();
        (1..=10).for_each(|n| {
            spreads.add(&used(
                8,
                4.0,
                f64::from(n) * 3.2,
                f64::from(n) * 4.0,
                (80, 8),
            ))
        });
        let mut out = String::new();
        spreads.write(&mut out, "subjobs");
        let expected = "\
10 subjobs
                p10     p50     p90     max  of the request
  CPU time    10.0%   50.0%   90.0%  100.0%
  Memory       5.0%   25.0%   45.0%   50.0%
  Walltime    50.0%   50.0%   50.0%   50.0%
";
        assert_eq!(out, expected);
        assert_eq!(
            spreads.data("x")["mem_efficiency"],
            json!({ "jobs": 10, "p10": 0.05, "p50": 0.25, "p90": 0.45, "max": 0.5 })
        );
        let advice = spreads.advice().unwrap();
        assert_eq!(
            advice,
            "Request mem=48gb instead of 80gb, walltime=6:00:00 instead of 8:00:00."
        );
    }

    #[test]
    fn jobs_with_different_requests_get_general_advice() {
        let mut spreads = Spreads::default();
        spreads.add(&used(8, 4.0, 4.0, 1.0, (80, 5)));
        spreads.add(&used(4, 4.0, 15.0, 2.0, (10, 5)));
        assert_eq!(
            spreads.advice().unwrap(),
            "Half of the jobs used at most 13% of the processor time, 2% of the memory \
             they requested: request less."
        );
        let empty = Spreads::default();
        assert_eq!((empty.advice(), empty.cpu.percentile(50)), (None, None));
    }
}
