//! Recurrence: rules of standing reservations (an iCalendar RRULE, as in `pbs_rsub -r`) and
//! Maui's periods (M40). All computations use civil time; a [`Zone`] converts civil time to
//! wall-clock time and back.

use crate::model::time::{Span, Wall};
use chrono::{Datelike, Days, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Weekday};
use serde::{Deserialize, Serialize};

/// Time zone, supplied by the caller.
pub trait Zone {
    /// Converts civil time to wall-clock time. A civil time that occurs twice (end of daylight
    /// saving) gives the first occurrence; a civil time that is skipped gives the time one hour
    /// later.
    fn wall(&self, civil: NaiveDateTime) -> Wall;
    /// Converts wall-clock time to civil time; None if the calendar cannot represent the time.
    fn civil(&self, wall: Wall) -> Option<NaiveDateTime>;
}

/// Maximum number of occurrences of a standing reservation. It is limited because nodes are
/// assigned to all occurrences at once.
pub const MOST: usize = 366;

/// Maximum number of hours, days or weeks in which occurrences are searched.
const FARTHEST: u32 = 100_000;

/// Recurrence rule, such as `FREQ=WEEKLY;BYDAY=MO,TU;COUNT=10`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecurrenceRule {
    step: RecurrenceStep,
    interval: u32,
    days: Vec<Weekday>,
    until: Until,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecurrenceStep {
    Hour,
    Day,
    Week,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// Number of occurrences.
    Count(usize),
    /// Latest start.
    Moment(NaiveDateTime),
}

/// Error in a rule. The texts are for the user who submits the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleFault {
    /// The rule has an unknown part, or a part with an invalid value.
    #[error(
        "`{0}` is not supported: use INTERVAL, BYDAY=MO,..., COUNT, UNTIL, and FREQ=HOURLY, DAILY \
         or WEEKLY"
    )]
    Part(String),
    /// The rule has no frequency.
    #[error("FREQ=HOURLY, DAILY or WEEKLY is missing")]
    NoFrequency,
    /// The rule has no end.
    #[error("the rule never ends: add COUNT= or UNTIL=")]
    Endless,
    /// The rule has more than [`MOST`] occurrences.
    #[error("the rule has more than {MOST} occurrences")]
    TooOften,
    /// The rule has no occurrence.
    #[error("the rule has no occurrence")]
    Never,
    /// Occurrences of the rule overlap.
    #[error("the occurrences of the rule overlap")]
    Overlaps,
}

impl RecurrenceRule {
    /// Parses a rule.
    pub fn parse(text: &str) -> Result<RecurrenceRule, RuleFault> {
        let text = text.trim().strip_prefix("RRULE:").unwrap_or(text.trim());
        let mut parts = RuleParts::default();
        for part in text.split(';').filter(|part| !part.is_empty()) {
            parts
                .read(part)
                .ok_or_else(|| RuleFault::Part(part.to_string()))?;
        }
        Ok(RecurrenceRule {
            step: parts.step.ok_or(RuleFault::NoFrequency)?,
            interval: parts.interval.unwrap_or(1),
            days: parts.days,
            until: parts.until.ok_or(RuleFault::Endless)?,
        })
    }

    /// Returns the starts of all occurrences from `first` on; `length` is the duration of one
    /// occurrence.
    pub fn occurrences(
        &self,
        first: NaiveDateTime,
        length: Span,
    ) -> Result<Vec<NaiveDateTime>, RuleFault> {
        let mut starts = Vec::new();
        for start in self
            .candidates(first)
            .filter(|start| self.falls_on(start.weekday()))
        {
            let is_last = match self.until {
                Until::Count(count) => starts.len() >= count,
                Until::Moment(until) => start > until,
            };
            if is_last {
                break;
            }
            if starts.len() >= MOST {
                return Err(RuleFault::TooOften);
            }
            starts.push(start);
        }
        let overlaps = starts
            .windows(2)
            .any(|pair| (pair[1] - pair[0]).num_milliseconds() < length.0);
        if starts.is_empty() {
            Err(RuleFault::Never)
        } else if overlaps {
            Err(RuleFault::Overlaps)
        } else {
            Ok(starts)
        }
    }

