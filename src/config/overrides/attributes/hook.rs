//! A hook's attributes.

use super::{Attribute, Form, at};
use crate::config::sections::HOOK as HOOK_KEYS;
use crate::model::hook::{Hook, Occasion};
use std::path::Path;

pub(super) const HOOK: &[Attribute] = &[
    at("type", Form::Always("site")),
    at(
        "enabled",
        Form::Hook(
            |hook| Some(hook.is_enabled.to_string()),
            |hook, text| set("enabled", hook, text),
        ),
    ),
    at("event", Form::Key),
    at("user", Form::Key),
    at("alarm", Form::Key),
    at(
        "freq",
        Form::Hook(
            |hook| Some(hook.every.as_seconds().to_string()).filter(|_| is_periodic(hook)),
            |hook, text| set("freq", hook, text),
        ),
    ),
    at("order", Form::Key),
    at("debug", Form::Always("false")),
    at("fail_action", Form::Key),
    // Not of PBS, where a hook's program has no name of its own.
    at(
        "command",
        Form::Hook(
            |hook| Some(hook.command.join(" ")).filter(|text| !text.is_empty()),
            set_command,
        ),
    ),
];

fn is_periodic(hook: &Hook) -> bool {
    hook.occasions.contains(&Occasion::ExechostPeriodic)
}

/// A program without arguments.
fn set_command(hook: &mut Hook, text: Option<&str>) -> bool {
    hook.command = text.map(str::to_string).into_iter().collect();
    text.is_none_or(|text| Path::new(text).is_absolute())
}

fn set(name: &str, hook: &mut Hook, text: Option<&str>) -> bool {
    let row = HOOK_KEYS.attribute(name);
    row.is_some_and(|row| row.set(hook, text))
}
