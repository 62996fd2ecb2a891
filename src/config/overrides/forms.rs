//! How attributes of `qmgr` are kept in a configuration: what each form of them reads and writes.

use super::{AttributeKey, QmgrObject, limits};
use crate::config::{Config, NodeConfig};
use crate::model::hook::Hook;
use crate::model::queue::Queue;
use crate::model::refusal::Refusal;
use crate::model::resource::{Definition, Kind, ResourceList, Value};
use crate::model::system_resource::Pool;

/// What an attribute is as a text; None when it is not set.
type Get<T> = fn(&T) -> Option<String>;

/// Sets it, or with None unsets it; false for a value that it cannot have.
type Put<T> = fn(&mut T, Option<&str>) -> bool;

type List<T> = fn(&T) -> &ResourceList;

type ListMut<T> = fn(&mut T) -> &mut ResourceList;

/// Where an attribute stands in a configuration.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// With the server.
    Server(Get<Config>, Put<Config>),
    /// A list of resources there.
    ServerAmounts(List<Config>, ListMut<Config>),
    /// What the whole system has of a resource.
    Totals,
    /// With a queue.
    Queue(Get<Queue>, Put<Queue>),
    /// A list of resources there.
    QueueAmounts(List<Queue>, ListMut<Queue>),
    /// With a node.
    Node(Get<NodeConfig>, Put<NodeConfig>),
    /// With a hook.
    Hook(Get<Hook>, Put<Hook>),
    /// What a node has.
    Available,
    /// A limit: of jobs, or of resources.
    Limit(limits::Form),
    /// Kept and shown, and nothing else.
    Kept(Kind),
    /// Always this, which may be said.
    Always(&'static str),
    /// Told by the server alone.
    ReadOnly,
    /// PBS has it, Lanai has not.
    Missing,
}

impl Form {
    /// Whether it is a list of resources.
    pub fn is_of_resources(self) -> bool {
        match self {
            Form::ServerAmounts(..) | Form::QueueAmounts(..) | Form::Totals | Form::Available => {
                true
            }
            Form::Limit(form) => form.is_of_resources(),
            _ => false,
        }
    }
}

/// All values of an attribute in a configuration, each with its resource if it is a list of them.
pub(super) fn read(
    config: &Config,
    target: &QmgrObject,
    name: &str,
    form: Form,
) -> Vec<(Option<String>, String)> {
    let one = |text: Option<String>| text.into_iter().map(|text| (None, text)).collect();
    let list = |list: &ResourceList| {
        list.iter()
            .map(|(name, value)| (Some(name.clone()), value.to_string()))
            .collect()
    };
    match form {
        Form::Server(get, _) => one(get(config)),
        Form::ServerAmounts(of, _) => list(of(config)),
        Form::Totals => totals(config),
        Form::Queue(get, _) => one(queue(config, target).and_then(get)),
        Form::QueueAmounts(of, _) => queue(config, target).map(of).map(list).unwrap_or_default(),
        Form::Node(get, _) => one(node(config, target).and_then(get)),
        Form::Hook(get, _) => one(hook(config, target).and_then(get)),
        Form::Available => node(config, target)
            .map(|node| list(&node.available))
            .unwrap_or_default(),
        Form::Limit(form) => limits::read(config, target, form),
        Form::Always(text) => one(Some(text.to_string())),
        Form::Kept(_) | Form::ReadOnly | Form::Missing => one(config
            .kept
            .get(&(target.clone(), AttributeKey::plain(name)))
            .cloned()),
    }
}

