//! `[[hook]]` as it holds.

use super::{Known, span};
use crate::model::hook::{FailAction, Hook, RunsAs};
use toml::Value;

/// The keys of a hook.
pub(super) fn hook(hook: &Hook) -> Vec<Known> {
    let events: Vec<Value> = hook
        .occasions
        .iter()
        .map(|occasion| occasion.name().into())
        .collect();
    vec![
        ("name", Some(hook.name.as_str().into())),
        ("event", Some(events.into())),
        ("command", Some(hook.command.clone().into())),
        ("enabled", Some(hook.is_enabled.into())),
        ("order", Some(i64::from(hook.order).into())),
        ("alarm", Some(span(hook.alarm))),
        ("freq", Some(span(hook.every))),
        ("user", named(RunsAs::ALL, hook.runs_as)),
        ("fail_action", named(FailAction::ALL, hook.on_failure)),
    ]
}

fn named<T: PartialEq>(all: &[(&'static str, T)], one: T) -> Option<Value> {
    all.iter()
        .find(|(_, other)| *other == one)
        .map(|(name, _)| (*name).into())
}
