//! Reads and sets attributes of `qmgr` in a configuration. The form of an attribute determines how.

use super::{AttributeKey, QmgrObject, limits};
use crate::config::key::KeyRow;
use crate::config::kinds::parse_not_negative;
use crate::config::sections::{HOOK, NODE, ONCE, QUEUE, QueueConfig};
use crate::config::{Config, NodeConfig};
use crate::model::hook::Hook;
use crate::model::queue::Queue;
use crate::model::refusal::Refusal;
use crate::model::resource::{Definition, ResourceList, ResourceType, ResourceValue};
use crate::model::system_resource::Pool;

/// A function that returns an attribute as text; None if not set.
type Get<T> = fn(&T) -> Option<String>;

/// A function that sets an attribute to a text, or unsets the attribute if the text is None.
/// Returns false for an invalid text.
type Put<T> = fn(&mut T, Option<&str>) -> bool;

/// How qmgr reads and sets an attribute, and where the configuration stores the value.
#[derive(Clone, Copy)]
pub(super) enum AttributeForm {
    /// A key of `lanai.toml` stores the value. The key's row lists the attribute (`Entry::pbs`).
    Key,
    /// As `Key`; the value is a list of resources.
    Amounts,
    /// A part of the configuration, accessed by these functions.
    Server(Get<Config>, Put<Config>),
    /// A part of a queue, accessed by these functions.
    Queue(Get<Queue>, Put<Queue>),
    /// A part of a hook, accessed by these functions.
    Hook(Get<Hook>, Put<Hook>),
    /// The totals of system-wide resources.
    Totals,
    /// The resources of a node.
    Available,
    /// A limit on jobs or resources.
    Limit(limits::LimitForm),
    /// A value of this type that is stored and displayed, but has no effect.
    Kept(ResourceType),
    /// Always this value. Any other value is refused.
    Always(&'static str),
    /// An attribute that only the server sets.
    ReadOnly,
    /// An attribute of PBS that Lanai lacks.
    Missing,
}

/// An attribute and its form.
pub(super) struct QmgrAttribute {
    pub name: &'static str,
    pub form: AttributeForm,
}

pub(super) const fn attribute(name: &'static str, form: AttributeForm) -> QmgrAttribute {
    QmgrAttribute { name, form }
}

impl AttributeForm {
    /// Whether the attribute is a list of resources.
    pub fn is_of_resources(self) -> bool {
        match self {
            AttributeForm::Amounts | AttributeForm::Totals | AttributeForm::Available => true,
            AttributeForm::Limit(form) => form.is_of_resources(),
            _ => false,
        }
    }
}

/// Values, each with its resource if the attribute is a list of resources.
type Values = Vec<(Option<String>, String)>;

/// All values of an attribute in a configuration.
pub(super) fn read(
    config: &mut Config,
    target: &QmgrObject,
    name: &str,
    form: AttributeForm,
) -> Values {
    match form {
        AttributeForm::Key | AttributeForm::Amounts => read_key(config, target, name),
        AttributeForm::Server(get, _) => single_value(get(config)),
        AttributeForm::Queue(get, _) => single_value(queue(config, target).and_then(get)),
        AttributeForm::Hook(get, _) => single_value(hook(config, target).and_then(get)),
        AttributeForm::Totals => totals(config),
        AttributeForm::Available => node(config, target)
            .map(|node| values_by_resource(&node.available))
            .unwrap_or_default(),
        AttributeForm::Limit(form) => limits::read(config, target, form),
        AttributeForm::Always(text) => single_value(Some(text.to_string())),
        AttributeForm::Kept(_) | AttributeForm::ReadOnly | AttributeForm::Missing => {
            let place = (target.clone(), AttributeKey::plain(name));
            single_value(config.kept.get(&place).cloned())
        }
    }
}

fn single_value(text: Option<String>) -> Values {
    text.into_iter().map(|text| (None, text)).collect()
}

fn values_by_resource(list: &ResourceList) -> Values {
    let values = list.iter();
    values
        .map(|(name, value)| (Some(name.clone()), value.to_string()))
        .collect()
}

fn read_key(config: &mut Config, target: &QmgrObject, name: &str) -> Values {
    match target {
        QmgrObject::Server | QmgrObject::Sched => read_row(config_row(name), config),
        QmgrObject::Queue(_) => match queue(config, target).cloned() {
            Some(queue) => read_row(QUEUE.attribute(name), &mut queue_row(queue)),
            None => Values::new(),
        },
        QmgrObject::Node(_) => match node(config, target).cloned() {
            Some(mut node) => read_row(NODE.attribute(name), &mut node),
            None => Values::new(),
        },
        QmgrObject::Hook(_) => match hook(config, target).cloned() {
            Some(mut hook) => read_row(HOOK.attribute(name), &mut hook),
            None => Values::new(),
        },
        QmgrObject::Resource(_) => Values::new(),
    }
}

fn read_row<T>(row: Option<&'static dyn KeyRow<T>>, object: &mut T) -> Values {
    let Some(row) = row else {
        return Values::new();
    };
    if let Some(list) = row.resources(object) {
        return values_by_resource(list);
    }
    single_value(row.shown(object))
}

/// The row that lists this attribute in a section that may occur only once, such as `[server]`.
fn config_row(name: &str) -> Option<&'static dyn KeyRow<Config>> {
    ONCE.iter().find_map(|table| table.attribute(name))
}

