//! `[[reservation]]`, `[[dedicated]]` and `[primetime]`: single and recurring periods in which only
//! certain jobs may run.

use crate::config::document::{ConfigError, Section};
use crate::config::key::{Key, Table};
use crate::config::kinds::{
    A_SECOND_OR_MORE, BOOLEAN, Custom, Kind, List, OneOf, Optional, Scalar, TEXT, WholeNumber,
    custom, list_if_any, scalar, whole,
};
use crate::config::{DedicatedConfig, ReservationConfig, Times};
use crate::model::policy::site_time::PrimeHours;
use crate::model::reservation::recurrence::{RecurringWindow, WindowPeriod, weekday};
use crate::model::reservation::window::{TimeLimit, WindowAccess};
use crate::model::resource::Resources;
use crate::model::time::Span;
use chrono::{NaiveDateTime, Weekday};
use toml::Value;
use toml::de::DeValue;

const A_DAY: Span = Span::seconds(86_400);
const A_WEEK: Span = Span::seconds(7 * 86_400);

const NAME: Scalar<String> = scalar(
    "a name of at most 64 letters, digits, `-` and `_` (not an id, such as R12)",
    |name| is_window_name(name),
);
const NAMES: List<Scalar<String>> = list_if_any(TEXT, "a list of names");
const SELECT: Scalar<String> = scalar("chunks, such as \"2:ncpus=4\"", |_| true);
const DATE: Custom<NaiveDateTime> = custom(
    || "a date and time, such as \"2026-12-24 18:00\"".to_string(),
    read_date,
    |date| Some(date.format("%Y-%m-%d %H:%M:%S").to_string().into()),
);
const TIME_IN_PERIOD: Scalar<Span> = scalar(TIME_IN_PERIOD_TEXT, |time| *time <= A_WEEK);
const TIME_IN_PERIOD_TEXT: &str =
    "an offset from the beginning of the period, up to its length, such as \"8:00:00\"";
const TIME_OF_DAY: Scalar<Span> =
    scalar("a time of day, such as \"8:00:00\"", |time| *time <= A_DAY);
const DAYS: Custom<Vec<Weekday>> = custom(
    || "a list of weekdays, such as [\"mon\", \"tue\"]".to_string(),
    read_days,
    |days| write_days(days),
);
const DEPTH: WholeNumber<u32> = whole("a number from 1 to 100", |depth| (1..=100).contains(depth));
const PERIODS: &[(&str, WindowPeriod)] = &[
    ("day", WindowPeriod::Day),
    ("week", WindowPeriod::Week),
    ("infinity", WindowPeriod::Infinity),
];
const TIME_LIMIT_FOR: &[(&str, bool)] = &[("others", false), ("all", true)];

/// A section `[[reservation]]`.
#[derive(Default)]
pub struct ReservationRow {
    name: String,
    nodes: Vec<String>,
    select: Option<String>,
    from: Option<NaiveDateTime>,
    to: Option<NaiveDateTime>,
    period: Option<WindowPeriod>,
    start: Option<Span>,
    end: Option<Span>,
    days: Vec<Weekday>,
    depth: Option<u32>,
    groups: Vec<String>,
    access: WindowAccess,
    time_limit: Option<Span>,
    binds_all: Option<bool>,
    flags: Vec<String>,
}

const fn key<K: Kind>(
    name: &'static str,
    kind: K,
    field: fn(&mut ReservationRow) -> &mut K::Value,
) -> Key<ReservationRow, K> {
    Key::new(name, kind, field)
}