/// Sets an attribute, or with None unsets it.
pub(super) fn write(
    config: &mut Config,
    target: &QmgrObject,
    key: &AttributeKey,
    form: Form,
    text: Option<&str>,
) -> Result<(), Refusal> {
    let illegal = || Refusal::illegal_value("");
    let good = match form {
        Form::Server(_, put) => put(config, text),
        Form::Queue(_, put) => queue_mut(config, target).is_some_and(|queue| put(queue, text)),
        Form::Node(_, put) => put(node_mut(config, target), text),
        Form::Hook(_, put) => config
            .hooks
            .iter_mut()
            .find(|hook| hook.name == target.name())
            .is_some_and(|hook| put(hook, text)),
        Form::ServerAmounts(_, of) => {
            let value = resource(config, key, text)?;
            insert(of(config), key, value)
        }
        Form::QueueAmounts(_, of) => {
            let value = resource(config, key, text)?;
            queue_mut(config, target).is_some_and(|queue| insert(of(queue), key, value))
        }
        Form::Available => {
            let value = available(config, key, text)?;
            insert(&mut node_mut(config, target).available, key, value)
        }
        Form::Totals => return set_total(config, key, text),
        Form::Limit(form) => return limits::write(config, target, key, form, text),
        Form::Kept(kind) => keep(config, target, key, kind, text),
        Form::Always(always) => {
            return if is_same(always, text) {
                Ok(())
            } else {
                Err(always_so(key, always))
            };
        }
        Form::ReadOnly => return Err(Refusal::read_only(&key.to_string())),
        Form::Missing => return Err(Refusal::unsupported(&key.attribute)),
    };
    if good { Ok(()) } else { Err(illegal()) }
}

fn is_same(always: &str, text: Option<&str>) -> bool {
    let truth = |text: &str| Value::parse(Kind::Boolean, text);
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

/// The queue, made where it is there without being spoken of: the default one.
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

fn keep(
    config: &mut Config,
    target: &QmgrObject,
    key: &AttributeKey,
    kind: Kind,
    text: Option<&str>,
) -> bool {
    let place = (target.clone(), key.clone());
    match text.map(|text| Value::parse(kind, text)) {
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

/// The value of a resource in a list; nothing below zero.
fn resource(
    config: &Config,
    key: &AttributeKey,
    text: Option<&str>,
) -> Result<Option<Value>, Refusal> {
    let kind = definition(config, key)?.kind;
    let illegal = || Refusal::illegal_value(&key.to_string());
    text.map(|text| value(kind, text).ok_or_else(illegal))
        .transpose()
}

/// A value of nothing below zero.
pub(super) fn value(kind: Kind, text: &str) -> Option<Value> {
    Value::parse(kind, text).filter(|value| match value {
        Value::Long(number) => *number >= 0,
        Value::Float(number) => *number >= 0.0,
        _ => true,
    })
}

fn available(
    config: &Config,
    key: &AttributeKey,
    text: Option<&str>,
) -> Result<Option<Value>, Refusal> {
    let definition = definition(config, key)?;
    let own = ["host", "vnode", "arch"];
    match !definition.host_level || own.contains(&key.resource.as_deref().unwrap_or_default()) {
        true => Err(Refusal::read_only(&key.to_string())),
        false => resource(config, key, text),
    }
}

fn insert(list: &mut ResourceList, key: &AttributeKey, value: Option<Value>) -> bool {
    let name = key.resource.clone().unwrap_or_default();
    match value {
        Some(value) => drop(list.insert(name, value)),
        None => drop(list.remove(&name)),
    }
    true
}

fn totals(config: &Config) -> Vec<(Option<String>, String)> {
    let resources = config.resources();
    let kind = |name: &str| {
        resources
            .get(name)
            .map_or(Kind::Long, |definition| definition.kind)
    };
    let text =
        |(name, pool): &(String, Pool)| (Some(name.clone()), limits::shown(kind(name), pool.total));
    config.pools.iter().map(text).collect()
}

/// What the whole system has of what nodes have not (Q21).
fn set_total(config: &mut Config, key: &AttributeKey, text: Option<&str>) -> Result<(), Refusal> {
    let definition = definition(config, key)?;
    if definition.host_level || !definition.consumable {
        return Err(Refusal::unsupported(&format!(
            "{key}: only what has the flag q is counted by the server"
        )));
    }
    let total = resource(config, key, text)?
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
