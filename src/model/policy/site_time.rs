//! Calendar of the site (I23): dedicated time, in which only jobs of dedicated queues run, and
//! prime time, which is certain hours of some weekdays.
//!
//! As in PBS, the name of a queue determines its kind: `ded...` for dedicated time, `p_...` for
//! prime time, `np_...` for other hours.

use crate::model::reason::Reason;
use crate::model::time::{Span, Time};
use chrono::{Datelike, Days, NaiveDateTime, NaiveTime, TimeDelta, Weekday};
use serde::{Deserialize, Serialize};

/// Calendar data for a scheduling cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteTime {
    /// Start and end of present and future dedicated times, soonest first. None if dedicated time
    /// is not configured; queue names `ded...` then have no effect.
    pub dedicated: Option<Vec<(Time, Time)>>,
    /// State of prime time; None if prime time is not configured.
    pub prime: Option<Prime>,
}

/// State of prime time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prime {
    /// True during prime time.
    pub is_on: bool,
    /// Next start or end of prime time.
    pub until: Time,
    /// True if jobs may run across the start and end of prime time.
    pub may_cross: bool,
}

/// Configured hours of prime time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimeHours {
    /// Weekdays with prime time.
    pub days: Vec<Weekday>,
    /// Time from midnight to the start of prime time.
    pub from: Span,
    /// Time from midnight to the end of prime time; at most one day.
    pub to: Span,
    /// True if jobs may run across the start and end of prime time.
    pub may_cross: bool,
}

impl SiteTime {
    /// Tests whether a job of this queue may run from `start` to `end`. The error is the reason
    /// why it may not.
    pub fn admits(&self, queue: &str, start: Time, end: Time) -> Result<(), Reason> {
        self.admits_dedicated(queue.starts_with("ded"), start, end)?;
        self.prime.map_or(Ok(()), |prime| prime.admits(queue, end))
    }

    fn admits_dedicated(&self, is_dedicated: bool, start: Time, end: Time) -> Result<(), Reason> {
        let Some(dedicated) = &self.dedicated else {
            return Ok(());
        };
        let now = dedicated
            .iter()
            .find(|(from, to)| *from <= start && start < *to);
        let next = dedicated
            .iter()
            .find(|(from, _)| start < *from && *from < end);
        match (is_dedicated, now, next) {
            (true, None, _) | (false, Some(_), _) => Err(Reason::DedicatedTime),
            (true, Some((_, to)), _) if end > *to => Err(Reason::CrossesDedicated { at: *to }),
            (false, None, Some((from, _))) => Err(Reason::CrossesDedicated { at: *from }),
            _ => Ok(()),
        }
    }

    /// Returns the next start or end of dedicated or prime time. A job that the calendar blocks now
    /// cannot start before that time.
    pub fn next_change(&self, now: Time) -> Option<Time> {
        let dedicated = self
            .dedicated
            .iter()
            .flatten()
            .flat_map(|(from, to)| [*from, *to]);
        dedicated
            .chain(self.prime.map(|prime| prime.until))
            .filter(|moment| *moment > now)
            .min()
    }
}

impl Prime {
    fn admits(self, queue: &str, end: Time) -> Result<(), Reason> {
        if queue.starts_with("np_") && self.is_on {
            return Err(Reason::NonprimeOnly);
        }
        if queue.starts_with("p_") && !self.is_on {
            return Err(Reason::PrimeOnly);
        }
        if self.may_cross || end <= self.until {
            Ok(())
        } else {
            Err(Reason::CrossesPrime {
                into_prime: !self.is_on,
                at: self.until,
            })
        }
    }
}

