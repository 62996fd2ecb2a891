//! `[[reservation]]`, `[[dedicated]]` and `[primetime]`: what is set aside, and when.

use super::precedence::from_0_to_1;
use super::{A_SECOND_OR_MORE, keys, list, person, span, span_from_a_second, text, whole};
use crate::config::document::Section;
use crate::config::{ConfigError, DedicatedConfig, ReservationConfig, Reserving, Times};
use crate::model::policy::site_time::PrimeHours;
use crate::model::reservation::recurrence::{Period, Standing, weekday};
use crate::model::reservation::window::{TimeLimit, WindowAccess};
use crate::model::time::Span;
use chrono::{NaiveDateTime, Weekday};
use toml::de::DeValue;

const DATE: &str = "a date and time, as \"2026-12-24 18:00\"";
const TIME_OF_DAY: &str = "a time from the beginning of the period on, as \"8:00:00\"";
const DAYS: &str = "a list of weekdays, as [\"mon\", \"tue\"]";
const NAMES: &str = "a list of names";
const A_DAY: Span = Span::seconds(86_400);

/// What users may reserve: the keys `resv_...` of `[server]`.
pub fn bounds(section: &Section) -> Result<Reserving, ConfigError> {
    let default = Reserving::default();
    let users = section.read(
        "resv_users",
        "a list of \"user\", \"user@host\" or \"*\"",
        list(person),
    )?;
    let duration = section.read("resv_max_duration", A_SECOND_OR_MORE, span_from_a_second)?;
    Ok(Reserving {
        users: users.unwrap_or(default.users),
        number: section
            .read("resv_max_number", "a number from 0 on", whole)?
            .unwrap_or(default.number),
        duration: duration.unwrap_or(default.duration),
        share: section
            .read("resv_max_share", "a number from 0 to 1", from_0_to_1)?
            .unwrap_or(default.share),
    })
}

/// `[[reservation]]`.
pub fn reservation(section: &Section) -> Result<ReservationConfig, ConfigError> {
    section.only(keys("reservation"))?;
    let names = |key| {
        section
            .read(key, NAMES, list(text))
            .map(Option::unwrap_or_default)
    };
    let (nodes, select) = (
        names("nodes")?,
        section.read("select", "chunks, as \"2:ncpus=4\"", text)?,
    );
    if nodes.is_empty() == select.is_none() {
        return Err(
            section.wrong("[[reservation]] needs `nodes` or `select`, one of them".to_string())
        );
    }
    let flags = names("flags")?;
    if let Some(flag) = flags
        .iter()
        .find(|flag| !["byname", "ownerpreempt"].contains(&flag.as_str()))
    {
        return Err(section.wrong_at(
            "flags",
            format!("unknown flag `{flag}`: `byname` and `ownerpreempt` are known"),
        ));
    }
    let has = |name: &str| flags.iter().any(|flag| flag == name);
    Ok(ReservationConfig {
        name: section.require("name", "a name: letters, digits, `-` and `_`", window_name)?,
        nodes,
        select,
        times: times(section)?,
        groups: names("groups")?,
        access: access(section)?,
        by_name: has("byname"),
        owner_preempts: has("ownerpreempt"),
    })
}

fn access(section: &Section) -> Result<WindowAccess, ConfigError> {
    let names = |key| {
        section
            .read(key, NAMES, list(text))
            .map(Option::unwrap_or_default)
    };
    let most = section.read("time_limit", A_SECOND_OR_MORE, span_from_a_second)?;
    let binds_all = section
        .read("time_limit_for", "\"others\" or \"all\"", bound)?
        .unwrap_or(false);
    Ok(WindowAccess {
        users: names("users")?,
        groups: Vec::new(),
        projects: names("projects")?,
        accounts: names("accounts")?,
        queues: names("queues")?,
        qos: names("qos")?,
        duration: section.read("duration", A_SECOND_OR_MORE, span_from_a_second)?,
        limit: most.map(|most| TimeLimit { most, binds_all }),
    })
}

fn times(section: &Section) -> Result<Times, ConfigError> {
    let (from, to) = (
        section.read("from", DATE, date)?,
        section.read("to", DATE, date)?,
    );
    let period = section.read("period", "\"day\", \"week\" or \"infinity\"", period)?;
    match (from, to, period) {
        (Some(from), Some(to), None) if from < to => Ok(Times::Once { from, to }),
        (Some(_), Some(_), None) => {
            Err(section.wrong_at("to", "`to` must be later than `from`".to_string()))
        }
        (None, None, _) => Ok(Times::Standing(standing(
            section,
            period.unwrap_or_default(),
        )?)),
        _ => Err(section.wrong(
            "[[reservation]] comes once, by `from` and `to`, or again, by `period`".to_string(),
        )),
    }
}

fn standing(section: &Section, period: Period) -> Result<Standing, ConfigError> {
    let whole_period = if period == Period::Week {
        Span(7 * A_DAY.0)
    } else {
        A_DAY
    };
    let within = |value: &DeValue| span(value).filter(|time| *time <= whole_period);
    let depth = section.read("depth", "a number from 1 to 100", |v| {
        whole(v).filter(|n| (1..=100).contains(n))
    })?;
    Ok(Standing {
        period,
        start: section
            .read("start", TIME_OF_DAY, within)?
            .unwrap_or_default(),
        end: section
            .read("end", TIME_OF_DAY, within)?
            .unwrap_or(whole_period),
        days: section.read("days", DAYS, list(day))?.unwrap_or_default(),
        depth: depth.unwrap_or(2),
    })
}