    fn falls_on(&self, day: Weekday) -> bool {
        self.days.is_empty() || self.days.contains(&day)
    }

    /// Returns the possible starts; the rule then selects starts by weekday.
    fn candidates(&self, first: NaiveDateTime) -> Box<dyn Iterator<Item = NaiveDateTime> + '_> {
        let each = (0..FARTHEST).step_by(self.interval as usize);
        match self.step {
            RecurrenceStep::Hour => Box::new(
                each.map_while(move |n| first.checked_add_signed(TimeDelta::hours(n.into()))),
            ),
            RecurrenceStep::Day => Box::new(each.map_while(move |n| days_after(first, n))),
            RecurrenceStep::Week if self.days.is_empty() => {
                Box::new(each.map_while(move |n| days_after(first, n.checked_mul(7)?)))
            }
            // Weeks begin on Mondays. All days of a selected week are candidates.
            RecurrenceStep::Week => {
                let since_monday = first.weekday().num_days_from_monday();
                let days = (0..FARTHEST)
                    .filter(move |n| ((n + since_monday) / 7).is_multiple_of(self.interval));
                Box::new(days.map_while(move |n| days_after(first, n)))
            }
        }
    }
}

fn days_after(first: NaiveDateTime, days: u32) -> Option<NaiveDateTime> {
    first.checked_add_days(Days::new(days.into()))
}

/// Parts of a rule during parsing.
#[derive(Default)]
struct RuleParts {
    step: Option<RecurrenceStep>,
    interval: Option<u32>,
    days: Vec<Weekday>,
    until: Option<Until>,
}

impl RuleParts {
    /// Parses `NAME=VALUE`.
    fn read(&mut self, part: &str) -> Option<()> {
        let (name, value) = part.split_once('=')?;
        match name.to_ascii_uppercase().as_str() {
            "FREQ" => self.step = Some(RecurrenceStep::parse(value)?),
            "INTERVAL" => {
                let interval = value.parse().ok().filter(|n| (1..=1000).contains(n))?;
                self.interval = Some(interval);
            }
            "BYDAY" => self.days = value.split(',').map(weekday).collect::<Option<_>>()?,
            "COUNT" => {
                let count = value.parse().ok().filter(|n| *n > 0)?;
                self.until = Some(Until::Count(count));
            }
            "UNTIL" => self.until = Some(Until::Moment(moment(value)?)),
            _ => return None,
        }
        Some(())
    }
}

impl RecurrenceStep {
    fn parse(text: &str) -> Option<RecurrenceStep> {
        match text.to_ascii_uppercase().as_str() {
            "HOURLY" => Some(RecurrenceStep::Hour),
            "DAILY" => Some(RecurrenceStep::Day),
            "WEEKLY" => Some(RecurrenceStep::Week),
            _ => None,
        }
    }
}

/// Parses `MO` or any longer prefix of the English name.
pub fn weekday(text: &str) -> Option<Weekday> {
    let names = [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ];
    let text = text.trim().to_ascii_lowercase();
    let found = names
        .iter()
        .position(|name| text.len() >= 2 && name.starts_with(&text))?;
    Weekday::try_from(u8::try_from(found).ok()?).ok()
}

/// Parses `20261231T235900` or `20261231`, which means the end of that day. A final `Z` is ignored:
/// the time is in the time zone of the rule, not in UTC.
fn moment(text: &str) -> Option<NaiveDateTime> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    if let Ok(moment) = NaiveDateTime::parse_from_str(text, "%Y%m%dT%H%M%S") {
        return Some(moment);
    }
    let day = NaiveDate::parse_from_str(text, "%Y%m%d").ok()?;
    day.and_hms_opt(23, 59, 59)
}

/// Period of a recurring window in the configuration: Maui's `PERIOD`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowPeriod {
    /// One window on each selected day.
    #[default]
    Day,
    /// One window in each week. Weeks begin on Sundays.
    Week,
    /// A single window without an end.
    Infinity,
}

