//! The distribution of waiting times, in memory that does not depend on the number of jobs.

use crate::model::time::Span;
use std::collections::BTreeMap;

/// The lower bounds of the histogram's bins in seconds. The last bin has no upper bound.
pub const BOUNDS: [i64; 8] = [0, 1, 10, 60, 600, 3_600, 21_600, 86_400];

/// Seconds below this number have a bucket each. Larger numbers are rounded down to eight
/// significant bits, an error below 1 percent.
const EXACT: u64 = 256;

/// Waiting times of attempts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitDistribution {
    /// Number of attempts by bucket.
    buckets: BTreeMap<u64, u64>,
    /// Number of attempts in each bin of the histogram.
    pub histogram: [u64; BOUNDS.len()],
    /// Number of attempts.
    pub count: u64,
    sum_ms: i64,
    longest_ms: i64,
}

impl WaitDistribution {
    /// Adds a waiting time in milliseconds.
    pub fn add(&mut self, ms: i64) {
        let ms = ms.max(0);
        let seconds = ms / 1000;
        *self.buckets.entry(rounded(seconds as u64)).or_default() += 1;
        let bin = BOUNDS.partition_point(|bound| *bound <= seconds) - 1;
        self.histogram[bin] += 1;
        self.count += 1;
        self.sum_ms = self.sum_ms.saturating_add(ms);
        self.longest_ms = self.longest_ms.max(ms);
    }

    /// The waiting time that this percentage of the attempts did not exceed, in whole seconds; None
    /// without attempts.
    pub fn percentile(&self, percent: u64) -> Option<Span> {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = self.buckets.iter().find(|(_, count)| {
            seen += *count;
            seen >= rank
        });
        bucket.map(|(seconds, _)| Span::seconds(*seconds as i64))
    }

    /// The mean; None without attempts.
    pub fn mean(&self) -> Option<Span> {
        let count = i64::try_from(self.count).ok().filter(|count| *count > 0)?;
        Some(Span(self.sum_ms / count))
    }

    /// The longest waiting time; None without attempts.
    pub fn longest(&self) -> Option<Span> {
        (self.count > 0).then_some(Span(self.longest_ms))
    }
}

fn rounded(seconds: u64) -> u64 {
    let mut shift = 0;
    while seconds >> shift >= EXACT {
        shift += 1;
    }
    seconds >> shift << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_below_256_seconds() {
        let mut waits = WaitDistribution::default();
        assert_eq!((waits.percentile(50), waits.mean()), (None, None));
        for seconds in 1..=100 {
            waits.add(1000 * seconds);
        }
        let percentile = |percent| waits.percentile(percent).unwrap().as_seconds();
        assert_eq!([50, 90, 100].map(percentile), [50, 90, 100]);
        assert_eq!(waits.mean(), Some(Span(50_500)));
        assert_eq!(waits.longest(), Some(Span::seconds(100)));
        assert_eq!(waits.histogram, [0, 9, 50, 41, 0, 0, 0, 0]);
    }

    #[test]
    fn long_times_have_an_error_below_one_percent_and_few_buckets() {
        let mut waits = WaitDistribution::default();
        for seconds in (0..10_000_000).step_by(97) {
            waits.add(1000 * seconds);
        }
        let median = waits.percentile(50).unwrap().as_seconds();
        assert!((4_950_000..=5_000_000).contains(&median), "{median}");
        assert!(waits.buckets.len() < 2_500, "{}", waits.buckets.len());
        assert_eq!(waits.histogram.iter().sum::<u64>(), waits.count);
    }
}