/// `[[reservation]]`.
pub static RESERVATION: Table<ReservationRow> = Table::new(
    "reservation",
    &[
        &key("name", NAME, |r| &mut r.name)
            .required()
            .text("The name by which jobs request the reservation, -W resv=NAME.")
            .example("\"office\""),
        &key("nodes", NAMES, |r| &mut r.nodes)
            .text("The nodes to reserve as a whole, such as [\"n1\", \"n2\"].")
            .default("none")
            .example("[\"n1\"]"),
        &key("select", Optional(SELECT), |r| &mut r.select)
            .text("The chunks to reserve instead of whole nodes, such as \"2:ncpus=4\".")
            .default("none")
            .example("\"2:ncpus=4\""),
        &key("from", Optional(DATE), |r| &mut r.from)
            .text("The start of a single reservation, in local time: \"2026-12-24 18:00\".")
            .default("none")
            .example("\"2026-12-01 09:00\""),
        &key("to", Optional(DATE), |r| &mut r.to)
            .text("The end of a single reservation, in local time.")
            .default("none")
            .example("\"2026-12-01 17:00\""),
        &key("period", Optional(OneOf(PERIODS)), |r| &mut r.period)
            .text("The period: \"day\", \"week\" (from Sunday) or \"infinity\" (always reserved).")
            .default("\"day\"")
            .example("\"day\""),
        &key("start", Optional(TIME_IN_PERIOD), |r| &mut r.start)
            .text("The start, counted from the beginning of the period.")
            .default("\"0:00:00\"")
            .example("\"8:00:00\""),
        &key("end", Optional(TIME_IN_PERIOD), |r| &mut r.end)
            .text(
                "The end, counted like the start; an end not after the start is in the next \
                 period.",
            )
            .default("the end of the period")
            .example("\"17:00:00\""),
        &Key::<ReservationRow, _>::computed(
            "days",
            DAYS,
            |r| Some(r.days.clone()).filter(|days| !days.is_empty()),
            |r, days| r.days = days,
        )
        .text("The weekdays on which a daily reservation begins, such as [\"mon\", \"tue\"].")
        .default("all")
        .example("[\"mon\", \"tue\", \"wed\", \"thu\", \"fri\"]"),
        &key("depth", Optional(DEPTH), |r| &mut r.depth)
            .text("The number of occurrences planned ahead, including the current one.")
            .default("2")
            .example("2"),
        &key("users", NAMES, |r| &mut r.access.users)
            .text("The users with access; \"*\" for all users.")
            .default("none")
            .example("[\"john\"]"),
        &key("groups", NAMES, |r| &mut r.groups)
            .text("The primary groups with access, listed by name.")
            .default("none")
            .example("[\"staff\"]"),
        &key("projects", NAMES, |r| &mut r.access.projects)
            .text("The projects (-P) with access; \"*\" for all projects.")
            .default("none")
            .example("[\"wave\"]"),
        &key("accounts", NAMES, |r| &mut r.access.accounts)
            .text("The accounts (-A) with access; \"*\" for all accounts.")
            .default("none")
            .example("[\"a1\"]"),
        &key("queues", NAMES, |r| &mut r.access.queues)
            .text("The queues with access; \"*\" for all queues.")
            .default("none")
            .example("[\"express\"]"),
        &key("qos", NAMES, |r| &mut r.access.qos)
            .text("The qualities of service with access; \"*\" for all qualities of service.")
            .default("none")
            .example("[\"high\"]"),
        &key("duration", Optional(A_SECOND_OR_MORE), |r| {
            &mut r.access.duration
        })
        .text("The walltime up to which all jobs have access.")
        .default("none")
        .example("\"10m\""),
        &key("time_limit", Optional(A_SECOND_OR_MORE), |r| {
            &mut r.time_limit
        })
        .text("The longest overlap of a job with the reservation.")
        .default("no limit for jobs with access, and no overlap for others")
        .example("\"1h\""),
        &key("time_limit_for", Optional(OneOf(TIME_LIMIT_FOR)), |r| {
            &mut r.binds_all
        })
        .text(
            "The jobs that time_limit applies to: \"others\" (without access) or \"all\" (with \
             access).",
        )
        .default("\"others\"")
        .example("\"others\""),
        &key("flags", NAMES, |r| &mut r.flags)
            .text(
                "The flags: \"byname\" (a job must request the reservation to use it), \
                 \"ownerpreempt\" (accepted without effect).",
            )
            .default("none")
            .example("[\"byname\"]"),
    ],
)
.finish(finish);