/// Recurring window in the configuration (M40).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecurringWindow {
    /// `PERIOD`: interval between windows.
    pub period: WindowPeriod,
    /// `STARTTIME`: offset from the start of the day or week.
    pub start: Span,
    /// `ENDTIME`: offset from the start of the day or week. An offset at or before `start` refers
    /// to the next day or week.
    pub end: Span,
    /// `DAYS`: weekdays of daily windows; empty for all days.
    pub days: Vec<Weekday>,
    /// `DEPTH`: number of open and future windows that exist at any time.
    pub depth: u32,
}

/// One occurrence of a recurring window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Date of the window's day, or of the Sunday of its week, such as `20261123`; 0 for a window
    /// without end.
    pub number: u32,
    /// Opening time.
    pub from: NaiveDateTime,
    /// Closing time; None for never.
    pub to: Option<NaiveDateTime>,
}

impl RecurringWindow {
    /// Returns the instances that are open at `now` and the next instances, up to `depth` in all. A
    /// window without end has a single instance.
    pub fn instances(&self, now: NaiveDateTime) -> Vec<Instance> {
        let (first, step) = match self.period {
            WindowPeriod::Infinity => {
                return vec![Instance {
                    number: 0,
                    from: NaiveDateTime::MIN,
                    to: None,
                }];
            }
            WindowPeriod::Day => (now.date() - Days::new(1), 1),
            WindowPeriod::Week => (
                now.date() - Days::new(u64::from(now.weekday().num_days_from_sunday()) + 7),
                7,
            ),
        };
        // The search covers 1500 days or weeks. With one selected weekday, these contain 214
        // windows, more than the maximum depth (100).
        let dates = (0..1500).map_while(|n| first.checked_add_days(Days::new(n * step)));
        let selected = dates.filter(|date| self.falls_on(date.weekday()));
        let open = selected
            .filter_map(|date| self.of(date))
            .filter(|instance| instance.to.is_some_and(|to| to > now));
        open.take(self.depth.min(MOST as u32) as usize).collect()
    }

    fn falls_on(&self, day: Weekday) -> bool {
        self.period == WindowPeriod::Week || self.days.is_empty() || self.days.contains(&day)
    }

