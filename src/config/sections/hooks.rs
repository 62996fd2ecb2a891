//! `[[hook]]`: programs of the site that are asked when something is about to happen.

use super::{A_SECOND_OR_MORE, BOOLEAN, boolean, by_name, keys, one_of, span_from_a_second, whole};
use crate::config::ConfigError;
use crate::config::document::Section;
use crate::model::hook::{FailAction, Hook, Occasion, RunsAs};
use std::collections::BTreeSet;
use std::path::Path;
use toml::de::DeValue;

const NAME: &str = "a name: letters, digits, `-`, `_` and `.`";
pub(super) const COMMAND: &str =
    "the absolute path of a program, alone or in a list with its arguments";

/// One `[[hook]]`.
pub fn hook(section: &Section) -> Result<Hook, ConfigError> {
    section.only(keys("hook"))?;
    let events = format!("{}, one or a list of these", one_of(Occasion::ALL));
    let order = section.read("order", "a whole number from 1 to 1000", |v| {
        whole(v).filter(|n| (1..=1000).contains(n))
    })?;
    let runs_as = section.read("user", &one_of(RunsAs::ALL), named(RunsAs::ALL))?;
    let on_failure = section.read(
        "fail_action",
        &one_of(FailAction::ALL),
        named(FailAction::ALL),
    )?;
    Ok(Hook {
        name: section.require("name", NAME, super::host_name)?,
        occasions: section.require("event", &events, occasions)?,
        command: section.require("command", COMMAND, command)?,
        is_enabled: section.read("enabled", BOOLEAN, boolean)?.unwrap_or(true),
        order: order.unwrap_or(Hook::ORDER),
        alarm: section
            .read("alarm", A_SECOND_OR_MORE, span_from_a_second)?
            .unwrap_or(Hook::ALARM),
        every: section
            .read("freq", A_SECOND_OR_MORE, span_from_a_second)?
            .unwrap_or(Hook::EVERY),
        runs_as: runs_as.unwrap_or_default(),
        on_failure: on_failure.unwrap_or_default(),
    })
}

fn named<T: Copy>(all: &'static [(&'static str, T)]) -> impl Fn(&DeValue) -> Option<T> {
    move |value| {
        all.iter()
            .find(|(name, _)| Some(*name) == value.as_str())
            .map(|(_, one)| *one)
    }
}

fn occasions(value: &DeValue) -> Option<BTreeSet<Occasion>> {
    let one = by_name(Occasion::named);
    let all: BTreeSet<Occasion> = match value.as_array() {
        Some(list) => list
            .iter()
            .map(|item| one(item.get_ref()))
            .collect::<Option<_>>()?,
        None => [one(value)?].into(),
    };
    Some(all).filter(|all| !all.is_empty())
}

pub(super) fn command(value: &DeValue) -> Option<Vec<String>> {
    let words: Vec<String> = match value.as_array() {
        Some(list) => list
            .iter()
            .map(|item| super::text(item.get_ref()))
            .collect::<Option<_>>()?,
        None => vec![super::text(value)?],
    };
    let can_be_run = |words: &Vec<String>| {
        words
            .first()
            .is_some_and(|program| Path::new(program).is_absolute())
    };
    Some(words)
        .filter(can_be_run)
        .filter(|words| words.iter().all(|word| !word.contains('\0')))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::model::hook::{Hook, Occasion};
    use crate::model::time::Span;

    #[test]
    fn a_hook_says_when_it_is_asked_and_what_is_run() {
        let text = "[[hook]]\nname = \"a\"\nevent = [\"queuejob\", \"modifyjob\"]\ncommand = [\"/bin/a\", \"-x\"]\n\
                    [[hook]]\nname = \"b\"\nevent = \"exechost_periodic\"\ncommand = \"/bin/b\"\nfreq = \"10m\"\norder = 7\n";
        let hooks = Config::parse(text).unwrap().hooks;
        assert_eq!(
            hooks[0].occasions,
            [Occasion::QueueJob, Occasion::ModifyJob].into()
        );
        assert_eq!(hooks[0].command, ["/bin/a", "-x"]);
        assert_eq!(
            (hooks[0].order, hooks[0].alarm, hooks[0].is_enabled),
            (Hook::ORDER, Hook::ALARM, true)
        );
        assert_eq!((hooks[1].order, hooks[1].every), (7, Span::seconds(600)));
    }

    #[test]
    fn what_cannot_be_a_hook_is_refused_with_its_line() {
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