fn finish(row: &mut ReservationRow, section: &Section, _: &Resources) -> Result<(), ConfigError> {
    if row.nodes.is_empty() == row.select.is_none() {
        let text = "[[reservation]] requires either `nodes` or `select`";
        return Err(section.section_error(text.to_string()));
    }
    let is_known = |flag: &&String| ["byname", "ownerpreempt"].contains(&flag.as_str());
    if let Some(flag) = row.flags.iter().find(|flag| !is_known(flag)) {
        let text = format!("unknown flag `{flag}`: use `byname` or `ownerpreempt`");
        return Err(section.key_error("flags", text));
    }
    match (row.from, row.to, row.period) {
        (Some(from), Some(to), None) if from < to => Ok(()),
        (Some(_), Some(_), None) => {
            Err(section.key_error("to", "`to` must be later than `from`".to_string()))
        }
        (None, None, _) => check_period(row, section),
        _ => {
            let text = "[[reservation]] must have both `from` and `to` but no `period` (single), \
                        or neither `from` nor `to` (recurring; `period` is optional)";
            Err(section.section_error(text.to_string()))
        }
    }
}

fn check_period(row: &ReservationRow, section: &Section) -> Result<(), ConfigError> {
    for (key, time) in [("start", row.start), ("end", row.end)] {
        if time.is_some_and(|time| time > row.period_length()) {
            return Err(section.refuse_key(key, TIME_IN_PERIOD_TEXT));
        }
    }
    Ok(())
}

impl ReservationRow {
    /// A section that defines this reservation.
    pub fn from_reservation(window: &ReservationConfig) -> ReservationRow {
        let (access, limit) = (window.access.clone(), window.access.limit);
        let flags = [
            ("byname", window.by_name),
            ("ownerpreempt", window.owner_preempts),
        ];
        let set = flags.into_iter().filter(|(_, is_set)| *is_set);
        let row = ReservationRow {
            name: window.name.clone(),
            nodes: window.nodes.clone(),
            select: window.select.clone(),
            groups: window.groups.clone(),
            access,
            time_limit: limit.map(|limit| limit.most),
            binds_all: limit.map(|limit| limit.binds_all),
            flags: set.map(|(name, _)| name.to_string()).collect(),
            ..ReservationRow::default()
        };
        match &window.times {
            Times::Once { from, to } => ReservationRow {
                from: Some(*from),
                to: Some(*to),
                ..row
            },
            Times::Standing(standing) => ReservationRow {
                period: Some(standing.period),
                start: Some(standing.start),
                end: Some(standing.end),
                days: standing.days.clone(),
                depth: Some(standing.depth),
                ..row
            },
        }
    }

    /// The reservation that the section defines.
    pub fn window(self) -> ReservationConfig {
        let length = self.period_length();
        let has = |name: &str| self.flags.iter().any(|flag| flag == name);
        let (by_name, owner_preempts) = (has("byname"), has("ownerpreempt"));
        let times = match (self.from, self.to) {
            (Some(from), Some(to)) => Times::Once { from, to },
            _ => Times::Standing(RecurringWindow {
                period: self.period.unwrap_or_default(),
                start: self.start.unwrap_or_default(),
                end: self.end.unwrap_or(length),
                days: self.days,
                depth: self.depth.unwrap_or(2),
            }),
        };
        let binds_all = self.binds_all.unwrap_or(false);
        let limit = self.time_limit.map(|most| TimeLimit { most, binds_all });
        ReservationConfig {
            name: self.name,
            nodes: self.nodes,
            select: self.select,
            times,
            groups: self.groups,
            access: WindowAccess {
                limit,
                ..self.access
            },
            by_name,
            owner_preempts,
        }
    }

    fn period_length(&self) -> Span {
        match self.period {
            Some(WindowPeriod::Week) => A_WEEK,
            _ => A_DAY,
        }
    }
}

/// `[[dedicated]]`.
pub static DEDICATED: Table<DedicatedConfig> = Table::new(
    "dedicated",
    &[
        &Key::<DedicatedConfig, _>::new("from", DATE, |d| &mut d.from)
            .required()
            .text("The start of the dedicated time, in local time: \"2026-12-24 18:00\".")
            .example("\"2026-12-24 18:00\""),
        &Key::<DedicatedConfig, _>::new("to", DATE, |d| &mut d.to)
            .required()
            .text("The end of the dedicated time, in local time.")
            .example("\"2026-12-27 06:00\""),
    ],
)
.finish(|time, section, _| {
    if time.from < time.to {
        return Ok(());
    }
    Err(section.key_error("to", "`to` must be later than `from`".to_string()))
});

