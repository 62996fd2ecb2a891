//! Resources that `qmgr` creates. Converts PBS's types and flags to definitions, and back.

use super::{AttributeKey, QmgrObject};
use crate::config::Config;
use crate::model::refusal::Refusal;
use crate::model::resource::{Definition, ResourceType, Resources};

const TYPE: &str = "type";
const FLAG: &str = "flag";

/// PBS's names of types. A string array is stored as a string.
const TYPES: [(&str, ResourceType); 7] = [
    ("long", ResourceType::Long),
    ("float", ResourceType::Float),
    ("boolean", ResourceType::Boolean),
    ("size", ResourceType::Size),
    ("string", ResourceType::String),
    ("string_array", ResourceType::String),
    ("time", ResourceType::Time),
];

/// PBS's flags: `h` marks a resource of hosts, `n`, `f` and `q` mark a consumable resource, `i` and
/// `r` mark a resource that users cannot request. `m` has no effect.
const FLAGS: &str = "hnfqirm";

/// The name, type and flags of a resource that is built into Lanai, but that sites with PBS create.
/// The command that creates this resource is accepted.
const GPUS: (&str, &str, &str) = ("ngpus", "long", "hn");

/// Defines a new resource: a string, or `ngpus` with its built-in type and flags.
pub(super) fn create(config: &mut Config, name: &str) {
    if name == GPUS.0 {
        config
            .resources
            .push((name.to_string(), definition_of(GPUS.1, GPUS.2)));
        keep(config, name, TYPE, GPUS.1);
        return keep(config, name, FLAG, GPUS.2);
    }
    config
        .resources
        .push((name.to_string(), definition_of("string", "")));
    keep(config, name, TYPE, "string");
}

/// Sets the type or the flags of a resource. If `text` is None, sets the type `string`, or no
/// flags; `ngpus` then stays unchanged.
pub(super) fn write(
    config: &mut Config,
    name: &str,
    key: &AttributeKey,
    text: Option<&str>,
) -> Result<(), Refusal> {
    let illegal = || Refusal::illegal_value("");
    let (mut kind, mut flags) = (displayed(config, name, TYPE), displayed(config, name, FLAG));
    match key.attribute.as_str() {
        TYPE => kind = text.unwrap_or("string").to_string(),
        _ => flags = text.unwrap_or_default().to_string(),
    }
    let is_known = TYPES.iter().any(|(known, _)| *known == kind)
        && flags.chars().all(|flag| FLAGS.contains(flag));
    let differs_from_gpus =
        name == GPUS.0 && (kind != GPUS.1 || !GPUS.2.chars().all(|flag| flags.contains(flag)));
    if !is_known || (differs_from_gpus && text.is_some()) {
        return Err(illegal());
    }
    if differs_from_gpus {
        return Ok(());
    }
    let Some((_, definition)) = config.resources.iter_mut().find(|(known, _)| known == name) else {
        return Err(Refusal::no_resource());
    };
    *definition = definition_of(&kind, &flags);
    // The flags are always displayed in the order of `FLAGS`.
    let flags: String = FLAGS.chars().filter(|flag| flags.contains(*flag)).collect();
    keep(config, name, TYPE, &kind);
    keep(config, name, FLAG, &flags);
    Ok(())
}

/// The definition for PBS's type and flags. Only numbers and sizes can be consumable.
fn definition_of(kind: &str, flags: &str) -> Definition {
    let kind = TYPES
        .iter()
        .find(|(name, _)| *name == kind)
        .map_or(ResourceType::String, |(_, kind)| *kind);
    let is_counted = flags.contains(['n', 'f', 'q'])
        && matches!(
            kind,
            ResourceType::Long | ResourceType::Size | ResourceType::Float
        );
    let host_level = flags.contains('h');
    Definition {
        kind,
        host_level,
        consumable: is_counted,
        requestable: !flags.contains(['i', 'r']),
    }
}

fn keep(config: &mut Config, name: &str, what: &str, text: &str) {
    let place = (
        QmgrObject::Resource(name.to_string()),
        AttributeKey::plain(what),
    );
    config.kept.insert(place, text.to_string());
}

/// The type and the flags of a site's resource, in PBS's terms.
pub(super) fn described(config: &Config, name: &str) -> [(&'static str, String); 2] {
    [
        (TYPE, displayed(config, name, TYPE)),
        (FLAG, displayed(config, name, FLAG)),
    ]
}

/// The type or the flags of a resource, as set with qmgr; otherwise the definition of the file in
/// PBS's terms. `what` is [`TYPE`] or [`FLAG`].
fn displayed(config: &Config, name: &str, what: &str) -> String {
    let kept = config.kept.get(&(
        QmgrObject::Resource(name.to_string()),
        AttributeKey::plain(what),
    ));
    let definition = config
        .resources
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, definition)| definition);
    kept.cloned()
        .or_else(|| definition.map(|definition| in_pbs_terms(definition, what)))
        .unwrap_or_default()
}

fn in_pbs_terms(definition: &Definition, what: &str) -> String {
    let kind = TYPES
        .iter()
        .find(|(_, kind)| *kind == definition.kind)
        .map_or("string", |(name, _)| name);
    let flags = if !definition.consumable {
        if definition.host_level { "h" } else { "" }
    } else if definition.host_level {
        "hn"
    } else {
        "q"
    };
    if what == TYPE {
        kind.to_string()
    } else {
        flags.to_string()
    }
}

/// Whether a resource is built in and cannot be created.
pub(super) fn is_builtin(name: &str) -> bool {
    name != GPUS.0 && Resources::builtin().get(name).is_some()
}
