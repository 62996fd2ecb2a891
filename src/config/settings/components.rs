//! `[order.components]` as it holds.

use super::{Known, span, table};
use crate::model::policy::Components;
use crate::model::policy::components::{Count, Goal, Kind};
use std::collections::BTreeMap;
use toml::Value;

/// What all components have in common.
pub fn whole(rule: &Components) -> Vec<Known> {
    vec![
        ("min_walltime", Some(span(rule.min_walltime))),
        ("enable_negative", Some(rule.enable_negative.into())),
    ]
}

/// One of them, with its parts and what these go by.
pub fn component(rule: &Components, kind: Kind) -> Vec<Known> {
    let component = rule.component(kind);
    let own = [
        ("weight", Some(component.whole.weight.into())),
        ("cap", component.whole.cap.map(Value::from)),
    ];
    let parts = kind
        .parts()
        .iter()
        .zip(&component.parts)
        .map(|(name, part)| (*name, Some(count(*part))));
    own.into_iter()
        .chain(parts)
        .chain(goes_by(rule, kind))
        .collect()
}

fn goes_by(rule: &Components, kind: Kind) -> Option<Known> {
    match kind {
        Kind::Credential => Some(("priorities", Some(priorities(rule)))),
        Kind::FairShare => Some((
            "users",
            Some(named(&rule.users, |target| target.to_string().into())),
        )),
        Kind::Target => Some(("qos", Some(named(&rule.goals, goal)))),
        Kind::Resource | Kind::Service | Kind::Usage => None,
    }
}

fn count(count: Count) -> Value {
    match count.cap {
        None => count.weight.into(),
        Some(cap) => table([("weight", count.weight.into()), ("cap", cap.into())]),
    }
}

fn priorities(rule: &Components) -> Value {
    let of = &rule.priorities;
    let kinds = [
        ("user", &of.user),
        ("group", &of.group),
        ("account", &of.account),
        ("qos", &of.qos),
        ("queue", &of.queue),
    ];
    table(kinds.map(|(kind, priorities)| (kind, named(priorities, |priority| (*priority).into()))))
}

fn goal(goal: &Goal) -> Value {
    let wait = goal.queue_time.map(|wait| ("queue_time", span(wait)));
    let expansion = goal.xfactor.map(|expansion| ("xfactor", expansion.into()));
    table(wait.into_iter().chain(expansion))
}

fn named<T>(all: &BTreeMap<String, T>, value: impl Fn(&T) -> Value) -> Value {
    table(all.iter().map(|(name, one)| (name.as_str(), value(one))))
}
