//! `[preemption]`, as it holds.

use super::{Known, span};
use crate::model::policy::Preemption;
use crate::model::policy::preemption::Condition;
use toml::Value;

/// Every key with its value.
pub(super) fn preemption(rule: &Preemption) -> Vec<Known> {
    let triggers: Vec<Value> = rule
        .triggers
        .iter()
        .map(|trigger| trigger.name().into())
        .collect();
    let levels: Vec<Value> = rule
        .levels
        .iter()
        .map(|level| joined(level).into())
        .collect();
    vec![
        ("triggers", Some(triggers.into())),
        ("repair", Some(rule.repair.into())),
        ("mode", Some(rule.mode.name().into())),
        ("no_agenda", Some(rule.no_agenda.name().into())),
        ("victims", Some(rule.victims.name().into())),
        ("action", Some(rule.actions.to_string().into())),
        ("grace", rule.grace.map(span)),
        ("interruption", Some(span(rule.interruption))),
        ("exempt", Some(span(rule.exempt))),
        ("preempted_boost", Some(rule.boost.into())),
        ("levels", Some(levels.into())),
        ("express", Some(i64::from(rule.express).into())),
        ("releases", Some(rule.releases.clone().into())),
    ]
}

fn joined(level: &[Condition]) -> String {
    level
        .iter()
        .map(|condition| condition.name())
        .collect::<Vec<_>>()
        .join("+")
}