/// `[primetime]`.
pub static PRIME_TIME: Table<PrimeHours> = Table::new(
    "primetime",
    &[
        &Key::<PrimeHours, _>::new("days", DAYS, |p| &mut p.days)
            .text("The weekdays of prime time.")
            .default("Monday to Friday")
            .example("[\"mon\", \"tue\", \"wed\", \"thu\", \"fri\"]"),
        &Key::<PrimeHours, _>::new("from", TIME_OF_DAY, |p| &mut p.from)
            .required()
            .text("The start of prime time on each of the days, such as \"6:00:00\".")
            .example("\"6:00:00\""),
        &Key::<PrimeHours, _>::new("to", TIME_OF_DAY, |p| &mut p.to)
            .required()
            .text("The end of prime time on each of the days.")
            .example("\"18:00:00\""),
        &Key::<PrimeHours, _>::new("cross", BOOLEAN, |p| &mut p.may_cross)
            .text("Whether a job may run across the start or the end of prime time.")
            .default("true")
            .example("true"),
    ],
)
.finish(|hours, section, _| {
    if hours.from < hours.to {
        return Ok(());
    }
    let text = "`to` must be later than `from` on the same day";
    Err(section.key_error("to", text.to_string()))
});

/// The initial value of a `[primetime]` section: Monday to Friday, without hours. The keys of the
/// section change this value.
pub fn prime_hours() -> PrimeHours {
    use Weekday::{Fri, Mon, Thu, Tue, Wed};
    PrimeHours {
        days: vec![Mon, Tue, Wed, Thu, Fri],
        from: Span(0),
        to: Span(0),
        may_cross: true,
    }
}

/// Whether a name is valid. Ids of users' reservations, such as R12, S3 and M4, are no names.
fn is_window_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_id = name.starts_with(['R', 'S', 'M']) && name[1..].bytes().all(|b| b.is_ascii_digit());
    (1..=64).contains(&name.len()) && name.chars().all(is_plain) && !is_id
}

/// Reads a date and time, with or without seconds, separated by `T` or a space.
fn read_date(value: &DeValue) -> Option<NaiveDateTime> {
    let text = value.as_str()?.replace('T', " ");
    let formats = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"];
    let mut dates = formats
        .iter()
        .map(|format| NaiveDateTime::parse_from_str(&text, format));
    dates.find_map(Result::ok)
}

fn read_days(value: &DeValue) -> Option<Vec<Weekday>> {
    let days = value.as_array()?.iter();
    days.map(|day| weekday(day.get_ref().as_str()?)).collect()
}

fn write_days(days: &[Weekday]) -> Option<Value> {
    let names: Vec<Value> = days
        .iter()
        .map(|day| day.to_string().to_lowercase().into())
        .collect();
    Some(names.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn m40_a_recurring_reservation_is_read() {
        let text = "[[reservation]]\nname = \"office\"\nnodes = [\"n1\"]\nusers = [\"john\"]\n\
                    days = [\"mon\", \"fri\"]\nstart = \"8h\"\nend = \"17:00:00\"\n\
                    time_limit = \"1h\"\ntime_limit_for = \"all\"\nflags = [\"byname\"]\n";
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
    fn invalid_reservations_and_times_are_refused() {
        let refused = |text: &str| Config::parse(text).unwrap_err().to_string();
        let reservation = |rest: &str| refused(&format!("[[reservation]]\nname = \"a\"\n{rest}\n"));
        assert!(reservation("").contains("requires either `nodes` or `select`"));
        assert!(reservation("nodes = [\"n\"]\nflags = [\"x\"]").contains("unknown flag `x`"));
        assert!(
            reservation("nodes = [\"n\"]\nfrom = \"2026-01-01 10:00\"")
                .contains("must have both `from` and `to`")
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
