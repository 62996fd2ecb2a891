//! `[[reservation]]` and `[[dedicated]]`: what is set aside, and when.

use super::{Known, days, list, span};
use crate::config::{DedicatedConfig, ReservationConfig, Times};
use chrono::NaiveDateTime;
use toml::Value;

/// A window that the file makes.
pub(super) fn reservation(window: &ReservationConfig) -> Vec<Known> {
    let flags = [
        ("byname", window.by_name),
        ("ownerpreempt", window.owner_preempts),
    ];
    let flags: Vec<String> = flags
        .iter()
        .filter(|(_, is_set)| *is_set)
        .map(|(name, _)| name.to_string())
        .collect();
    let (access, limit) = (&window.access, window.access.limit);
    let mut all = vec![
        ("name", Some(window.name.clone().into())),
        ("nodes", list(&window.nodes)),
        ("select", window.select.clone().map(Value::from)),
    ];
    all.extend(times(&window.times));
    all.extend([
        ("users", list(&access.users)),
        ("groups", list(&window.groups)),
        ("projects", list(&access.projects)),
        ("accounts", list(&access.accounts)),
        ("queues", list(&access.queues)),
        ("qos", list(&access.qos)),
        ("duration", access.duration.map(span)),
        ("time_limit", limit.map(|limit| span(limit.most))),
        (
            "time_limit_for",
            limit.map(|limit| if limit.binds_all { "all" } else { "others" }.into()),
        ),
        ("flags", list(&flags)),
    ]);
    all
}

fn times(times: &Times) -> Vec<Known> {
    match times {
        Times::Once { from, to } => vec![("from", Some(date(from))), ("to", Some(date(to)))],
        Times::Standing(standing) => vec![
            ("period", Some(standing.period.name().into())),
            ("start", Some(span(standing.start))),
            ("end", Some(span(standing.end))),
            (
                "days",
                Some(days(&standing.days)).filter(|_| !standing.days.is_empty()),
            ),
            ("depth", Some(i64::from(standing.depth).into())),
        ],
    }
}

/// A time in which only jobs of dedicated queues run.
pub(super) fn dedicated(time: &DedicatedConfig) -> Vec<Known> {
    vec![
        ("from", Some(date(&time.from))),
        ("to", Some(date(&time.to))),
    ]
}

fn date(date: &NaiveDateTime) -> Value {
    date.format("%Y-%m-%d %H:%M:%S").to_string().into()
}
