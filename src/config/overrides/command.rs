//! Commands of `qmgr` on one object, and the effect of a command on the overrides.

use super::apply::Conflict;
use super::attributes::{find, known, split_names};
use super::{
    AttributeKey, Existence, QmgrObject, QmgrOverrides, apply, attributes, forms, resources,
};
use crate::config::Config;
use crate::model::hook::Hook;
use crate::model::limit::pbs;
use crate::model::queue::Queue;
use crate::model::refusal::Refusal;
use crate::model::resource::Resources;
use serde::{Deserialize, Serialize};

/// The action of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Creates the object with these attributes.
    Create,
    /// Deletes the object.
    Delete,
    /// Sets attributes.
    Set,
    /// Unsets attributes.
    Unset,
}

/// The operator of an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// `=` sets the value.
    Set,
    /// `+=` adds to the value.
    Add,
    /// `-=` removes from the value.
    Remove,
}

/// An attribute to set or unset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The attribute.
    pub key: AttributeKey,
    /// The operator; ignored for unset.
    pub op: Op,
    /// The value; empty for unset.
    pub value: String,
}

impl Edit {
    /// Whether the edit changes one of these attributes.
    pub fn changes_one_of(&self, names: &[&str]) -> bool {
        let attribute = &self.key.attribute;
        names
            .iter()
            .any(|name| name.eq_ignore_ascii_case(attribute))
    }
}

/// A command on one object. A refused command changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QmgrCommand {
    /// The action.
    pub verb: Verb,
    /// The object.
    pub target: QmgrObject,
    /// The attributes.
    pub edits: Vec<Edit>,
}

/// The maximum length of a name or value, in bytes.
const LONGEST_TEXT: usize = 64 << 10;

/// The maximum number of attributes in one command.
const MOST_EDITS: usize = 1000;

/// If this number of objects have overrides, qmgr creates no more objects. Other commands can still
/// add overrides.
const MOST_OBJECTS: usize = 10_000;

impl QmgrCommand {
    /// Returns an error if the command is too large, or if a text contains control characters other
    /// than tabs.
    pub fn check_size(&self) -> Result<(), Refusal> {
        if self.edits.len() > MOST_EDITS {
            Err(Refusal::more_than(MOST_EDITS, "attributes in one command"))
        } else {
            self.edits.iter().try_for_each(|edit| {
                let key = [
                    Some(&edit.key.attribute),
                    edit.key.resource.as_ref(),
                    Some(&edit.value),
                ];
                key.into_iter()
                    .flatten()
                    .try_for_each(|text| check_text(text))
            })
        }
    }
}

/// Checks that a text is not too long and contains no control characters except tabs.
fn check_text(text: &str) -> Result<(), Refusal> {
    if text.len() > LONGEST_TEXT {
        Err(Refusal::too_large("a value", LONGEST_TEXT))
    } else if text.contains(|c: char| c.is_control() && c != '\t') {
        Err(Refusal::illegal_value(""))
    } else {
        Ok(())
    }
}

impl QmgrOverrides {
    /// Returns these overrides of `file`, changed by a command, or the reason why the command is
    /// refused.
    pub fn with(&self, command: &QmgrCommand, file: &Config) -> Result<QmgrOverrides, Refusal> {
        command.check_size()?;
        let (mut config, _) = file.with_overrides(self);
        let (mut next, target) = (self.clone(), &command.target);
        match command.verb {
            Verb::Create => next.create(target, &config, file)?,
            Verb::Delete => {
                next.delete(target, &config, file)?;
                return Ok(next);
            }
            Verb::Set | Verb::Unset => apply::check_exists(&config, target)?,
        }
        for edit in &command.edits {
            check_edit(target, edit)?;
            next.edit(
                &storing_object(target, &edit.key.attribute),
                command.verb,
                edit,
                &mut config,
            )?;
        }
        next.check(target, &command.edits, file)?;
        let default = file.with_overrides(&next).0.server.default_queue;
        if config
            .configured_queues()
            .iter()
            .any(|queue| queue.name == default)
        {
            Ok(next)
        } else {
            Err(Refusal::unknown_queue())
        }
    }

