//! Applies the overrides of qmgr to a configuration.

use super::{
    AttributeKey, Existence, QmgrObject, QmgrOverride, QmgrOverrides, attributes, forms, resources,
};
use crate::config::Config;
use crate::model::hook::Hook;
use crate::model::limit::Selector;
use crate::model::queue::Queue;
use crate::model::refusal::Refusal;
use crate::model::resource::ResourceList;
use std::fmt;

/// An override that does not fit the current file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The object.
    pub target: QmgrObject,
    /// The attribute; None if the object itself is missing.
    pub key: Option<AttributeKey>,
    /// The reason.
    pub why: Refusal,
}

/// Displays the conflict, such as `queue gpu: Unknown queue`.
impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{} {key}: {}", self.target, self.why),
            None => write!(f, "{}: {}", self.target, self.why),
        }
    }
}

impl Config {
    /// The configuration with these overrides, and the overrides that were ignored.
    pub fn with_overrides(&self, overrides: &QmgrOverrides) -> (Config, Vec<Conflict>) {
        let mut conflicts = Vec::new();
        // Adds the default queue, so that it remains a queue if another queue becomes the default.
        let mut config = Config {
            queues: self.configured_queues(),
            ..self.clone()
        };
        let mut all: Vec<&(QmgrObject, QmgrOverride)> = overrides.all.iter().collect();
        // Applies the overrides of resources first, because queues refer to resources. The sort
        // keeps the order of all other overrides.
        all.sort_by_key(|(target, _)| {
            std::mem::discriminant(target) != std::mem::discriminant(&RESOURCE)
        });
        for (target, change) in all {
            apply_override(&mut config, target, change, &mut conflicts);
        }
        config.queues = config.configured_queues();
        (config, conflicts)
    }

    /// Whether the site defines a resource.
    pub fn has_own_resource(&self, name: &str) -> bool {
        self.resources.iter().any(|(known, _)| known == name)
    }

    /// Whether the settings of the server, a queue, a limit, the formula or a node refer to a
    /// resource.
    pub fn mentions(&self, resource: &str) -> bool {
        let server = &self.server;
        let lists = [&server.defaults, &server.chunk_defaults, &server.most].into_iter();
        let of_queue = |queue: &Queue| {
            let lists: [&ResourceList; 4] = [
                &queue.least,
                &queue.most,
                &queue.defaults,
                &queue.chunk_defaults,
            ];
            lists.into_iter().any(|list| list.contains_key(resource))
        };
        let in_queues = self.queues.iter().any(of_queue);
        let in_limits = self
            .policy
            .limits
            .all
            .iter()
            .any(|limit| limit.quantity.name() == resource);
        let formula = self.policy.precedence.formula.as_ref();
        let in_formula = formula.is_some_and(|formula| formula.names().contains(resource));
        let on_nodes = self
            .nodes
            .iter()
            .any(|node| node.available.contains_key(resource));
        in_queues
            || in_limits
            || in_formula
            || on_nodes
            || lists.into_iter().any(|list| list.contains_key(resource))
    }
}

const RESOURCE: QmgrObject = QmgrObject::Resource(String::new());

fn apply_override(
    config: &mut Config,
    target: &QmgrObject,
    change: &QmgrOverride,
    conflicts: &mut Vec<Conflict>,
) {
    let mut conflict = |key: Option<&AttributeKey>, why| {
        conflicts.push(Conflict {
            target: target.clone(),
            key: key.cloned(),
            why,
        })
    };
    match change.being {
        Existence::Deleted => return delete(config, target),
        Existence::Created => create(config, target),
        Existence::Filed => {
            if let Err(why) = check_exists(config, target) {
                return conflict(None, why);
            }
        }
    }
    for (key, text) in in_order(target, change) {
        if let Err(why) = write(config, target, key, text) {
            conflict(Some(key), why);
        }
    }
}

