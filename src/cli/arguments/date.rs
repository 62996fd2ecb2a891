//! Dates of `-a`: `[[[[CC]YY]MM]DD]hhmm[.SS]`, in local time.
//!
//! Missing seconds are 0. A year without a century is a year from 1969 to 2068. Other missing parts
//! are taken from the current time, with these exceptions: a time without a day means tomorrow if
//! the time has passed; a day without a month means the next month if the day has passed; a month
//! and day without a year mean the next year if the day has passed. As in PBS, the current minute
//! counts as passed: without a day, it means tomorrow, even if its seconds are in the future.

use crate::model::time::Wall;
use chrono::{
    DateTime, Datelike, Days, Local, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone,
    Timelike,
};

/// Parses `text` relative to `now`, in the time zone of `now`. None if `text` is no date, or is a
/// date before 1970.
pub fn parse<Z: TimeZone>(text: &str, now: &DateTime<Z>) -> Option<Wall> {
    let (digits, seconds) = text.split_once('.').unwrap_or((text, "00"));
    let is_numeric = [digits, seconds]
        .concat()
        .bytes()
        .all(|b| b.is_ascii_digit());
    if !is_numeric || seconds.len() != 2 || digits.len() % 2 != 0 {
        return None;
    }
    // Pairs of digits from the right: minutes, hours, days, months, years, centuries.
    let pairs: Vec<u32> = digits
        .as_bytes()
        .rchunks(2)
        .map(|pair| u32::from(pair[0] - b'0') * 10 + u32::from(pair[1] - b'0'))
        .collect();
    let today = now.naive_local();
    let date = match pairs[..] {
        [minute, hour] => next_day((hour, minute), today)?,
        [_, _, day] => next_month(day, today.date())?,
        [_, _, day, month] => next_year(month, day, today.date())?,
        [_, _, day, month, year] => date_with_overflow(century(year), month, day)?,
        [_, _, day, month, year, century] => {
            date_with_overflow((100 * century + year) as i32, month, day)?
        }
        _ => return None,
    };
    let (minute, hour) = (pairs[0], pairs[1]);
    let time = NaiveTime::from_hms_opt(hour, minute, seconds.parse().ok()?)?;
    local(date.and_time(time), &now.timezone())
        .filter(|seconds| *seconds >= 0)
        .map(Wall)
}

/// The attribute value for `-a text`: seconds since the Unix epoch, 0 for a time that is not in the
/// future. None if [`parse`] returns None.
pub fn begin(text: &str, now: Wall) -> Option<String> {
    let clock = Local.timestamp_opt(now.0, 0).single()?;
    let begin = parse(text, &clock)?;
    Some(if begin > now { begin.0 } else { 0 }.to_string())
}

/// Today, or tomorrow if the time of day has passed or is the current minute.
fn next_day((hour, minute): (u32, u32), now: NaiveDateTime) -> Option<NaiveDate> {
    let passed = (hour, minute) <= (now.hour(), now.minute());
    now.date().checked_add_days(Days::new(passed.into()))
}

/// The day in this month, or in the next month if the day has passed.
fn next_month(day: u32, today: NaiveDate) -> Option<NaiveDate> {
    let passed = day < today.day();
    match today.month() {
        12 if passed => date_with_overflow(today.year() + 1, 1, day),
        month => date_with_overflow(today.year(), month + u32::from(passed), day),
    }
}

/// The day in this year, or in the next year if the day has passed.
fn next_year(month: u32, day: u32, today: NaiveDate) -> Option<NaiveDate> {
    let passed = (month, day) < (today.month(), today.day());
    date_with_overflow(today.year() + i32::from(passed), month, day)
}

fn century(year: u32) -> i32 {
    if year > 68 {
        1900 + year as i32
    } else {
        2000 + year as i32
    }
}

/// The date of a day of a month. Days after the end of the month continue in the next month: 30
/// February is 2 March, or 1 March in a leap year. None unless `month` is 1 to 12 and `day` is 1 to
/// 31.
fn date_with_overflow(year: i32, month: u32, day: u32) -> Option<NaiveDate> {
    if !(1..=31).contains(&day) {
        return None;
    }
    let first = NaiveDate::from_ymd_opt(year, month, 1)?;
    first.checked_add_days(Days::new(u64::from(day) - 1))
}