/// `[[dedicated]]`.
pub fn dedicated(section: &Section) -> Result<DedicatedConfig, ConfigError> {
    section.only(keys("dedicated"))?;
    let (from, to) = (
        section.require("from", DATE, date)?,
        section.require("to", DATE, date)?,
    );
    match from < to {
        true => Ok(DedicatedConfig { from, to }),
        false => Err(section.wrong_at("to", "`to` must be later than `from`".to_string())),
    }
}

/// `[primetime]`.
pub fn primetime(section: &Section) -> Result<PrimeHours, ConfigError> {
    section.only(keys("primetime"))?;
    let within = |value: &DeValue| span(value).filter(|time| *time <= A_DAY);
    let days = section.read("days", DAYS, list(day))?;
    let workdays = vec![
        Weekday::Mon,
        Weekday::Tue,
        Weekday::Wed,
        Weekday::Thu,
        Weekday::Fri,
    ];
    let hours = PrimeHours {
        days: days.unwrap_or(workdays),
        from: section.require("from", TIME_OF_DAY, within)?,
        to: section.require("to", TIME_OF_DAY, within)?,
        may_cross: section
            .read("cross", "true or false", |value| value.as_bool())?
            .unwrap_or(true),
    };
    match hours.from < hours.to {
        true => Ok(hours),
        false => Err(section.wrong_at(
            "to",
            "`to` must be later than `from`, on the same day".to_string(),
        )),
    }
}

fn window_name(value: &DeValue) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    // R12, S12 and M12 are what people make.
    let numbered = |name: &str| {
        name.starts_with(['R', 'S', 'M']) && name[1..].bytes().all(|b| b.is_ascii_digit())
    };
    text(value).filter(|name| {
        !name.is_empty() && name.len() <= 64 && name.chars().all(plain) && !numbered(name)
    })
}

/// With seconds or without, and with a `T` or a blank.
fn date(value: &DeValue) -> Option<NaiveDateTime> {
    let text = value.as_str()?.replace('T', " ");
    let with = |form| NaiveDateTime::parse_from_str(&text, form).ok();
    with("%Y-%m-%d %H:%M:%S").or_else(|| with("%Y-%m-%d %H:%M"))
}

fn day(value: &DeValue) -> Option<Weekday> {
    weekday(value.as_str()?)
}

fn period(value: &DeValue) -> Option<Period> {
    match value.as_str()? {
        "day" => Some(Period::Day),
        "week" => Some(Period::Week),
        "infinity" => Some(Period::Infinity),
        _ => None,
    }
}

fn bound(value: &DeValue) -> Option<bool> {
    match value.as_str()? {
        "others" => Some(false),
        "all" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn m40_a_standing_reservation_is_read() {
        let text = "[[reservation]]\nname = \"office\"\nnodes = [\"n1\"]\nusers = [\"john\"]\ndays = [\"mon\", \"fri\"]\n\
                    start = \"8h\"\nend = \"17:00:00\"\ntime_limit = \"1h\"\ntime_limit_for = \"all\"\nflags = [\"byname\"]\n";
        let config = Config::parse(text).unwrap();
        let found = &config.reservations[0];
        let Times::Standing(standing) = &found.times else {
            panic!("{found:?}")
        };
        assert_eq!(
            (standing.depth, standing.start, standing.days.len()),
            (2, Span::seconds(8 * 3600), 2)
        );
        assert_eq!(
            found.access.limit,
            Some(TimeLimit {
                most: Span::seconds(3600),
                binds_all: true
            })
        );
        assert!(found.by_name && !found.owner_preempts);
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_remedy() {
        let refused = |text: &str| Config::parse(text).unwrap_err().to_string();
        let reservation = |rest: &str| refused(&format!("[[reservation]]\nname = \"a\"\n{rest}\n"));
        assert!(reservation("").contains("needs `nodes` or `select`"));
        assert!(reservation("nodes = [\"n\"]\nflags = [\"x\"]").contains("unknown flag `x`"));
        assert!(
            reservation("nodes = [\"n\"]\nfrom = \"2026-01-01 10:00\"")
                .contains("by `from` and `to`")
        );
        assert!(reservation("nodes = [\"n\"]\nname2 = 1").contains("unknown key `name2`"));
        assert!(refused("[[reservation]]\nname = \"R12\"\nnodes = [\"n\"]").contains("`name`"));
        assert!(
            refused("[[dedicated]]\nfrom = \"2026-01-02 10:00\"\nto = \"2026-01-01 10:00\"")
                .contains("later")
        );
        assert!(refused("[primetime]\nfrom = \"18:00:00\"\nto = \"6:00:00\"").contains("same day"));
    }

    #[test]
    fn i23_dedicated_and_prime_time_are_read() {
        let text = "[[dedicated]]\nfrom = \"2026-01-01T10:00\"\nto = \"2026-01-01 12:00:30\"\n\
                    [primetime]\nfrom = \"6h\"\nto = \"18:00:00\"\ncross = false\n";
        let config = Config::parse(text).unwrap();
        assert_eq!(
            (config.dedicated[0].to - config.dedicated[0].from).num_seconds(),
            7230
        );
        assert_eq!(
            config
                .primetime
                .map(|prime| (prime.days.len(), prime.may_cross)),
            Some((5, false))
        );
    }
}
