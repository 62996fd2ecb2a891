//! Displays objects: their attributes in effect, under PBS's names and in PBS's order.

use super::{Existence, QmgrObject, QmgrOverrides, attributes, forms, resources};
use crate::config::{Config, ServerConfig};
use serde::{Deserialize, Serialize};

/// A value of an attribute. An attribute with several entries has several values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeValue {
    /// The attribute.
    pub name: String,
    /// The resource if the attribute is a list of resources.
    pub resource: Option<String>,
    /// The value.
    pub value: String,
}

/// An object and its attributes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// The object.
    pub target: QmgrObject,
    /// The displayed attributes.
    pub lines: Vec<AttributeValue>,
}

/// All configured objects: the site's resources, the queues, the server, the scheduler, the nodes
/// with settings, and the hooks.
pub fn described(config: &Config, overrides: &QmgrOverrides) -> Vec<Described> {
    let resources = config
        .resources
        .iter()
        .map(|(name, _)| resource(config, name));
    let queues = config
        .configured_queues()
        .into_iter()
        .map(|queue| QmgrObject::Queue(queue.name));
    let nodes = config
        .nodes
        .iter()
        .map(|node| QmgrObject::Node(node.name.clone()));
    let hooks = config
        .hooks
        .iter()
        .map(|hook| QmgrObject::Hook(hook.name.clone()));
    let others = queues
        .chain([QmgrObject::Server, QmgrObject::Sched])
        .chain(nodes)
        .chain(hooks);
    let others: Vec<QmgrObject> = others.collect();
    let mut scratch = config.clone();
    let others = others.into_iter();
    let others = others.map(|target| object(&mut scratch, overrides, target));
    resources.chain(others).collect()
}

fn resource(config: &Config, name: &str) -> Described {
    let values = resources::described(config, name)
        .into_iter()
        .filter(|(_, text)| !text.is_empty());
    let line = |(name, value): (&str, String)| AttributeValue {
        name: name.to_string(),
        resource: None,
        value,
    };
    Described {
        target: QmgrObject::Resource(name.to_string()),
        lines: values.map(line).collect(),
    }
}

fn object(config: &mut Config, overrides: &QmgrOverrides, target: QmgrObject) -> Described {
    let mut lines = Vec::new();
    for attribute in attributes::all(&target) {
        let is_set = overrides.sets_value(&target, attribute.name);
        if !is_set
            && (is_of_a_new_queue(overrides, &target, attribute.name)
                || is_default(config, &target, attribute.name))
        {
            continue;
        }
        for (resource, value) in forms::read(config, &target, attribute.name, attribute.form) {
            let values = if is_limit(&target, attribute.name) {
                limit_entries(&value)
            } else {
                vec![value]
            };
            let line = |value| AttributeValue {
                name: attribute.name.to_string(),
                resource: resource.clone(),
                value,
            };
            lines.extend(values.into_iter().map(line));
        }
    }
    Described { target, lines }
}

fn is_limit(target: &QmgrObject, name: &str) -> bool {
    attributes::known(target, name).is_some_and(|known| known.is_limit)
}

fn limit_entries(text: &str) -> Vec<String> {
    let read = crate::model::limit::pbs::parse(text).unwrap_or_default();
    read.iter().map(ToString::to_string).collect()
}

/// Whether an attribute is the type or the state of a queue that qmgr created. As in PBS, such an
/// attribute is not displayed until it is set.
fn is_of_a_new_queue(overrides: &QmgrOverrides, target: &QmgrObject, attribute: &str) -> bool {
    let is_created = overrides
        .of(target)
        .is_some_and(|change| change.being == Existence::Created);
    is_created && matches!(target, QmgrObject::Queue(_)) && OF_A_NEW_QUEUE.contains(&attribute)
}

const OF_A_NEW_QUEUE: [&str; 3] = ["queue_type", "enabled", "started"];

/// Whether the attribute is the server's `job_history_duration` or `backfill_depth`, and has its
/// default value. As in PBS, these defaults are displayed only if qmgr set them: if a site executes
/// the displayed settings as commands, defaults must not become settings.
fn is_default(config: &Config, target: &QmgrObject, attribute: &str) -> bool {
    match (target, attribute) {
        (QmgrObject::Server, "job_history_duration") => {
            config.server.history == ServerConfig::default().history
        }
        (QmgrObject::Server, "backfill_depth") => {
            config.policy.backfill.depth == config.preset.policy().backfill.depth
        }
        _ => false,
    }
}
