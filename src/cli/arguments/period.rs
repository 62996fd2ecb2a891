//! Periods, usually in the past: `7d`, `today`, `2026-11`, `2026-11-20`, or a date in the format of
//! `-a`. A period is a time range; a point in time is a range of length 0.

use super::date;
use crate::model::time::Wall;
use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveDateTime, NaiveTime, TimeZone};

/// The formats of a period, for error messages.
pub const FORMS: &str = "a time before now such as 7d; today, yesterday or now; a day or month \
                         such as 2026-11-20 or 2026-11; or a date [[[[CC]YY]MM]DD]hhmm[.SS]";

/// A time range: start (inclusive) and end (exclusive).
pub type TimeRange = (Wall, Wall);

/// Parses `text` relative to `now`, in the time zone of `now`. None if `text` is no period.
pub fn parse<Z: TimeZone>(text: &str, now: &DateTime<Z>) -> Option<TimeRange> {
    let today = now.date_naive();
    let moment = match text {
        "now" => Wall(now.timestamp()),
        "today" => return day(today, now),
        "yesterday" => return day(today.checked_sub_days(Days::new(1))?, now),
        _ if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') => numeric(text, now)?,
        _ if text.contains('-') => return calendar(text, now),
        _ => ago(text, now)?,
    };
    Some((moment, moment))
}

/// Parses `7d`, `36h`, `90min`: a time before now.
fn ago<Z: TimeZone>(text: &str, now: &DateTime<Z>) -> Option<Wall> {
    let seconds = i64::try_from(humantime::parse_duration(text).ok()?.as_secs()).ok()?;
    now.timestamp().checked_sub(seconds).map(Wall)
}

/// Parses `2026-11`, `2026-11-20`, `2026-11-20T10:22`, `2026-11-20T10:22:05`.
fn calendar<Z: TimeZone>(text: &str, now: &DateTime<Z>) -> Option<TimeRange> {
    for format in ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"] {
        if let Ok(moment) = NaiveDateTime::parse_from_str(text, format) {
            return local(moment, now).map(|wall| (wall, wall));
        }
    }
    if let Ok(date) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        return day(date, now);
    }
    let first = NaiveDate::parse_from_str(&format!("{text}-01"), "%Y-%m-%d").ok()?;
    let next = first.checked_add_months(Months::new(1))?;
    Some((midnight(first, now)?, midnight(next, now)?))
}

/// Parses a date in the format of `-a`. A time without a day is today, even if it is in the future.
/// A missing month or year is the current one, or the previous one if the date would be in the
/// future.
fn numeric<Z: TimeZone>(text: &str, now: &DateTime<Z>) -> Option<Wall> {
    let (parts, back) = match text.split('.').next()?.len() {
        4 => ("%Y%m%d", 0),
        6 => ("%Y%m", 1),
        8 => ("%Y", 12),
        _ => return date::parse(text, now),
    };
    let today = now.date_naive();
    let this = date::parse(&format!("{}{text}", today.format(parts)), now)?;
    if back == 0 || this.0 <= now.timestamp() {
        return Some(this);
    }
    let earlier = today.checked_sub_months(Months::new(back))?;
    date::parse(&format!("{}{text}", earlier.format(parts)), now)
}

fn day<Z: TimeZone>(date: NaiveDate, now: &DateTime<Z>) -> Option<TimeRange> {
    Some((midnight(date, now)?, midnight(date.succ_opt()?, now)?))
}

fn midnight<Z: TimeZone>(date: NaiveDate, now: &DateTime<Z>) -> Option<Wall> {
    local(date.and_time(NaiveTime::MIN), now)
}

fn local<Z: TimeZone>(moment: NaiveDateTime, now: &DateTime<Z>) -> Option<Wall> {
    if !(1970..=9999).contains(&moment.year()) {
        return None;
    }
    date::local(moment, &now.timezone()).map(Wall)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::Utc;

    /// The period `text` at 10:22:05 on Friday 20 November 2026.
    fn shown(text: &str) -> Option<[String; 2]> {
        let now = Utc.with_ymd_and_hms(2026, 11, 20, 10, 22, 5).unwrap();
        let show = |wall: Wall| {
            Utc.timestamp_opt(wall.0, 0)
                .unwrap()
                .format("%Y-%m-%d %H:%M:%S")
                .to_string()
        };
        parse(text, &now).map(|(from, to)| [show(from), show(to)])
    }

    #[test]
    fn periods_are_parsed() {
        for (text, from, to) in [
            ("today", "2026-11-20 00:00:00", "2026-11-21 00:00:00"),
            ("yesterday", "2026-11-19 00:00:00", "2026-11-20 00:00:00"),
            ("2026-11", "2026-11-01 00:00:00", "2026-12-01 00:00:00"),
            ("2026-12", "2026-12-01 00:00:00", "2027-01-01 00:00:00"),
            ("2026-11-20", "2026-11-20 00:00:00", "2026-11-21 00:00:00"),
        ] {
            assert_eq!(
                shown(text),
                Some([from.to_string(), to.to_string()]),
                "{text}"
            );
        }
        for (text, moment) in [
            ("now", "2026-11-20 10:22:05"),
            ("7d", "2026-11-13 10:22:05"),
            ("36h", "2026-11-18 22:22:05"),
            ("2026-11-20T10:22", "2026-11-20 10:22:00"),
            ("2026-11-20T10:22:07", "2026-11-20 10:22:07"),
            ("202511202359", "2025-11-20 23:59:00"),
            ("2511202359.30", "2025-11-20 23:59:30"),
            ("11010000", "2026-11-01 00:00:00"),
            ("12010000", "2025-12-01 00:00:00"),
            ("010000", "2026-11-01 00:00:00"),
            ("300000", "2026-10-30 00:00:00"),
            ("0800", "2026-11-20 08:00:00"),
            ("2359", "2026-11-20 23:59:00"),
        ] {
            assert_eq!(
                shown(text),
                Some([moment.to_string(), moment.to_string()]),
                "{text}"
            );
        }
    }

    #[test]
    fn malformed_periods_are_refused() {
        for text in [
            "",
            "soon",
            "7x",
            "2026-13",
            "2026-02-30",
            "2026-",
            "-1",
            "1969-12",
            "10000-01",
            "25",
            "2460",
            ".",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
