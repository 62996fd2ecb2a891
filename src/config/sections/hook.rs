//! `[[hook]]`: programs of the site that run at certain events and may refuse or change jobs.

use super::node::is_host_name;
use crate::config::key::{Key, Table};
use crate::config::kinds::{
    A_SECOND_OR_MORE, BOOLEAN, Custom, Kind, OneOf, Scalar, TEXT, WholeNumber, custom, list,
    one_of, scalar, whole,
};
use crate::model::hook::{FailAction, Hook, HookEvent, RunsAs};
use std::collections::BTreeSet;
use std::path::Path;
use toml::Value;
use toml::de::DeValue;

const NAME: Scalar<String> = scalar("a name: letters, digits, `-`, `_` and `.`", |name| {
    is_host_name(name)
});
const EVENTS: Custom<BTreeSet<HookEvent>> = Custom {
    wanted: || format!("{}, or a list of these", one_of(HookEvent::ALL)),
    read: read_events,
    write: |events| {
        let names = events.iter().map(|event| event.name().into());
        Some(names.collect::<Vec<Value>>().into())
    },
    parse: |text| {
        let names = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        names.map(HookEvent::named).collect()
    },
    show: |events| {
        let names: Vec<&str> = events.iter().map(|event| event.name()).collect();
        Some(names.join(",")).filter(|text| !text.is_empty())
    },
};
/// The kind for the absolute path of a program with its arguments.
pub const COMMAND: Custom<Vec<String>> = custom(
    || "the absolute path of a program, alone or in a list with its arguments".to_string(),
    read_command,
    |command| Some(command.clone().into()),
);
const ORDER: WholeNumber<u16> = whole("a whole number from 1 to 1000", |order| {
    (1..=1000).contains(order)
});

const fn key<K: Kind>(
    name: &'static str,
    kind: K,
    field: fn(&mut Hook) -> &mut K::Value,
) -> Key<Hook, K> {
    Key::new(name, kind, field)
}

/// `[[hook]]`.
pub static HOOK: Table<Hook> = Table::new(
    "hook",
    &[
        &key("name", NAME, |h| &mut h.name)
            .required()
            .text("The name of the hook.")
            .example("\"accounts\""),
        &key("event", EVENTS, |h| &mut h.occasions)
            .required()
            .pbs(&["event"])
            .unset("")
            .text("The events that run the hook, one or a list.")
            .example("[\"queuejob\", \"modifyjob\"]"),
        &key("command", COMMAND, |h| &mut h.command)
            .required()
            .pbs(&["command"])
            .text("The absolute path of the program, alone or in a list with its arguments.")
            .example("[\"/etc/lanai/hooks/accounts\", \"--strict\"]"),
        &key("enabled", BOOLEAN, |h| &mut h.is_enabled)
            .pbs(&["enabled"])
            .unset("True")
            .text("Whether the hook runs."),
        &key("order", ORDER, |h| &mut h.order)
            .pbs(&["order"])
            .unset("1")
            .text(
                "The hook's place among the hooks of an event, 1 to 1000; the lowest runs first.",
            ),
        &key("alarm", A_SECOND_OR_MORE, |h| &mut h.alarm)
            .pbs(&["alarm"])
            .unset("30")
            .text("The longest run time of the hook, at least a second."),
        &key("freq", A_SECOND_OR_MORE, |h| &mut h.every)
            .pbs(&["freq"])
            .unset("120")
            .text("The interval between two runs for exechost_periodic, at least a second."),
        &key("user", OneOf(RunsAs::ALL), |h| &mut h.runs_as)
            .pbs(&["user"])
            .unset("pbsadmin")
            .text(
                "The user that runs a hook on nodes: \"pbsadmin\" (noded's user) or \"pbsuser\" \
                 (the job's owner); hooks for exechost_periodic always run as noded's user.",
            ),
        &key("fail_action", OneOf(FailAction::ALL), |h| &mut h.on_failure)
            .pbs(&["fail_action"])
            .unset("none")
            .text(
                "What happens if a hook fails on a node: \"none\", or \"offline_vnodes\" to set \
                 all nodes of the host offline.",
            ),
    ],
);

fn read_events(value: &DeValue) -> Option<BTreeSet<HookEvent>> {
    let one = |value: &DeValue| HookEvent::named(value.as_str()?);
    let Some(list) = value.as_array() else {
        return Some([one(value)?].into());
    };
    let all: Option<BTreeSet<HookEvent>> = list.iter().map(|item| one(item.get_ref())).collect();
    all.filter(|all| !all.is_empty())
}

fn read_command(value: &DeValue) -> Option<Vec<String>> {
    let words = match value.as_str() {
        Some(word) => vec![word.to_string()],
        None => list(TEXT, "").read(value)?,
    };
    let is_absolute = Path::new(words.first()?).is_absolute();
    let has_nul = words.iter().any(|word| word.contains('\0'));
    (is_absolute && !has_nul).then_some(words)
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::model::hook::{Hook, HookEvent};
    use crate::model::time::Span;

    #[test]
    fn events_and_commands_of_hooks_are_read() {
        let text = "[[hook]]\nname = \"a\"\nevent = [\"queuejob\", \"modifyjob\"]\n\
                    command = [\"/bin/a\", \"-x\"]\n\
                    [[hook]]\nname = \"b\"\nevent = \"exechost_periodic\"\n\
                    command = \"/bin/b\"\nfreq = \"10m\"\norder = 7\n";
        let hooks = Config::parse(text).unwrap().hooks;
        assert_eq!(
            hooks[0].occasions,
            [HookEvent::QueueJob, HookEvent::ModifyJob].into()
        );
        assert_eq!(hooks[0].command, ["/bin/a", "-x"]);
        assert_eq!(
            (hooks[0].order, hooks[0].alarm, hooks[0].is_enabled),
            (Hook::ORDER, Hook::ALARM, true)
        );
        assert_eq!((hooks[1].order, hooks[1].every), (7, Span::seconds(600)));
    }

    #[test]
    fn invalid_hooks_are_refused() {
        for (wrong, named) in [
            ("event = \"queue\"\ncommand = \"/bin/a\"", "queuejob"),
            ("event = []\ncommand = \"/bin/a\"", "event"),
            ("event = \"queuejob\"\ncommand = \"a\"", "absolute"),
            ("event = \"queuejob\"\ncommand = []", "command"),
            ("event = \"queuejob\"", "command"),
            (
                "event = \"queuejob\"\ncommand = \"/bin/a\"\norder = 0",
                "order",
            ),
            (
                "event = \"queuejob\"\ncommand = \"/bin/a\"\nalarm = \"0s\"",
                "alarm",
            ),
        ] {
            let error = Config::parse(&format!("[[hook]]\nname = \"a\"\n{wrong}\n"))
                .unwrap_err()
                .to_string();
            assert!(error.contains(named), "{wrong}: {error}");
        }
    }
}
