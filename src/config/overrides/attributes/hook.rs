//! A hook's attributes.

use super::texts::{names, number};
use super::{Attribute, Form, at};
use crate::model::hook::{FailAction, Hook, Occasion, RunsAs};
use crate::model::resource::{Kind, Value};
use crate::model::time::Span;
use std::path::Path;

pub(super) const HOOK: &[Attribute] = &[
    at("type", Form::Always("site")),
    at(
        "enabled",
        Form::Hook(|hook| Some(hook.is_enabled.to_string()), set_enabled),
    ),
    at("event", Form::Hook(events, set_events)),
    at(
        "user",
        Form::Hook(
            |hook| name_of(RunsAs::ALL, hook.runs_as),
            |hook, text| {
                named(RunsAs::ALL, text)
                    .map(|runs_as| hook.runs_as = runs_as)
                    .is_some()
            },
        ),
    ),
    at(
        "alarm",
        Form::Hook(
            |hook| Some(hook.alarm.as_seconds().to_string()),
            |hook, text| {
                seconds(text, Hook::ALARM)
                    .map(|alarm| hook.alarm = alarm)
                    .is_some()
            },
        ),
    ),
    at(
        "freq",
        Form::Hook(
            |hook| Some(hook.every.as_seconds().to_string()).filter(|_| is_periodic(hook)),
            |hook, text| {
                seconds(text, Hook::EVERY)
                    .map(|every| hook.every = every)
                    .is_some()
            },
        ),
    ),
    at(
        "order",
        Form::Hook(
            |hook| Some(hook.order.to_string()),
            |hook, text| {
                let order = number(text, "1").filter(|order| (1..=1000).contains(order));
                order.map(|order| hook.order = order as u16).is_some()
            },
        ),
    ),
    at("debug", Form::Always("false")),
    at(
        "fail_action",
        Form::Hook(
            |hook| name_of(FailAction::ALL, hook.on_failure),
            |hook, text| {
                named(FailAction::ALL, text)
                    .map(|action| hook.on_failure = action)
                    .is_some()
            },
        ),
    ),
    // Not of PBS, where a hook's program has no name of its own.
    at(
        "command",
        Form::Hook(
            |hook| Some(hook.command.join(" ")).filter(|text| !text.is_empty()),
            set_command,
        ),
    ),
];

fn set_enabled(hook: &mut Hook, text: Option<&str>) -> bool {
    let value = Value::parse(Kind::Boolean, text.unwrap_or("true"));
    match value {
        Some(Value::Boolean(is_enabled)) => hook.is_enabled = is_enabled,
        _ => return false,
    }
    true
}

fn events(hook: &Hook) -> Option<String> {
    let events: Vec<&str> = hook
        .occasions
        .iter()
        .map(|occasion| occasion.name())
        .collect();
    Some(events.join(",")).filter(|text| !text.is_empty())
}

fn set_events(hook: &mut Hook, text: Option<&str>) -> bool {
    let events: Option<_> = names(text.unwrap_or_default())
        .iter()
        .map(|name| Occasion::named(name))
        .collect();
    events.map(|events| hook.occasions = events).is_some()
}

fn is_periodic(hook: &Hook) -> bool {
    hook.occasions.contains(&Occasion::ExechostPeriodic)
}

/// A program without arguments.
fn set_command(hook: &mut Hook, text: Option<&str>) -> bool {
    hook.command = text.map(str::to_string).into_iter().collect();
    text.is_none_or(|text| Path::new(text).is_absolute())
}

fn seconds(text: Option<&str>, unset: Span) -> Option<Span> {
    let Some(text) = text else { return Some(unset) };
    text.trim()
        .parse()
        .ok()
        .filter(|seconds| (1..=i64::from(i32::MAX)).contains(seconds))
        .map(Span::seconds)
}

fn name_of<T: PartialEq>(all: &[(&'static str, T)], one: T) -> Option<String> {
    all.iter()
        .find(|(_, other)| *other == one)
        .map(|(name, _)| name.to_string())
}

/// The one of this name; the first where none is said.
fn named<T: Copy>(all: &[(&'static str, T)], text: Option<&str>) -> Option<T> {
    match text {
        None => all.first().map(|(_, one)| *one),
        Some(text) => all
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, one)| *one),
    }
}