/// A queue as a section of the file. The priority factor is omitted, because no attribute of qmgr
/// sets it.
fn queue_row(queue: Queue) -> QueueConfig {
    QueueConfig {
        queue,
        factor: None,
    }
}

/// Sets an attribute, or unsets it if `text` is None.
pub(super) fn write(
    config: &mut Config,
    target: &QmgrObject,
    key: &AttributeKey,
    form: AttributeForm,
    text: Option<&str>,
) -> Result<(), Refusal> {
    let is_legal = match form {
        AttributeForm::Key => write_key(config, target, key, text, None),
        AttributeForm::Amounts => {
            let value = parse_value(config, key, text)?;
            write_key(config, target, key, None, Some(value))
        }
        AttributeForm::Server(_, put) => put(config, text),
        AttributeForm::Queue(_, put) => {
            queue_mut(config, target).is_some_and(|queue| put(queue, text))
        }
        AttributeForm::Hook(_, put) => hook_mut(config, target).is_some_and(|hook| put(hook, text)),
        AttributeForm::Available => {
            let value = parse_available(config, key, text)?;
            insert(&mut node_mut(config, target).available, key, value);
            true
        }
        AttributeForm::Totals => return set_total(config, key, text),
        AttributeForm::Limit(form) => return limits::write(config, target, key, form, text),
        AttributeForm::Kept(kind) => keep(config, target, key, kind, text),
        AttributeForm::Always(always) if is_same(always, text) => true,
        AttributeForm::Always(always) => return Err(always_so(key, always)),
        AttributeForm::ReadOnly => return Err(Refusal::read_only(&key.to_string())),
        AttributeForm::Missing => return Err(Refusal::unsupported(&key.attribute)),
    };
    if is_legal {
        Ok(())
    } else {
        Err(Refusal::illegal_value(""))
    }
}

/// Sets a key to `text`. If `value` is given, sets one resource of a list instead, or removes the
/// resource if the inner value is None.
fn write_key(
    config: &mut Config,
    target: &QmgrObject,
    key: &AttributeKey,
    text: Option<&str>,
    value: Option<Option<ResourceValue>>,
) -> bool {
    let name = key.attribute.as_str();
    match target {
        QmgrObject::Server | QmgrObject::Sched => {
            write_row(config_row(name), config, key, text, value)
        }
        QmgrObject::Queue(_) => {
            let Some(queue) = queue_mut(config, target) else {
                return false;
            };
            let mut row = queue_row(queue.clone());
            let is_legal = write_row(QUEUE.attribute(name), &mut row, key, text, value);
            *queue = row.queue;
            is_legal
        }
        QmgrObject::Node(_) => {
            let node = node_mut(config, target);
            write_row(NODE.attribute(name), node, key, text, value)
        }
        QmgrObject::Hook(_) => hook_mut(config, target)
            .is_some_and(|hook| write_row(HOOK.attribute(name), hook, key, text, value)),
        QmgrObject::Resource(_) => false,
    }
}

fn write_row<T>(
    row: Option<&'static dyn KeyRow<T>>,
    object: &mut T,
    key: &AttributeKey,
    text: Option<&str>,
    value: Option<Option<ResourceValue>>,
) -> bool {
    let Some(row) = row else {
        return false;
    };
    match value {
        None => row.set(object, text),
        Some(value) => match row.resources(object) {
            Some(list) => {
                insert(list, key, value);
                true
            }
            None => false,
        },
    }
}

fn is_same(always: &str, text: Option<&str>) -> bool {
    let truth = |text: &str| ResourceValue::parse(ResourceType::Boolean, text);
    text.is_none_or(|text| {
        text == always || truth(text).is_some_and(|value| Some(value) == truth(always))
    })
}

fn always_so(key: &AttributeKey, always: &str) -> Refusal {
    Refusal::unsupported(&format!("{} is always {always}", key.attribute))
}

pub(super) fn queue<'c>(config: &'c Config, target: &QmgrObject) -> Option<&'c Queue> {
    config
        .queues
        .iter()
        .find(|queue| queue.name == target.name())
}

