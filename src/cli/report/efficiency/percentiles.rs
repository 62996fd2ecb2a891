//! Efficiency of several jobs: percentiles of the used fractions of their requests. Only the number
//! of jobs for each fraction is stored, so the memory needed does not grow with the number of jobs.

use super::JobEfficiency;
use super::advice::{Peak, advice};
use crate::cli::output::table::FixedColumn::{Left, Rest, Right};
use crate::cli::output::table::push_line;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The largest fraction that is counted, in thousandths of the request. Larger fractions count as
/// this fraction.
const MOST: f64 = 10_000.0;
/// Jobs with different requests get advice if half of them use less than this fraction.
const WASTEFUL: f64 = 0.5;

/// For one resource: how many jobs used which fraction of their request.
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

    /// The smallest fraction that at least `percent` percent of the jobs did not exceed; None
    /// without jobs.
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

/// The distributions of several jobs for each resource, and the highest requested and used amounts.
#[derive(Clone, Debug, Default)]
pub struct Distributions {
    jobs: u64,
    cpu: Percentiles,
    mem: Percentiles,
    time: Percentiles,
    peak: Peak,
    /// The request of the first job.
    first_request: Option<(u32, Option<u64>, Option<i64>)>,
    /// True if the jobs have different requests.
    requests_differ: bool,
}

impl Distributions {
    /// Adds a job.
    pub fn add(&mut self, used: &JobEfficiency) {
        self.jobs += 1;
        self.cpu.add(used.cpu());
        self.mem.add(used.mem());
        self.time.add(used.time());
        self.peak = self.peak.merge(Peak::of(used));
        let requested = (
            used.cores,
            used.requested.mem_kb,
            used.requested.walltime.map(|span| span.0),
        );
        self.requests_differ |= *self.first_request.get_or_insert(requested) != requested;
    }

    /// Adds a job if `is_selected`.
    pub fn add_if(&mut self, is_selected: bool, used: &JobEfficiency) {
        if is_selected {
            self.add(used);
        }
    }

    /// The number of jobs.
    pub fn jobs(&self) -> u64 {
        self.jobs
    }

    /// Writes the table of percentiles. `what` describes the jobs, in the plural.
    pub fn write(&self, out: &mut String, what: &str) {
        let what = if self.jobs == 1 {
            what.replacen("jobs", "job", 1)
        } else {
            what.to_string()
        };
        let _ = writeln!(out, "{} {what}", self.jobs);
        if self.jobs == 0 {
            return;
        }
        let columns = [Left(11), Right(7), Right(7), Right(7), Right(7), Rest];
        let heads = ["", "p10", "p50", "p90", "max", " of the request"];
        push_line(out, columns, heads);
        out.push('\n');
        for (name, distribution) in [
            ("  CPU time", &self.cpu),
            ("  Memory", &self.mem),
            ("  Walltime", &self.time),
        ] {
            let cells = distribution.cells();
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

    /// A line of advice. Only jobs with equal requests get recommended amounts.
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
        for (what, distribution) in wasted {
            if let Some(half) = distribution.percentile(50)
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
        let mut distributions = Distributions::default();
        (1..=10).for_each(|n| {
            distributions.add(&used(
                8,
                4.0,
                f64::from(n) * 3.2,
                f64::from(n) * 4.0,
                (80, 8),
            ))
        });
        let mut out = String::new();
        distributions.write(&mut out, "subjobs");
        let expected = "\
10 subjobs
                p10     p50     p90     max  of the request
  CPU time    10.0%   50.0%   90.0%  100.0%
  Memory       5.0%   25.0%   45.0%   50.0%
  Walltime    50.0%   50.0%   50.0%   50.0%
";
        assert_eq!(out, expected);
        assert_eq!(
            distributions.data("x")["mem_efficiency"],
            json!({ "jobs": 10, "p10": 0.05, "p50": 0.25, "p90": 0.45, "max": 0.5 })
        );
        let advice = distributions.advice().unwrap();
        assert_eq!(
            advice,
            "Request mem=48gb instead of 80gb, walltime=6:00:00 instead of 8:00:00."
        );
    }

    #[test]
    fn jobs_with_different_requests_get_general_advice() {
        let mut distributions = Distributions::default();
        distributions.add(&used(8, 4.0, 4.0, 1.0, (80, 5)));
        distributions.add(&used(4, 4.0, 15.0, 2.0, (10, 5)));
        assert_eq!(
            distributions.advice().unwrap(),
            "Half of the jobs used at most 13% of the processor time, 2% of the memory \
             they requested: request less."
        );
        let empty = Distributions::default();
        assert_eq!((empty.advice(), empty.cpu.percentile(50)), (None, None));
    }
}
