//! Two kinds of time, never mixed up.
//!
//! [`Time`] is schedd's own clock: it never runs backwards and a step of the wall clock does not
//! move it, so waiting, walltime and decay are differences of `Time`. [`Wall`] is what a person's
//! watch shows. A [`ClockTable`] remembers how far the two stood apart when, so that a moment
//! recorded yesterday is still shown as yesterday's watch showed it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};

/// A moment on schedd's clock, in milliseconds. Its zero is the Unix epoch as the wall clock
/// stood when the spool was made.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(pub i64);

/// A length of time, in milliseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Span(pub i64);

/// A moment on the wall clock, in seconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Wall(pub i64);

impl Time {
    /// The end of time: the end of a job without walltime.
    pub const NEVER: Time = Time(i64::MAX);

    /// The time that has passed since `earlier`; zero if that lies ahead.
    pub fn since(self, earlier: Time) -> Span {
        Span((self.0.saturating_sub(earlier.0)).max(0))
    }
}

impl Span {
    /// A span of whole seconds.
    pub const fn seconds(seconds: i64) -> Span {
        Span(seconds.saturating_mul(1000))
    }

    /// Whole seconds, rounded down.
    pub const fn as_seconds(self) -> i64 {
        self.0 / 1000
    }

    /// Reads `[[HH:]MM:]SS[.mmm]`; a fraction of a second counts as a whole one, as in PBS.
    /// None for anything else: a negative number, an empty first field, more than two colons.
    pub fn parse(text: &str) -> Option<Span> {
        let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
        if !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let fields: Vec<&str> = clock.split(':').collect();
        if fields.len() > 3 || fields[0].is_empty() {
            return None;
        }
        let mut seconds: i64 = 0;
        for field in fields {
            let value: i64 = match field {
                "" => 0,
                digits if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok()?,
                _ => return None,
            };
            seconds = seconds.checked_mul(60)?.checked_add(value)?;
        }
        let rounded_up = i64::from(fraction.bytes().any(|b| b != b'0'));
        seconds.checked_add(rounded_up)?.checked_mul(1000).map(Span)
    }
}

/// `HH:MM:SS`, hours unbounded, at least two digits each.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let s = self.as_seconds();
        write!(f, "{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, span: Span) -> Span {
        Span(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

/// Where schedd's clock stood when the spool was last written, so that a restart goes on from
/// there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// schedd's clock.
    pub time: Time,
    /// Beside it, the time since boot.
    pub since_boot: Span,
    /// The boot.
    pub boot: String,
}

impl Saved {
    /// Where it stands so long after a boot; None for another boot, of which it knows nothing.
    pub fn at(&self, since_boot: Span, boot: &str) -> Option<Time> {
        let same = self.boot == boot && since_boot >= self.since_boot;
        same.then(|| self.time + Span(since_boot.0 - self.since_boot.0))
    }
}

/// How the wall clock stood beside schedd's clock, and since when: one entry for each step of the
/// wall clock, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockTable {
    steps: Vec<(Time, i64)>,
}

impl ClockTable {
    /// A table from its rows (since when, wall minus `Time` in milliseconds), oldest first.
    pub fn new(steps: Vec<(Time, i64)>) -> ClockTable {
        ClockTable { steps }
    }

    /// Records that from `since` on the wall clock stands `offset` milliseconds ahead of `Time`.
    pub fn step(&mut self, since: Time, offset: i64) {
        self.steps.push((since, offset));
    }

    /// The offset in force now, in milliseconds.
    pub fn offset(&self) -> i64 {
        self.steps.last().map_or(0, |&(_, offset)| offset)
    }

    /// What a watch showed at `time`.
    pub fn wall(&self, time: Time) -> Wall {
        Wall(self.wall_ms(time).div_euclid(1000))
    }

    /// The same, in milliseconds since the Unix epoch.
    pub fn wall_ms(&self, time: Time) -> i64 {
        let before = self.steps.partition_point(|&(since, _)| since <= time);
        let offset = match before {
            0 => self.steps.first().map_or(0, |&(_, offset)| offset),
            n => self.steps[n - 1].1,
        };
        time.0.saturating_add(offset)
    }

    /// When, by the offset in force now, a watch will show `wall`.
    pub fn time(&self, wall: Wall) -> Time {
        Time(wall.0.saturating_mul(1000).saturating_sub(self.offset()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_pbs_reads_them() {
        let seconds = |text| Span::parse(text).map(Span::as_seconds);
        assert_eq!(seconds("90"), Some(90));
        assert_eq!(seconds("1:"), Some(60));
        assert_eq!(seconds("0:5:0"), Some(300));
        assert_eq!(seconds("3600.5"), Some(3601));
        assert_eq!(seconds("336:00:00"), Some(1_209_600));
        for bad in ["", ":30", "1:0:0:0", "-1", "1h", "1.5x"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
        assert_eq!(Span::seconds(1_209_600).to_string(), "336:00:00");
    }

    #[test]
    fn a_stamp_is_shown_as_the_watch_showed_it_then() {
        let mut clock = ClockTable::new(vec![(Time(1_000_000), 0)]);
        clock.step(Time(2_000_000), -3_600_000);
        assert_eq!(clock.wall(Time(1_500_000)), Wall(1500));
        assert_eq!(clock.wall(Time(2_000_000)), Wall(2000 - 3600));
        assert_eq!(clock.time(Wall(0)), Time(3_600_000));
    }
}