    /// Creates an object. If the file does not define the default queue, a command can create this
    /// queue as long as the queue has no overrides. The queue stays enabled and started.
    fn create(
        &mut self,
        target: &QmgrObject,
        config: &Config,
        file: &Config,
    ) -> Result<(), Refusal> {
        if matches!(target, QmgrObject::Queue(_))
            && self.of(target).is_none()
            && is_implicit(file, target)
        {
            self.entry(target);
            return Ok(());
        }
        let is_there = apply::check_exists(config, target).is_ok();
        match target {
            QmgrObject::Queue(name) if !Queue::is_name(name) => return Err(Refusal::bad_name()),
            QmgrObject::Queue(_) if is_there => return Err(Refusal::queue_exists()),
            QmgrObject::Resource(name) if is_there || resources::is_builtin(name) => {
                return Err(Refusal::duplicate());
            }
            QmgrObject::Resource(name) if !Resources::is_name(name) => {
                return Err(Refusal::bad_name());
            }
            QmgrObject::Hook(name) if !Hook::is_name(name) => return Err(Refusal::bad_name()),
            QmgrObject::Hook(name) if is_there => return Err(Refusal::hook_exists(name)),
            QmgrObject::Queue(_) | QmgrObject::Resource(_) | QmgrObject::Hook(_)
                if self.all.len() >= MOST_OBJECTS =>
            {
                return Err(Refusal::more_than(
                    MOST_OBJECTS,
                    "objects with qmgr settings",
                ));
            }
            QmgrObject::Queue(_) | QmgrObject::Resource(_) | QmgrObject::Hook(_) => {}
            QmgrObject::Node(_) => return Err(Refusal::unknown_node()),
            QmgrObject::Server | QmgrObject::Sched => return Err(Refusal::invalid_request()),
        }
        self.drop(target);
        self.entry(target).being = Existence::Created;
        Ok(())
    }

    /// Deletes an object. If the file defines the object, the deletion is stored as an override;
    /// without this override the object would remain.
    fn delete(
        &mut self,
        target: &QmgrObject,
        config: &Config,
        file: &Config,
    ) -> Result<(), Refusal> {
        apply::check_exists(config, target)?;
        match target {
            QmgrObject::Queue(name) if *name == config.server.default_queue => {
                return Err(Refusal::busy());
            }
            QmgrObject::Queue(_) | QmgrObject::Resource(_) | QmgrObject::Hook(_) => {}
            // Only the overrides are removed. The server decides whether the node may be deleted.
            QmgrObject::Node(_) => {
                self.drop(target);
                return Ok(());
            }
            QmgrObject::Server | QmgrObject::Sched => return Err(Refusal::invalid_request()),
        }
        self.drop(target);
        if apply::check_exists(file, target).is_ok() {
            self.entry(target).being = Existence::Deleted;
        }
        Ok(())
    }

    fn edit(
        &mut self,
        target: &QmgrObject,
        verb: Verb,
        edit: &Edit,
        config: &mut Config,
    ) -> Result<(), Refusal> {
        let known = known(target, &edit.key.attribute).ok_or_else(Refusal::undefined_attribute)?;
        let key = AttributeKey {
            attribute: known.name.to_string(),
            ..edit.key.clone()
        };
        let value = match verb {
            Verb::Unset => None,
            _ => Some(self.combined(target, &key, edit, config)?),
        };
        // Several commands with `+=` can together exceed the maximum length.
        value.as_deref().map_or(Ok(()), check_text)?;
        // `unset` of a list such as `resources_max` unsets all resources of the list.
        let unset: Vec<AttributeKey> = match (verb, known.of_resources && key.resource.is_none()) {
            (Verb::Unset, true) => resource_keys_in_effect(config, target, &key),
            _ => vec![key],
        };
        let change = self.entry(target);
        for key in unset {
            change.values.insert(key, value.clone());
        }
        Ok(())
    }

    /// The value of an attribute after an edit. The value before the edit includes earlier edits of
    /// the same command.
    fn combined(
        &self,
        target: &QmgrObject,
        key: &AttributeKey,
        edit: &Edit,
        config: &mut Config,
    ) -> Result<String, Refusal> {
        let known = known(target, &key.attribute).ok_or_else(Refusal::undefined_attribute)?;
        let illegal = || Refusal::illegal_value(&key.to_string());
        let value = self.of(target).and_then(|change| change.values.get(key));
        let before = value
            .cloned()
            .unwrap_or_else(|| Some(current(config, target, key)).filter(|text| !text.is_empty()));
        let before = before.unwrap_or_default();
        match edit.op {
            Op::Set => Ok(edit.value.clone()),
            op if known.is_limit => {
                let read = |text: &str| {
                    if text.is_empty() {
                        Some(Vec::new())
                    } else {
                        pbs::parse(text)
                    }
                };
                let (before, more) = (
                    read(&before).unwrap_or_default(),
                    read(&edit.value).ok_or_else(illegal)?,
                );
                let combine = if op == Op::Add {
                    pbs::with
                } else {
                    pbs::without
                };
                Ok(pbs::written(&combine(&before, &more)))
            }
            op if known.is_list => {
                let (mut all, more) = (split_names(&before), split_names(&edit.value));
                all.retain(|name| !more.contains(name));
                if op == Op::Add {
                    all.extend(more);
                }
                Ok(all.join(","))
            }
            op => sum(&before, &edit.value, op).ok_or_else(illegal),
        }
    }

