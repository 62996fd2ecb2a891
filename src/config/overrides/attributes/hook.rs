//! The attributes of hooks.

use crate::config::overrides::forms::{AttributeForm, QmgrAttribute, attribute};
use crate::config::sections::HOOK as HOOK_KEYS;
use crate::model::hook::{Hook, HookEvent};
use std::path::Path;

pub(super) const HOOK: &[QmgrAttribute] = &[
    attribute("type", AttributeForm::Always("site")),
    attribute(
        "enabled",
        AttributeForm::Hook(
            |hook| Some(hook.is_enabled.to_string()),
            |hook, text| set("enabled", hook, text),
        ),
    ),
    attribute("event", AttributeForm::Key),
    attribute("user", AttributeForm::Key),
    attribute("alarm", AttributeForm::Key),
    attribute(
        "freq",
        AttributeForm::Hook(
            |hook| is_periodic(hook).then(|| hook.every.as_seconds().to_string()),
            |hook, text| set("freq", hook, text),
        ),
    ),
    attribute("order", AttributeForm::Key),
    attribute("debug", AttributeForm::Always("false")),
    attribute("fail_action", AttributeForm::Key),
    // PBS has no attribute `command`, because the hooks of PBS contain their programs.
    attribute(
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

/// Sets a program without arguments, or unsets the program if `text` is None. Returns false if the
/// path is not absolute.
fn set_command(hook: &mut Hook, text: Option<&str>) -> bool {
    hook.command = text.map(str::to_string).into_iter().collect();
    text.is_none_or(|text| Path::new(text).is_absolute())
}

fn set(name: &str, hook: &mut Hook, text: Option<&str>) -> bool {
    let row = HOOK_KEYS.attribute(name);
    row.is_some_and(|row| row.set(hook, text))
}