    fn of(&self, date: NaiveDate) -> Option<Instance> {
        let period = if self.period == WindowPeriod::Week {
            7
        } else {
            1
        };
        let whole = Span::seconds(period * 86_400);
        let end = if self.end > self.start {
            self.end
        } else {
            self.end + whole
        };
        let midnight = date.and_time(NaiveTime::MIN);
        let number = date.year().unsigned_abs() * 10_000 + date.month() * 100 + date.day();
        Some(Instance {
            number,
            from: midnight.checked_add_signed(TimeDelta::milliseconds(self.start.0))?,
            to: Some(midnight.checked_add_signed(TimeDelta::milliseconds(end.0))?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> NaiveDateTime {
        NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap()
    }

    /// Starts of one-hour occurrences from Friday 20 November 2026, 10:00, on.
    fn starts(rule: &str) -> Result<Vec<String>, RuleFault> {
        let found = RecurrenceRule::parse(rule)?
            .occurrences(at("2026-11-20 10:00"), Span::seconds(3600))?;
        Ok(found
            .into_iter()
            .map(|start| start.format("%a %d %H:%M").to_string())
            .collect())
    }

    #[test]
    fn rules_have_the_meaning_of_icalendar() {
        for (rule, expected) in [
            (
                "FREQ=DAILY;COUNT=3",
                "Fri 20 10:00, Sat 21 10:00, Sun 22 10:00",
            ),
            (
                "FREQ=DAILY;INTERVAL=2;COUNT=2",
                "Fri 20 10:00, Sun 22 10:00",
            ),
            (
                "FREQ=DAILY;BYDAY=MO,TU;COUNT=3",
                "Mon 23 10:00, Tue 24 10:00, Mon 30 10:00",
            ),
            ("FREQ=WEEKLY;COUNT=2", "Fri 20 10:00, Fri 27 10:00"),
            (
                "FREQ=WEEKLY;BYDAY=FR,MO;COUNT=3",
                "Fri 20 10:00, Mon 23 10:00, Fri 27 10:00",
            ),
            (
                "FREQ=WEEKLY;INTERVAL=2;BYDAY=FR,SU;COUNT=3",
                "Fri 20 10:00, Sun 22 10:00, Fri 04 10:00",
            ),
            ("FREQ=HOURLY;COUNT=2", "Fri 20 10:00, Fri 20 11:00"),
            (
                "RRULE:freq=DAILY;UNTIL=20261121T100000Z",
                "Fri 20 10:00, Sat 21 10:00",
            ),
            ("FREQ=DAILY;UNTIL=20261121", "Fri 20 10:00, Sat 21 10:00"),
        ] {
            assert_eq!(
                starts(rule).map(|starts| starts.join(", ")),
                Ok(expected.to_string()),
                "{rule}"
            );
        }
    }

    #[test]
    fn invalid_rules_are_refused_with_the_reason() {
        assert_eq!(starts("COUNT=2"), Err(RuleFault::NoFrequency));
        assert_eq!(starts("FREQ=DAILY"), Err(RuleFault::Endless));
        assert_eq!(starts("FREQ=DAILY;COUNT=1000"), Err(RuleFault::TooOften));
        assert_eq!(starts("FREQ=DAILY;UNTIL=20261119"), Err(RuleFault::Never));
        let hourly = RecurrenceRule::parse("FREQ=HOURLY;COUNT=2").unwrap();
        assert_eq!(
            hourly.occurrences(at("2026-11-20 10:00"), Span::seconds(3601)),
            Err(RuleFault::Overlaps)
        );
        for bad in [
            "FREQ=YEARLY;COUNT=1",
            "FREQ=DAILY;COUNT=0",
            "FREQ=DAILY;BYDAY=XX;COUNT=1",
            "FOO=1",
            "x",
        ] {
            assert!(matches!(starts(bad), Err(RuleFault::Part(_))), "{bad}");
        }
    }

    fn office() -> RecurringWindow {
        let days = vec![
            Weekday::Mon,
            Weekday::Tue,
            Weekday::Wed,
            Weekday::Thu,
            Weekday::Fri,
        ];
        let (start, end) = (Span::seconds(8 * 3600), Span::seconds(17 * 3600));
        RecurringWindow {
            period: WindowPeriod::Day,
            start,
            end,
            days,
            depth: 2,
        }
    }

    fn instances(recurring: &RecurringWindow, now: &str) -> Vec<String> {
        let shown = |instance: Instance| {
            let to = instance
                .to
                .map_or("ever".to_string(), |to| to.format("%d %H:%M").to_string());
            format!(
                "{} {} to {to}",
                instance.number,
                instance.from.format("%d %H:%M")
            )
        };
        recurring
            .instances(at(now))
            .into_iter()
            .map(shown)
            .collect()
    }

    #[test]
    fn m40_on_friday_evening_the_next_windows_are_on_monday_and_tuesday() {
        let (monday, tuesday) = (
            "20261123 23 08:00 to 23 17:00",
            "20261124 24 08:00 to 24 17:00",
        );
        assert_eq!(instances(&office(), "2026-11-20 18:00"), [monday, tuesday]);
        assert_eq!(instances(&office(), "2026-11-23 16:59"), [monday, tuesday]);
        assert_eq!(instances(&office(), "2026-11-23 17:00")[0], tuesday);
    }

    #[test]
    fn m40_windows_can_span_midnight_recur_weekly_or_never_end() {
        let night = RecurringWindow {
            start: Span::seconds(20 * 3600),
            end: Span::seconds(6 * 3600),
            depth: 1,
            ..office()
        };
        assert_eq!(
            instances(&night, "2026-11-24 05:00"),
            ["20261123 23 20:00 to 24 06:00"]
        );
        let week = RecurringWindow {
            period: WindowPeriod::Week,
            start: Span::seconds(86_400),
            end: Span::seconds(90_000),
            ..office()
        };
        let expected = [
            "20261122 23 00:00 to 23 01:00",
            "20261129 30 00:00 to 30 01:00",
        ];
        assert_eq!(instances(&week, "2026-11-22 12:00"), expected);
        let ever = RecurringWindow {
            period: WindowPeriod::Infinity,
            ..office()
        };
        assert_eq!(ever.instances(at("2026-11-22 12:00"))[0].to, None);
    }
}
