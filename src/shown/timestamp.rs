//! Times in PBS's formats, in the local time zone.

use crate::model::time::Wall;
use chrono::{DateTime, Datelike, Local, NaiveDateTime, Timelike};
use std::fmt::{self, Display};

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A time in the format of `ctime`: `Fri Nov 11 17:57:05 2016`, the day padded with a space.
pub fn ctime(wall: Wall) -> impl Display {
    InLocalTime(wall, |at, f| {
        let (hour, minute, second) = (at.hour(), at.minute(), at.second());
        write!(
            f,
            "{} {hour:02}:{minute:02}:{second:02} {}",
            Date(at),
            at.year()
        )
    })
}

/// A time in the format of job comments: `Fri Nov 11 at 17:57`.
pub fn comment_time(wall: Wall) -> impl Display {
    InLocalTime(wall, |at, f| {
        write!(f, "{} at {:02}:{:02}", Date(at), at.hour(), at.minute())
    })
}

/// A time in a list of reservations: `Today 17:57`, within the next seven days `Fri 17:57`, in the
/// current year `Thu Dec 24 09:00`, otherwise with the year. `never` for a time that calendars
/// cannot express.
pub fn day_and_time(moment: Wall, now: Wall) -> String {
    let Some((at, today)) = local(moment).zip(local(now)) else {
        return "never".to_string();
    };
    let (at, today) = (at.naive_local(), today.naive_local());
    let clock = format!("{:02}:{:02}", at.hour(), at.minute());
    match (moment.0 - now.0) / 86_400 {
        _ if at.date() == today.date() => format!("Today {clock}"),
        0..7 if moment > now => format!("{} {clock}", day_name(at)),
        _ if at.year() == today.year() => format!("{} {clock}", Date(at)),
        _ => format!("{} {} {clock}", Date(at), at.year()),
    }
}

/// A planned start in at most five characters, as in `qstat -T`: `17:57` today, `Fr 17` (weekday
/// and hour) within a week, `Nov` (month) later this year, `2027` (year) within five years, and
/// `>5yrs` later. None for a past time, and for a time that calendars cannot express.
pub fn start_column(start: Wall, now: Wall) -> Option<String> {
    let (at, today) = (local(start)?.naive_local(), local(now)?.naive_local());
    let days = start.0.checked_sub(now.0).filter(|ahead| *ahead >= 0)? / 86_400;

    Some(match days {
        0 if at.date() == today.date() => format!("{:02}:{:02}", at.hour(), at.minute()),
        0..7 => format!("{} {:02}", &day_name(at)[..2], at.hour()),
        _ if at.year() == today.year() => MONTHS[at.month0() as usize].to_string(),
        _ if days <= 5 * 365 => at.year().to_string(),
        _ => ">5yrs".to_string(),
    })
}

/// Converts a time to the local time zone; None for a time that calendars cannot express.
pub fn local(wall: Wall) -> Option<DateTime<Local>> {
    DateTime::from_timestamp(wall.0, 0).map(|at| at.with_timezone(&Local))
}

/// A time, and the function that formats the time in the local time zone.
struct InLocalTime(Wall, fn(NaiveDateTime, &mut fmt::Formatter) -> fmt::Result);

/// A time that calendars cannot express is displayed as a number of seconds.
impl Display for InLocalTime {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match local(self.0) {
            Some(at) => self.1(at.naive_local(), f),
            None => write!(f, "{}", self.0.0),
        }
    }
}

struct Date(NaiveDateTime);

impl Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{} {} {:2}",
            day_name(self.0),
            MONTHS[self.0.month0() as usize],
            self.0.day()
        )
    }
}

fn day_name(at: NaiveDateTime) -> &'static str {
    DAYS[at.weekday().num_days_from_monday() as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeZone;

    fn wall(text: &str) -> Wall {
        let moment = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").unwrap();
        Wall(
            Local
                .from_local_datetime(&moment)
                .earliest()
                .unwrap()
                .timestamp(),
        )
    }

    #[test]
    fn dates_have_the_format_of_ctime() {
        assert_eq!(
            ctime(wall("2016-11-11 17:57:05")).to_string(),
            "Fri Nov 11 17:57:05 2016"
        );
        assert_eq!(
            ctime(wall("2016-11-01 07:05:09")).to_string(),
            "Tue Nov  1 07:05:09 2016"
        );
        assert_eq!(
            comment_time(wall("2016-11-01 07:05:09")).to_string(),
            "Tue Nov  1 at 07:05"
        );
        assert_eq!(ctime(Wall(i64::MAX)).to_string(), i64::MAX.to_string());
    }

    #[test]
    fn near_reservation_times_have_shorter_dates() {
        let shown = |text| day_and_time(wall(text), wall("2026-11-20 10:20:30"));
        assert_eq!(shown("2026-11-20 17:57:00"), "Today 17:57");
        assert_eq!(shown("2026-11-21 09:00:00"), "Sat 09:00");
        assert_eq!(shown("2026-12-24 09:00:00"), "Thu Dec 24 09:00");
        assert_eq!(shown("2026-11-19 09:00:00"), "Thu Nov 19 09:00");
        assert_eq!(shown("2027-01-01 09:00:00"), "Fri Jan  1 2027 09:00");
        assert_eq!(day_and_time(Wall(i64::MAX), Wall(0)), "never");
    }

    #[test]
    fn a_planned_start_has_at_most_five_characters() {
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