/// Converts local time to seconds since the Unix epoch. If the change to summer time skips a time,
/// one hour is added to it; None if the result does not exist either. If a time occurs twice, the
/// first occurrence counts.
pub fn local<Z: TimeZone>(moment: NaiveDateTime, zone: &Z) -> Option<i64> {
    let exact = zone.from_local_datetime(&moment).earliest();
    let exact = exact.or_else(|| {
        let later = moment + TimeDelta::hours(1);
        zone.from_local_datetime(&later).earliest()
    });
    exact.map(|moment| moment.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{FixedOffset, Utc};

    /// Friday 20 November 2026, 10:22:05.
    fn now() -> DateTime<Utc> {
        Utc.with_ymd_and_hms(2026, 11, 20, 10, 22, 5).unwrap()
    }

    fn shown(text: &str) -> Option<String> {
        parse(text, &now()).map(|wall| {
            Utc.timestamp_opt(wall.0, 0)
                .unwrap()
                .format("%Y-%m-%d %H:%M:%S")
                .to_string()
        })
    }

    #[test]
    fn dates_are_parsed_as_in_pbs() {
        for (text, expected) in [
            ("2359", "2026-11-20 23:59:00"),
            ("0000", "2026-11-21 00:00:00"),
            ("1021", "2026-11-21 10:21:00"),
            ("1022", "2026-11-21 10:22:00"),
            ("1022.59", "2026-11-21 10:22:59"),
            ("1023", "2026-11-20 10:23:00"),
            ("201022", "2026-11-20 10:22:00"),
            ("2359.30", "2026-11-20 23:59:30"),
            ("312359", "2026-12-01 23:59:00"),
            ("302359", "2026-11-30 23:59:00"),
            ("010000", "2026-12-01 00:00:00"),
            ("12312359", "2026-12-31 23:59:00"),
            ("02300000", "2027-03-02 00:00:00"),
            ("11200000", "2026-11-20 00:00:00"),
            ("2612312359", "2026-12-31 23:59:00"),
            ("2412312359", "2024-12-31 23:59:00"),
            ("202612312359", "2026-12-31 23:59:00"),
            ("203002290000", "2030-03-01 00:00:00"),
            ("202802290000", "2028-02-29 00:00:00"),
            ("197001010000", "1970-01-01 00:00:00"),
            ("210001010000", "2100-01-01 00:00:00"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
    }

    /// A job submitted with `-a 2358` at 23:58 waits until 23:58 of the next day.
    #[test]
    fn the_current_minute_means_tomorrow() {
        for second in [0, 5, 59] {
            let now = Utc.with_ymd_and_hms(2026, 12, 31, 23, 58, second).unwrap();
            let tomorrow = Utc.with_ymd_and_hms(2027, 1, 1, 23, 58, 0).unwrap();
            assert_eq!(
                parse("2358", &now),
                Some(Wall(tomorrow.timestamp())),
                "{second}"
            );
        }
    }

    #[test]
    fn a_past_date_gives_0_but_a_past_time_of_day_means_tomorrow() {
        let now = Wall(now().timestamp());
        let minute = Local
            .timestamp_opt(now.0, 0)
            .unwrap()
            .format("%H%M")
            .to_string();
        assert_eq!(begin("202001010000", now).as_deref(), Some("0"));
        assert_ne!(begin(&minute, now).as_deref(), Some("0"));
    }

    #[test]
    fn malformed_dates_are_refused() {
        for text in [
            "2400",
            "2360",
            "2359.60",
            "235",
            "23:59",
            "322359",
            "1120235900",
            "6901010000",
            "190001010000",
            "20261120",
            " 2359",
            "2359 ",
            "",
            "9999",
            "2560",
            "20",
            "abc",
            "202613011200",
            "2359.5",
            "1e10",
            "000000",
            "2359.",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn dates_are_in_the_time_zone_of_the_submitter() {
        let now = now().with_timezone(&FixedOffset::east_opt(2 * 3600).unwrap());
        assert_eq!(
            parse("2359", &now),
            Some(Wall(parse("2159", &super::tests::now()).unwrap().0))
        );
    }
}