/// The queue. Adds the default queue to the list if the file does not define it.
fn queue_mut<'c>(config: &'c mut Config, target: &QmgrObject) -> Option<&'c mut Queue> {
    let name = target.name();
    if queue(config, target).is_none() && name == config.server.default_queue {
        config.queues.push(Queue::named(name));
    }
    config.queues.iter_mut().find(|queue| queue.name == name)
}

fn hook<'c>(config: &'c Config, target: &QmgrObject) -> Option<&'c Hook> {
    config.hooks.iter().find(|hook| hook.name == target.name())
}

fn hook_mut<'c>(config: &'c mut Config, target: &QmgrObject) -> Option<&'c mut Hook> {
    let mut hooks = config.hooks.iter_mut();
    hooks.find(|hook| hook.name == target.name())
}

fn node<'c>(config: &'c Config, target: &QmgrObject) -> Option<&'c NodeConfig> {
    config.nodes.iter().find(|node| node.name == target.name())
}

fn node_mut<'c>(config: &'c mut Config, target: &QmgrObject) -> &'c mut NodeConfig {
    let place = config
        .nodes
        .iter()
        .position(|node| node.name == target.name());
    let place = place.unwrap_or_else(|| {
        config.nodes.push(NodeConfig::unlisted(target.name()));
        config.nodes.len() - 1
    });
    &mut config.nodes[place]
}

/// Stores the value of an attribute that has no effect. Returns false for an invalid text.
fn keep(
    config: &mut Config,
    target: &QmgrObject,
    key: &AttributeKey,
    kind: ResourceType,
    text: Option<&str>,
) -> bool {
    let place = (target.clone(), key.clone());
    match text.map(|text| ResourceValue::parse(kind, text)) {
        None => drop(config.kept.remove(&place)),
        Some(None) => return false,
        Some(Some(value)) => drop(config.kept.insert(place, value.to_string())),
    }
    true
}

pub(super) fn definition(config: &Config, key: &AttributeKey) -> Result<Definition, Refusal> {
    let name = key.resource.as_deref().unwrap_or_default();
    let unknown = || Refusal::unknown_resource_of(&key.attribute, name);
    config.resources().get(name).cloned().ok_or_else(unknown)
}

/// Parses the value of one resource of a list. Returns an error for an unknown resource, and for an
/// invalid or negative value.
fn parse_value(
    config: &Config,
    key: &AttributeKey,
    text: Option<&str>,
) -> Result<Option<ResourceValue>, Refusal> {
    let kind = definition(config, key)?.kind;
    let illegal = || Refusal::illegal_value(&key.to_string());
    text.map(|text| parse_not_negative(kind, text).ok_or_else(illegal))
        .transpose()
}

/// Parses the value of a resource of a node. Refuses resources that are not host-level, and `host`,
/// `vnode` and `arch`.
fn parse_available(
    config: &Config,
    key: &AttributeKey,
    text: Option<&str>,
) -> Result<Option<ResourceValue>, Refusal> {
    let definition = definition(config, key)?;
    let own = ["host", "vnode", "arch"];
    if !definition.host_level || own.contains(&key.resource.as_deref().unwrap_or_default()) {
        Err(Refusal::read_only(&key.to_string()))
    } else {
        parse_value(config, key, text)
    }
}

/// Sets one resource of a list, or removes the resource if `value` is None.
fn insert(list: &mut ResourceList, key: &AttributeKey, value: Option<ResourceValue>) {
    let name = key.resource.clone().unwrap_or_default();
    match value {
        Some(value) => drop(list.insert(name, value)),
        None => drop(list.remove(&name)),
    }
}

fn totals(config: &Config) -> Vec<(Option<String>, String)> {
    let resources = config.resources();
    let kind = |name: &str| {
        resources
            .get(name)
            .map_or(ResourceType::Long, |definition| definition.kind)
    };
    let text = |(name, pool): &(String, Pool)| {
        (
            Some(name.clone()),
            limits::amount_text(kind(name), pool.total),
        )
    };
    config.pools.iter().map(text).collect()
}

/// Sets the total of a system-wide resource (Q21), to 0 if `text` is None.
fn set_total(config: &mut Config, key: &AttributeKey, text: Option<&str>) -> Result<(), Refusal> {
    let definition = definition(config, key)?;
    if definition.host_level || !definition.consumable {
        return Err(Refusal::unsupported(&format!(
            "{key}: only system-wide consumable resources (flag q) have a total on the server"
        )));
    }
    let total = parse_value(config, key, text)?
        .and_then(|value| value.amount())
        .unwrap_or(0);
    let name = key.resource.clone().unwrap_or_default();
    match config.pools.iter_mut().find(|(known, _)| *known == name) {
        Some((_, pool)) => pool.total = total,
        None => config.pools.push((
            name,
            Pool {
                total,
                ..Pool::default()
            },
        )),
    }
    Ok(())
}
