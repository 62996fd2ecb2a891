//! Moments as PBS writes them and reads them, in the local time zone.

use crate::model::time::Wall;
use chrono::{DateTime, Datelike, Local, Months, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone, Timelike};
use std::fmt::{self, Display};

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A moment as `ctime` writes it: `Fri Nov 11 17:57:05 2016`, the day padded with a blank.
pub fn ctime(wall: Wall) -> impl Display {
    In(wall, |at, f| {
        let (hour, minute, second) = (at.hour(), at.minute(), at.second());
        write!(f, "{} {hour:02}:{minute:02}:{second:02} {}", Date(at), at.year())
    })
}

/// A moment as comments name it: `Fri Nov 11 at 17:57`.
pub fn comment_time(wall: Wall) -> impl Display {
    In(wall, |at, f| write!(f, "{} at {:02}:{:02}", Date(at), at.hour(), at.minute()))
}

/// A promised start in five columns, as `qstat -T` shows it: `17:57` today, `Fr 17` within a week,
/// `Nov` later this year, then the year, `>5yrs` at last; None for a moment that has passed.
pub fn start_column(start: Wall, now: Wall) -> Option<String> {
    let (at, today) = (local(start)?, local(now)?);
    let days = start.0.checked_sub(now.0).filter(|ahead| *ahead >= 0)? / 86_400;
    let month = || MONTHS[at.month0() as usize].to_string();
    Some(match days {
        0 if at.date() == today.date() => format!("{:02}:{:02}", at.hour(), at.minute()),
        0..7 => format!("{} {:02}", &day_name(at)[..2], at.hour()),
        _ if at.year() == today.year() => month(),
        _ if days <= 5 * 365 => at.year().to_string(),
        _ => ">5yrs".to_string(),
    })
}

/// Reads `[[[[CC]YY]MM]DD]hhmm[.SS]`. What is left out is taken from `now`, or from the next day,
/// month or year if that has passed; a day the month does not have runs on into the next.
pub fn parse(text: &str, now: Wall) -> Option<Wall> {
    let local = parse_local(text, self::local(now)?)?;
    Local.from_local_datetime(&local).earliest().map(|at| Wall(at.timestamp()))
}

struct In(Wall, fn(NaiveDateTime, &mut fmt::Formatter) -> fmt::Result);

/// A moment no calendar reaches is shown as seconds.
impl Display for In {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match local(self.0) {
            Some(at) => self.1(at, f),
            None => write!(f, "{}", self.0.0),
        }
    }
}

struct Date(NaiveDateTime);

impl Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {} {:2}", day_name(self.0), MONTHS[self.0.month0() as usize], self.0.day())
    }
}

fn day_name(at: NaiveDateTime) -> &'static str {
    DAYS[at.weekday().num_days_from_monday() as usize]
}

fn local(wall: Wall) -> Option<NaiveDateTime> {
    DateTime::from_timestamp(wall.0, 0).map(|at| at.with_timezone(&Local).naive_local())
}

fn parse_local(text: &str, now: NaiveDateTime) -> Option<NaiveDateTime> {
    let (digits, second) = match text.split_once('.') {
        None => (text, 0),
        Some((digits, second)) => (digits, (second.len() == 2).then(|| number(second))??),
    };
    let pair = |from_end: usize| digits.get(digits.len().checked_sub(from_end)?..digits.len() + 2 - from_end);
    let time = NaiveTime::from_hms_opt(number(pair(4)?)?, number(pair(2)?)?, second)?;
    let day = pair(6).map(number);
    let month = pair(8).map(number);
    match digits.len() {
        4 => ahead(now.date().and_time(time), now, |at| at.checked_add_signed(TimeDelta::days(1))),
        6 => {
            let at = date(now.year(), now.month(), day??)?.and_time(time);
            ahead(at, now, |at| at.checked_add_months(Months::new(1)))
        }
        8 => {
            let at = date(now.year(), month??, day??)?.and_time(time);
            ahead(at, now, |at| at.checked_add_months(Months::new(12)))
        }
        10 | 12 => Some(date(year(digits)?, month??, day??)?.and_time(time)),
        _ => None,
    }
}

fn number(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The year of a date of ten or twelve digits.
fn year(digits: &str) -> Option<i32> {
    let written = number(&digits[..digits.len() - 8])? as i32;
    Some(match digits.len() {
        12 => written,
        _ if written > 68 => 1900 + written,
        _ => 2000 + written,
    })
}

/// The day of a month, or of the next one when the month has no such day.
fn date(year: i32, month: u32, day: u32) -> Option<NaiveDate> {
    let first = NaiveDate::from_ymd_opt(year, month, 1)?;
    (1..=31).contains(&day).then(|| first.checked_add_signed(TimeDelta::days(i64::from(day) - 1)))?
}

fn ahead(
    at: NaiveDateTime,
    now: NaiveDateTime,
    next: impl Fn(NaiveDateTime) -> Option<NaiveDateTime>,
) -> Option<NaiveDateTime> {
    if at < now { next(at) } else { Some(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> NaiveDateTime {
        NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").unwrap()
    }

    fn wall(text: &str) -> Wall {
        Wall(Local.from_local_datetime(&moment(text)).earliest().unwrap().timestamp())
    }

    #[test]
    fn dates_are_written_as_ctime_writes_them() {
        assert_eq!(ctime(wall("2016-11-11 17:57:05")).to_string(), "Fri Nov 11 17:57:05 2016");
        assert_eq!(ctime(wall("2016-11-01 07:05:09")).to_string(), "Tue Nov  1 07:05:09 2016");
        assert_eq!(comment_time(wall("2016-11-01 07:05:09")).to_string(), "Tue Nov  1 at 07:05");
        assert_eq!(ctime(Wall(i64::MAX)).to_string(), i64::MAX.to_string());
    }

    #[test]
    fn what_a_date_leaves_out_comes_from_now_or_lies_ahead() {
        let now = moment("2026-11-20 10:20:30");
        let read = |text| parse_local(text, now).map(|at| at.to_string());
        assert_eq!(read("2359.30").as_deref(), Some("2026-11-20 23:59:30"));
        assert_eq!(read("0001").as_deref(), Some("2026-11-21 00:01:00"));
        assert_eq!(read("012359").as_deref(), Some("2026-12-01 23:59:00"));
        assert_eq!(read("312359").as_deref(), Some("2026-12-01 23:59:00"));
        assert_eq!(read("01020304").as_deref(), Some("2027-01-02 03:04:00"));
        assert_eq!(read("6901020304").as_deref(), Some("1969-01-02 03:04:00"));
        assert_eq!(read("202602300102").as_deref(), Some("2026-03-02 01:02:00"));
        for bad in ["9999", "123", "12345", "2400", "000060", "1200.6", "1200.61", "12é0", "99010203040506", ""] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_promised_start_fits_five_columns() {
        let now = wall("2026-11-20 10:20:30");
        let column = |text| start_column(wall(text), now);
        assert_eq!(column("2026-11-20 17:57:00").as_deref(), Some("17:57"));
        assert_eq!(column("2026-11-21 09:00:00").as_deref(), Some("Sa 09"));
        assert_eq!(column("2026-12-24 09:00:00").as_deref(), Some("Dec"));
        assert_eq!(column("2027-03-01 09:00:00").as_deref(), Some("2027"));
        assert_eq!(column("2040-03-01 09:00:00").as_deref(), Some(">5yrs"));
        assert_eq!(column("2026-11-20 10:20:29"), None);
    }
}