/// The values to apply: first the attributes that qmgr unset, then the attributes that it set.
/// Within both groups, switches such as `job_history_enable` come last, and all others are in
/// display order.
fn in_order<'a>(
    target: &QmgrObject,
    change: &'a QmgrOverride,
) -> Vec<(&'a AttributeKey, Option<&'a str>)> {
    let mut values: Vec<(&AttributeKey, Option<&str>)> = change
        .values
        .iter()
        .map(|(key, text)| (key, text.as_deref()))
        .collect();
    let is_switch = |key: &AttributeKey| key.attribute.ends_with("_enable");
    values.sort_by_key(|(key, text)| {
        (
            text.is_some(),
            is_switch(key),
            attributes::place(target, &key.attribute),
        )
    });
    values
}

fn write(
    config: &mut Config,
    target: &QmgrObject,
    key: &AttributeKey,
    text: Option<&str>,
) -> Result<(), Refusal> {
    let attribute =
        attributes::find(target, &key.attribute).ok_or_else(Refusal::undefined_attribute)?;
    match target {
        QmgrObject::Resource(name) => resources::write(config, name, key, text),
        _ => forms::write(config, target, key, attribute.form, text),
    }
}

/// Returns an error for an unknown object, and for a built-in resource, which qmgr cannot change.
/// Accepts every node, because the configuration does not list all nodes.
pub(super) fn check_exists(config: &Config, target: &QmgrObject) -> Result<(), Refusal> {
    match target {
        QmgrObject::Server | QmgrObject::Sched | QmgrObject::Node(_) => Ok(()),
        QmgrObject::Queue(name) => {
            let is_there = config
                .configured_queues()
                .iter()
                .any(|queue| queue.name == *name);
            if is_there {
                Ok(())
            } else {
                Err(Refusal::unknown_queue())
            }
        }
        QmgrObject::Hook(name) => {
            if config.hooks.iter().any(|hook| hook.name == *name) {
                Ok(())
            } else {
                Err(Refusal::no_hook(name))
            }
        }
        QmgrObject::Resource(name) => {
            if config.has_own_resource(name) {
                Ok(())
            } else if resources::is_builtin(name) {
                Err(Refusal::invalid_request())
            } else {
                Err(Refusal::no_resource())
            }
        }
    }
}

/// Creates an object, which replaces an object of the same name in the file. A new queue is
/// disabled and stopped.
fn create(config: &mut Config, target: &QmgrObject) {
    delete(config, target);
    match target {
        QmgrObject::Queue(name) => {
            config.queues.push(Queue {
                enabled: false,
                started: false,
                ..Queue::named(name)
            });
        }
        QmgrObject::Resource(name) => resources::create(config, name),
        QmgrObject::Hook(name) => config.hooks.push(Hook::blank(name)),
        QmgrObject::Server | QmgrObject::Sched | QmgrObject::Node(_) => {}
    }
}

/// Deletes an object and its values in `Config::kept`: a queue with its limits and priority factor,
/// a resource with its system-wide total and the command that reports the total. Keeps the server,
/// the scheduler and the settings of nodes.
fn delete(config: &mut Config, target: &QmgrObject) {
    match target {
        QmgrObject::Queue(name) => {
            config.queues.retain(|queue| queue.name != *name);
            let own = Selector::Named(name.clone());
            config
                .policy
                .limits
                .all
                .retain(|limit| limit.scope.queue != own);
            config.policy.precedence.queues.remove(name);
        }
        QmgrObject::Resource(name) => {
            config.resources.retain(|(known, _)| known != name);
            config.pools.retain(|(known, _)| known != name);
            config.meters.retain(|(known, _)| known != name);
        }
        QmgrObject::Hook(name) => config.hooks.retain(|hook| hook.name != *name),
        QmgrObject::Server | QmgrObject::Sched | QmgrObject::Node(_) => {}
    }
    config.kept.retain(|(known, _), _| known != target);
}
