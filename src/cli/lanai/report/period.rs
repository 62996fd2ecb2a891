//! The period of a report, and its division into bins.

use crate::cli::arguments::period;
use crate::cli::client::exit::Failure;
use crate::model::time::Wall;
use chrono::{DateTime, Local, Offset};

/// The maximum number of bins of a period.
pub const MOST_BINS: i64 = 240;

/// The lengths of a bin in seconds. A longer bin is a multiple of the last length.
const STEPS: [i64; 18] = [
    1, 5, 15, 30, 60, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 14_400, 21_600, 43_200, 86_400,
    172_800, 604_800,
];

/// A period in milliseconds since the Unix epoch: start (inclusive) and end (exclusive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The start.
    pub from: i64,
    /// The end, after the start.
    pub to: i64,
}

impl Period {
    /// The period from the beginning of `since` to the end of `until`, but at most to `now`, which
    /// is the end without `until`.
    pub fn parse(
        since: &str,
        until: Option<&str>,
        now: &DateTime<Local>,
    ) -> Result<Period, Failure> {
        let from = moment("--since", since, now)?.0;
        // The clock has whole seconds, so the period contains all of the current second.
        let mut to = 1000 * (now.timestamp() + 1);
        if let Some(until) = until {
            to = to.min(moment("--until", until, now)?.1.0.saturating_mul(1000));
        }
        let from = from.0.saturating_mul(1000);
        if from >= to {
            return Err(Failure::usage(
                "--since must be before --until and in the past",
            ));
        }
        Ok(Period { from, to })
    }

    /// The part of a time range inside the period; None if it has no length.
    pub fn clip(&self, start: i64, end: i64) -> Option<(i64, i64)> {
        let (start, end) = (start.max(self.from), end.min(self.to));
        (start < end).then_some((start, end))
    }

    /// Tests whether the period contains a time.
    pub fn contains(&self, at: i64) -> bool {
        (self.from..self.to).contains(&at)
    }

    /// The length in milliseconds.
    pub fn length(&self) -> i64 {
        self.to - self.from
    }

    /// The length of a bin in seconds.
    pub fn step(&self) -> i64 {
        let wanted = self.length().div_euclid(1000 * MOST_BINS) + 1;
        let last = STEPS[STEPS.len() - 1];
        STEPS
            .into_iter()
            .find(|step| *step >= wanted)
            .unwrap_or((wanted / last + 1) * last)
    }

    /// The edges of the bins, from the start to the end of the period. Inner edges are multiples of
    /// the step in local time, so the first and the last bin can be shorter.
    pub fn edges(&self) -> Vec<i64> {
        let mut edges = vec![self.from];
        let round = round_times(self.from + 1, self.to - 1, self.step());
        edges.extend(round);
        edges.push(self.to);
        edges
    }
}

/// The times in a range, both ends inclusive, that are multiples of `step` seconds in local time.
/// The offset from UTC at the start of the range applies to the whole range.
pub fn round_times(from: i64, to: i64, step: i64) -> impl Iterator<Item = i64> {
    let (offset, step) = (1000 * offset_seconds(from), 1000 * step);
    let first = (from + offset + step - 1).div_euclid(step) * step - offset;
    (0..)
        .map(move |count: i64| first + count * step)
        .take_while(move |at| *at <= to)
}

/// The offset of local time from UTC in seconds.
fn offset_seconds(at: i64) -> i64 {
    local(at).map_or(0, |at| at.offset().fix().local_minus_utc().into())
}

/// A time in the local time zone; None for a time that calendars cannot express.
pub fn local(at: i64) -> Option<DateTime<Local>> {
    DateTime::from_timestamp_millis(at).map(|at| at.with_timezone(&Local))
}

/// A time as text with a format of chrono, in local time.
pub fn formatted(at: i64, format: &str) -> String {
    local(at).map_or(at.to_string(), |at| at.format(format).to_string())
}

fn moment(option: &str, text: &str, now: &DateTime<Local>) -> Result<(Wall, Wall), Failure> {
    period::parse(text, now)
        .ok_or_else(|| Failure::usage(format!("{option} {text}: expected {}", period::FORMS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn now() -> DateTime<Local> {
        DateTime::from_timestamp(1_700_000_000, 0).unwrap().into()
    }

    #[test]
    fn a_period_ends_now_at_the_latest() {
        let now = now();
        let whole = Period::parse("30d", None, &now).unwrap();
        assert_eq!(whole.from, 1000 * (now.timestamp() - 30 * 86_400));
        assert_eq!(whole.to, 1000 * (now.timestamp() + 1));
        let until_tomorrow = Period::parse("30d", Some("today"), &now).unwrap();
        assert_eq!(until_tomorrow, whole);
        let past = Period::parse("2d", Some("1d"), &now).unwrap();
        assert_eq!(past.length(), 24 * HOUR);
    }

    #[test]
    fn wrong_periods_are_refused() {
        let refuse = |since, until| Period::parse(since, until, &now()).unwrap_err().text;
        assert!(refuse("1x", None).contains("--since 1x: expected"));
        assert!(refuse("1d", Some("x")).contains("--until x: expected"));
        assert!(refuse("1d", Some("2d")).contains("before"));
        assert!(refuse("now", Some("now")).contains("before"));
    }

    #[test]
    fn bins_cover_the_period_without_gaps() {
        for length in [1, 999, 240_000, HOUR, 30 * 24 * HOUR, 5_000 * 24 * HOUR] {
            let period = Period {
                from: 1_699_999_123_456,
                to: 1_699_999_123_456 + length,
            };
            let edges = period.edges();
            assert_eq!((edges[0], edges[edges.len() - 1]), (period.from, period.to));
            assert!(edges.windows(2).all(|pair| pair[0] < pair[1]), "{edges:?}");
            assert!(edges.len() as i64 <= MOST_BINS + 2, "{}", edges.len());
        }
    }

    #[test]
    fn a_range_is_clipped_to_the_period() {
        let period = Period { from: 10, to: 20 };
        assert_eq!(period.clip(0, 15), Some((10, 15)));
        assert_eq!(period.clip(15, 99), Some((15, 20)));
        assert_eq!(period.clip(0, 10), None);
        assert!(period.contains(10) && !period.contains(20));
    }
}