    /// Checks that the edited attributes do not conflict with the file, and that an edited queue
    /// has a valid type. These overrides include the edits.
    fn check(&self, target: &QmgrObject, edits: &[Edit], file: &Config) -> Result<(), Refusal> {
        let (config, conflicts) = file.with_overrides(self);
        let is_new = |key: &AttributeKey| {
            edits
                .iter()
                .any(|edit| edit.key.attribute.eq_ignore_ascii_case(&key.attribute))
        };
        // A mixture of old and new limit attributes may be reported for an attribute that the
        // command does not edit.
        let is_mixed = |conflict: &Conflict| conflict.why == Refusal::mixed_limits();
        let is_own = |conflict: &Conflict| {
            let attribute = conflict.key.as_ref().map_or("", |key| &key.attribute);
            conflict.target == storing_object(target, attribute)
        };
        let is_about = |conflict: &&Conflict| {
            is_own(conflict) && (conflict.key.as_ref().is_none_or(is_new) || is_mixed(conflict))
        };
        if let Some(conflict) = conflicts.iter().find(is_about) {
            return Err(conflict.why.clone());
        }
        match forms::queue(&config, target) {
            Some(queue) => self.check_type(target, edits, queue),
            None => Ok(()),
        }
    }

    /// Refuses to enable a new queue without a type, and to change a queue with routing attributes
    /// to an execution queue.
    fn check_type(
        &self,
        target: &QmgrObject,
        edits: &[Edit],
        queue: &Queue,
    ) -> Result<(), Refusal> {
        let queue_type = self.of(target).and_then(|change| {
            change
                .values
                .get(&AttributeKey::plain("queue_type"))?
                .as_deref()
        });
        let is_new = self
            .of(target)
            .is_some_and(|change| change.being == Existence::Created);
        if queue.enabled && is_new && queue_type.is_none() {
            return Err(Refusal::no_queue_type());
        }
        let is_edited = edits
            .iter()
            .any(|edit| edit.key.attribute.eq_ignore_ascii_case("queue_type"));
        let is_execution = queue_type.is_some_and(|text| text.starts_with(['e', 'E']));
        if is_edited && is_execution && queue.route.is_some() {
            let why =
                "the queue has routing attributes: unset all attributes named route_... first";
            return Err(Refusal::illegal_value("queue_type").because(why));
        }
        Ok(())
    }

    /// Whether qmgr set an attribute to a value.
    pub(super) fn sets_value(&self, target: &QmgrObject, attribute: &str) -> bool {
        self.of(target).is_some_and(|change| {
            change
                .values
                .get(&AttributeKey::plain(attribute))
                .is_some_and(Option::is_some)
        })
    }
}

/// Whether an object is the default queue, and the file does not define this queue.
fn is_implicit(file: &Config, target: &QmgrObject) -> bool {
    file.server.default_queue == target.name()
        && !file.queues.iter().any(|queue| queue.name == target.name())
}

/// The current value of an attribute. If the attribute has several entries, joins the entries.
fn current(config: &mut Config, target: &QmgrObject, key: &AttributeKey) -> String {
    let Some(attribute) = find(target, &key.attribute) else {
        return String::new();
    };
    let values = forms::read(config, target, attribute.name, attribute.form).into_iter();
    values
        .filter(|(resource, _)| *resource == key.resource)
        .map(|(_, text)| text)
        .collect::<Vec<_>>()
        .join(",")
}

/// The resources of a list attribute that are set, each as a key.
fn resource_keys_in_effect(
    config: &mut Config,
    target: &QmgrObject,
    key: &AttributeKey,
) -> Vec<AttributeKey> {
    let Some(attribute) = find(target, &key.attribute) else {
        return Vec::new();
    };
    let values = forms::read(config, target, attribute.name, attribute.form).into_iter();
    values
        .map(|(resource, _)| AttributeKey {
            resource,
            ..key.clone()
        })
        .collect()
}

fn sum(before: &str, value: &str, op: Op) -> Option<String> {
    let number = |text: &str| {
        if text.is_empty() {
            Some(0)
        } else {
            text.trim().parse::<i64>().ok()
        }
    };
    let (before, value) = (number(before)?, number(value)?);
    let sum = if op == Op::Add {
        before.checked_add(value)
    } else {
        before.checked_sub(value)
    };
    sum.map(|sum| sum.to_string())
}

fn check_edit(target: &QmgrObject, edit: &Edit) -> Result<(), Refusal> {
    let known =
        attributes::known(target, &edit.key.attribute).ok_or_else(Refusal::undefined_attribute)?;
    match (known.of_resources, &edit.key.resource) {
        (false, Some(_)) => Err(Refusal::undefined_attribute()),
        _ => Ok(()),
    }
}

/// The object that stores an attribute. The server stores the attributes that the scheduler shares
/// with the server.
fn storing_object(target: &QmgrObject, attribute: &str) -> QmgrObject {
    let is_shared = *target == QmgrObject::Sched && known(&QmgrObject::Server, attribute).is_some();
    if is_shared {
        QmgrObject::Server
    } else {
        target.clone()
    }
}
