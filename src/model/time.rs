//! Two kinds of time, as separate types.
//!
//! [`Time`] is a time on schedd's own clock. This clock never runs backwards and ignores steps of
//! the wall clock. Waiting times, walltimes and decay are therefore computed from differences of
//! `Time`. [`Wall`] is a time on the wall clock. A [`ClockTable`] records the offset between both
//! clocks over time, so that commands display a recorded time as the wall clock showed it then.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};

/// Time on schedd's clock in milliseconds. When the spool is created, schedd's clock starts with
/// the wall-clock time since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(pub i64);

/// Duration in milliseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Span(pub i64);

/// Wall-clock time in seconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Wall(pub i64);

impl Time {
    /// Latest possible time, for example the end of a job without walltime.
    pub const NEVER: Time = Time(i64::MAX);

    /// Returns the time since `earlier`; zero if `earlier` is later than this time.
    pub fn since(self, earlier: Time) -> Span {
        Span((self.0.saturating_sub(earlier.0)).max(0))
    }
}

impl Span {
    /// Creates a span of whole seconds.
    pub const fn seconds(seconds: i64) -> Span {
        Span(seconds.saturating_mul(1000))
    }

    /// Returns whole seconds, rounded down.
    pub const fn as_seconds(self) -> i64 {
        self.0 / 1000
    }

    /// Returns the span in whole seconds, rounded up.
    pub const fn rounded_up(self) -> Span {
        let seconds = self.0.saturating_add(999).div_euclid(1000);
        Span::seconds(seconds)
    }

    /// Parses `[[HH:]MM:]SS[.mmm]`. A fraction other than zero counts as a whole second, as in PBS.
    /// None for other texts, such as negative numbers, an empty first field, or more than two
    /// colons.
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

/// Formats as `HH:MM:SS`, with at least two digits each; the hours are not limited to 23.
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

/// State of schedd's clock at the last write of the spool. After a restart, schedd's clock
/// continues from this state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Time on schedd's clock.
    pub time: Time,
    /// Time since boot when `time` was saved.
    pub since_boot: Span,
    /// Id of the boot.
    pub boot: String,
}

impl Saved {
    /// Returns the time on schedd's clock when the machine has been up for `since_boot`. None if
    /// the machine was booted after the state was saved, or if `since_boot` is less than the saved
    /// time since boot.
    pub fn at(&self, since_boot: Span, boot: &str) -> Option<Time> {
        let same = self.boot == boot && since_boot >= self.since_boot;
        same.then(|| self.time + Span(since_boot.0 - self.since_boot.0))
    }
}

/// Offsets of the wall clock from schedd's clock: one entry for each step of the wall clock,
/// oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockTable {
    steps: Vec<(Time, i64)>,
}

impl ClockTable {
    /// Creates a table from pairs, oldest first: the time from which an offset applies, and the
    /// offset (wall clock minus schedd's clock) in milliseconds.
    pub fn new(steps: Vec<(Time, i64)>) -> ClockTable {
        ClockTable { steps }
    }

    /// Records that, from `since` on, the wall clock is `offset` milliseconds ahead of schedd's
    /// clock.
    pub fn step(&mut self, since: Time, offset: i64) {
        self.steps.push((since, offset));
    }

    /// Returns the present offset in milliseconds.
    pub fn offset(&self) -> i64 {
        self.steps.last().map_or(0, |&(_, offset)| offset)
    }

    /// Returns the wall-clock time at `time` on schedd's clock.
    pub fn wall(&self, time: Time) -> Wall {
        Wall(self.wall_ms(time).div_euclid(1000))
    }

    /// Returns the wall-clock time at `time`, in milliseconds since the Unix epoch.
    pub fn wall_ms(&self, time: Time) -> i64 {
        let before = self.steps.partition_point(|&(since, _)| since <= time);
        let offset = match before {
            0 => self.steps.first().map_or(0, |&(_, offset)| offset),
            n => self.steps[n - 1].1,
        };
        time.0.saturating_add(offset)
    }

    /// Converts `wall` to schedd's clock with the present offset.
    pub fn time(&self, wall: Wall) -> Time {
        Time(wall.0.saturating_mul(1000).saturating_sub(self.offset()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_parsed_as_in_pbs() {
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
        assert_eq!(Span(2001).rounded_up(), Span::seconds(3));
        assert_eq!(Span(2000).rounded_up(), Span::seconds(2));
    }

    #[test]
    fn a_time_is_shown_as_the_wall_clock_showed_it_then() {
        let mut clock = ClockTable::new(vec![(Time(1_000_000), 0)]);
        clock.step(Time(2_000_000), -3_600_000);
        assert_eq!(clock.wall(Time(1_500_000)), Wall(1500));
        assert_eq!(clock.wall(Time(2_000_000)), Wall(2000 - 3600));
        assert_eq!(clock.time(Wall(0)), Time(3_600_000));
    }
}