impl PrimeHours {
    /// Returns whether `now` is in prime time, and the next start or end of prime time. If the next
    /// two weeks contain no prime time, the second value is two weeks after `now`.
    pub fn at(&self, now: NaiveDateTime) -> (bool, NaiveDateTime) {
        let yesterday = now.date() - Days::new(1);
        let dates = (0..16).filter_map(|n| yesterday.checked_add_days(Days::new(n)));
        let from = TimeDelta::milliseconds(self.from.0);
        let to = TimeDelta::milliseconds(self.to.0);
        let mut hours: Vec<(NaiveDateTime, NaiveDateTime)> = dates
            .filter(|date| self.days.contains(&date.weekday()))
            .map(|date| date.and_time(NaiveTime::MIN))
            .map(|midnight| (midnight + from, midnight + to))
            .filter(|(_, to)| *to > now)
            .collect();
        hours.sort();
        let Some(&(from, mut until)) = hours.first() else {
            return (false, now + TimeDelta::days(14));
        };
        if from > now {
            return (false, from);
        }
        // Adjacent periods count as one.
        for (from, to) in hours.into_iter().skip(1) {
            until = if from == until { to } else { until };
        }
        (true, until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn code(site_time: &SiteTime, queue: &str, start: i64, end: i64) -> String {
        let admitted = site_time.admits(queue, Time(start * HOUR), Time(end * HOUR));
        admitted.map_or_else(|reason| reason.code().into_owned(), |()| String::new())
    }

    #[test]
    fn i23_a_job_must_not_cross_into_dedicated_time() {
        let site_time = SiteTime {
            dedicated: Some(vec![(Time(12 * HOUR), Time(14 * HOUR))]),
            prime: None,
        };
        assert_eq!(code(&site_time, "workq", 11, 13), "crosses_dedicated");
        assert_eq!(code(&site_time, "workq", 10, 12), "");
        assert_eq!(code(&site_time, "workq", 12, 13), "dedicated_time");
        assert_eq!(code(&site_time, "workq", 14, 99), "");
        assert_eq!(code(&site_time, "dedq", 12, 14), "");
        assert_eq!(code(&site_time, "dedq", 12, 15), "crosses_dedicated");
        assert_eq!(code(&site_time, "dedq", 11, 12), "dedicated_time");
        assert_eq!(
            site_time.next_change(Time(12 * HOUR)),
            Some(Time(14 * HOUR))
        );
        assert_eq!(code(&SiteTime::default(), "dedq", 0, 1000), "");
    }

    #[test]
    fn i23_prime_time_restricts_queues_and_jobs_that_would_cross_its_boundary() {
        let prime = |is_on, may_cross| SiteTime {
            prime: Some(Prime {
                is_on,
                until: Time(17 * HOUR),
                may_cross,
            }),
            ..SiteTime::default()
        };
        assert_eq!(code(&prime(true, true), "np_q", 8, 9), "nonprime_only");
        assert_eq!(code(&prime(false, true), "p_q", 8, 9), "prime_only");
        assert_eq!(code(&prime(true, true), "workq", 8, 20), "");
        assert_eq!(code(&prime(true, false), "workq", 8, 20), "crosses_prime");
        assert_eq!(code(&prime(true, false), "workq", 8, 17), "");
        let crossing = prime(false, false)
            .admits("workq", Time(0), Time(18 * HOUR))
            .unwrap_err();
        assert_eq!(
            crossing.to_string(),
            "Not Running: Job will cross into primetime"
        );
    }

    #[test]
    fn prime_time_spans_adjacent_days() {
        let at = |text: &str| NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap();
        let days = vec![Weekday::Mon, Weekday::Tue];
        let hours = PrimeHours {
            days,
            from: Span::seconds(6 * 3600),
            to: Span::seconds(18 * 3600),
            may_cross: true,
        };
        assert_eq!(
            hours.at(at("2026-11-23 12:00")),
            (true, at("2026-11-23 18:00"))
        );
        assert_eq!(
            hours.at(at("2026-11-23 18:00")),
            (false, at("2026-11-24 06:00"))
        );
        assert_eq!(
            hours.at(at("2026-11-24 20:00")),
            (false, at("2026-11-30 06:00"))
        );
        let whole = PrimeHours {
            from: Span(0),
            to: Span::seconds(86_400),
            ..hours
        };
        assert_eq!(
            whole.at(at("2026-11-23 12:00")),
            (true, at("2026-11-25 00:00"))
        );
    }
}
