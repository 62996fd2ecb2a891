//! A hook's attributes.

use crate::config::overrides::forms::{AttributeForm, QmgrAttribute, at};
use crate::config::sections::HOOK as HOOK_KEYS;
use crate::model::hook::{Hook, HookEvent};
use std::path::Path;

pub(super) const HOOK: &[QmgrAttribute] = &[
    at("type", AttributeForm::Always("site")),
    at(
        "enabled",
        AttributeForm::Hook(
            |hook| Some(hook.is_enabled.to_string()),
            |hook, text| set("enabled", hook, text),
        ),
    ),
    at("event", AttributeForm::Key),
    at("user", AttributeForm::Key),
    at("alarm", AttributeForm::Key),
    at(
        "freq",
        AttributeForm::Hook(
            |hook| is_periodic(hook).then(|| hook.every.as_seconds().to_string()),
            |hook, text| set("freq", hook, text),
        ),
    ),
    at("order", AttributeForm::Key),
    at("debug", AttributeForm::Always("false")),
    at("fail_action", AttributeForm::Key),
    // PBS lacks it: there a hook's program has no path.
    at(
        "command",
        AttributeForm::Hook(
            |hook| Some(hook.command.join(" ")).filter(|text| !text.is_empty()),
            set_command,
        ),
    ),
];

fn is_periodic(hook: &Hook) -> bool {
    hook.occasions.contains(&HookEvent::ExechostPeriodic)
}

/// Sets a program without arguments.
fn set_command(hook: &mut Hook, text: Option<&str>) -> bool {
    hook.command = text.map(str::to_string).into_iter().collect();
    text.is_none_or(|text| Path::new(text).is_absolute())
}

fn set(name: &str, hook: &mut Hook, text: Option<&str>) -> bool {
    let row = HOOK_KEYS.attribute(name);
    row.is_some_and(|row| row.set(hook, text))
}
