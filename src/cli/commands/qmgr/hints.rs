//! Hints for commands of qmgr that fail: the wrong word, its place, and the accepted form.

use super::grammar::ObjectKind;
use crate::config::Config;
use crate::config::overrides::attributes::{known, names};
use crate::config::overrides::command::{Edit, Op, QmgrCommand, Verb};
use crate::config::overrides::{AttributeKey, QmgrObject, QmgrOverrides};
use crate::model::attribute::remedy;
use crate::model::refusal::Refusal;
use crate::model::spelling::choice;

/// A hint for a refused command; None if PBS's message is complete.
pub(super) fn of_refusal(refusal: &Refusal, command: &QmgrCommand) -> Option<String> {
    let target = &command.target;
    if !refusal.remedy.is_empty() {
        return Some(refusal.remedy.clone());
    }
    if *refusal == Refusal::undefined_attribute() {
        let edit = command
            .edits
            .iter()
            .find(|edit| !is_known(target, &edit.key))?;
        return Some(unknown_attribute(target, &edit.key));
    }
    let is_illegal = refusal.code == Refusal::illegal_value("").code;
    let is_bare = *refusal == Refusal::illegal_value(&refusal.setting);
    let [edit] = &command.edits[..] else {
        return None;
    };
    if !is_illegal || !is_bare {
        return None;
    }
    let (key, given) = (&edit.key, remedy::shown(&edit.value));
    if known(target, &key.attribute).is_some_and(|known| known.is_limit) {
        return Some(limit_form(key, &edit.value));
    }
    let (form, example) = accepted_form(target, key)?;
    Some(format!(
        "{key}={given}: use {form}, for example {key}={example}"
    ))
}

/// A hint for a syntax error in a command; None if there is nothing to add to PBS's mark.
pub(super) fn of_syntax_error(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let object = match words.get(1)?.to_ascii_lowercase().as_str() {
        word if "server".starts_with(word) => ObjectKind::Server,
        word if "queue".starts_with(word) => ObjectKind::Queue,
        _ => return None,
    };
    let target = object.target("");
    let (before, value) = text.split_once('=')?;
    let name = before
        .trim_end_matches(['+', '-', ' '])
        .rsplit(' ')
        .next()?;
    let (attribute, resource) = match name.split_once('.') {
        Some((attribute, resource)) => (attribute, Some(resource.to_string())),
        None => (name, None),
    };
    let key = AttributeKey {
        attribute: attribute.to_string(),
        resource,
    };
    match known(&target, attribute) {
        None => Some(unknown_attribute(&target, &key)),
        Some(known) if known.is_limit => Some(limit_form(&key, value.trim())),
        Some(_) => None,
    }
}

fn is_known(target: &QmgrObject, key: &AttributeKey) -> bool {
    let known = known(target, &key.attribute);
    known.is_some_and(|known| known.of_resources || key.resource.is_none())
}

fn unknown_attribute(target: &QmgrObject, key: &AttributeKey) -> String {
    if known(target, &key.attribute).is_some() {
        return format!("{key}: {} has no resources", key.attribute);
    }
    let names = names(target);
    format!(
        "{}: {}",
        key.attribute,
        choice(&key.attribute, "attributes", &names)
    )
}

/// The form of a limit.
fn limit_form(key: &AttributeKey, value: &str) -> String {
    let number: String = value.chars().filter(char::is_ascii_digit).collect();
    let number = if number.is_empty() { "5" } else { &number };
    format!(
        "{key}={}: a limit names the users, groups or projects, for example \
         {key}=[u:PBS_GENERIC={number}] for each user, or {key}=[o:PBS_ALL={number}] for all jobs \
         together",
        remedy::shown(value)
    )
}

/// A legal value of each kind, with the description of the kind. The values of a kind are illegal
/// for the kinds that follow.
const KINDS: [(&str, &str); 4] = [
    ("01:00:00", "a time HH:MM:SS"),
    ("1gb", "a size"),
    ("True", "True or False"),
    ("5", "a whole number"),
];

/// The form and an example of the values of an attribute; None if its values have no common form.
fn accepted_form(target: &QmgrObject, key: &AttributeKey) -> Option<(&'static str, &'static str)> {
    if accepts(target, key, "any text") {
        return None;
    }
    let (example, form) = KINDS
        .iter()
        .find(|(example, _)| accepts(target, key, example))?;
    Some((form, example))
}

/// Whether an attribute of a new object accepts this value.
fn accepts(target: &QmgrObject, key: &AttributeKey, value: &str) -> bool {
    let file = Config::default();
    let command = |verb, edits| QmgrCommand {
        verb,
        target: target.clone(),
        edits,
    };
    let set = Edit {
        key: key.clone(),
        op: Op::Set,
        value: value.to_string(),
    };
    let none = QmgrOverrides::default();
    let created = none.with(&command(Verb::Create, Vec::new()), &file);
    created
        .unwrap_or(none)
        .with(&command(Verb::Set, vec![set]), &file)
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(refusal: Refusal, target: QmgrObject, name: &str, value: &str) -> Option<String> {
        let edit = Edit {
            key: AttributeKey::plain(name),
            op: Op::Set,
            value: value.to_string(),
        };
        let command = QmgrCommand {
            verb: Verb::Set,
            target,
            edits: vec![edit],
        };
        of_refusal(&refusal, &command)
    }

    #[test]
    fn unknown_attributes_get_the_nearest_name() {
        let queue = QmgrObject::Queue("workq".into());
        let hint = hint(Refusal::undefined_attribute(), queue, "enabeld", "true").unwrap();
        let start = "enabeld: the nearest known name is enabled; some of the ";
        assert!(hint.starts_with(start), "{hint}");
    }

    #[test]
    fn illegal_values_get_the_accepted_form() {
        let queue = || QmgrObject::Queue("workq".into());
        let illegal = || Refusal::illegal_value("");
        for (name, value, expected) in [
            (
                "enabled",
                "maybe",
                Some("enabled=maybe: use True or False, for example enabled=True"),
            ),
            (
                "Priority",
                "high",
                Some("Priority=high: use a whole number, for example Priority=5"),
            ),
        ] {
            assert_eq!(hint(illegal(), queue(), name, value).as_deref(), expected);
        }
        let limit = hint(illegal(), queue(), "max_run", "x").unwrap();
        assert!(limit.contains("max_run=[u:PBS_GENERIC=5]"), "{limit}");
    }

    #[test]
    fn syntax_errors_name_the_form_of_limits() {
        let hint = of_syntax_error("set server max_run = 7").unwrap();
        assert!(hint.contains("max_run=[u:PBS_GENERIC=7]"), "{hint}");
        let hint = of_syntax_error("set server schedulng=true").unwrap();
        assert!(hint.contains("nearest known name is scheduling"), "{hint}");
        assert_eq!(of_syntax_error("set queue"), None);
        assert_eq!(of_syntax_error("set queue q enabled"), None);
    }
}
