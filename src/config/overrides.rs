//! The overrides by which `qmgr` changes the settings of `lanai.toml`: objects created and deleted,
//! attributes set and unset, in PBS's syntax. All overrides are applied again whenever the file is
//! read. An override that no longer fits the file is kept, but ignored and reported.

pub mod attributes;

mod forms;

mod limits;

mod resources;

pub mod apply;

pub mod command;

pub mod description;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The object of a `qmgr` command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QmgrObject {
    /// The resource with this name.
    Resource(String),
    /// The server.
    Server,
    /// The scheduler; there is only one.
    Sched,
    /// The queue with this name.
    Queue(String),
    /// The node with this name.
    Node(String),
    /// The hook with this name.
    Hook(String),
}

impl QmgrObject {
    /// The kind as `qmgr` names it.
    pub fn kind(&self) -> &'static str {
        match self {
            QmgrObject::Resource(_) => "resource",
            QmgrObject::Server => "server",
            QmgrObject::Sched => "sched",
            QmgrObject::Queue(_) => "queue",
            QmgrObject::Node(_) => "node",
            QmgrObject::Hook(_) => "hook",
        }
    }

    /// The name; empty for the server and the scheduler.
    pub fn name(&self) -> &str {
        match self {
            QmgrObject::Resource(name)
            | QmgrObject::Queue(name)
            | QmgrObject::Node(name)
            | QmgrObject::Hook(name) => name,
            QmgrObject::Server | QmgrObject::Sched => "",
        }
    }
}

/// Displays the object, such as `queue gpu` or `server`.
impl fmt::Display for QmgrObject {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(format!("{} {}", self.kind(), self.name()).trim_end())
    }
}

/// An attribute, such as `enabled`, or one resource of an attribute, such as
/// `resources_max.walltime`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttributeKey {
    /// The attribute.
    pub attribute: String,
    /// The resource; None for the attribute as a whole.
    pub resource: Option<String>,
}

impl AttributeKey {
    /// An attribute as a whole, without a resource.
    pub fn plain(attribute: &str) -> AttributeKey {
        AttributeKey {
            attribute: attribute.to_string(),
            resource: None,
        }
    }
}

impl fmt::Display for AttributeKey {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.resource {
            Some(resource) => write!(f, "{}.{resource}", self.attribute),
            None => f.write_str(&self.attribute),
        }
    }
}

/// Whether an object comes from the file, or was created or deleted by qmgr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Existence {
    /// The file defines the object, or the object exists by default.
    #[default]
    Filed,
    /// qmgr created the object. A section of this name in the file is ignored.
    Created,
    /// qmgr deleted the object.
    Deleted,
}

/// The overrides of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QmgrOverride {
    /// Whether qmgr created or deleted the object.
    pub being: Existence,
    /// The values of the attributes that qmgr set. None for an attribute that qmgr unset.
    #[serde(with = "pairs")]
    pub values: BTreeMap<AttributeKey, Option<String>>,
}

/// All overrides. The objects are in the order in which qmgr first changed them; an object that
/// qmgr creates or deletes moves to the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QmgrOverrides {
    /// The objects, each once.
    pub all: Vec<(QmgrObject, QmgrOverride)>,
}

impl QmgrOverrides {
    /// The overrides of an object; None if qmgr has not changed the object.
    pub fn of(&self, target: &QmgrObject) -> Option<&QmgrOverride> {
        self.all
            .iter()
            .find(|(known, _)| known == target)
            .map(|(_, change)| change)
    }

    /// Whether qmgr set or unset this attribute.
    pub fn sets(&self, target: &QmgrObject, key: &AttributeKey) -> bool {
        self.of(target)
            .is_some_and(|change| change.values.contains_key(key))
    }

    /// Whether qmgr set or unset an attribute, or a resource of the attribute. Ignores case.
    pub fn sets_attribute(&self, target: &QmgrObject, attribute: &str) -> bool {
        let is_meant = |key: &AttributeKey| key.attribute.eq_ignore_ascii_case(attribute);
        self.of(target)
            .is_some_and(|change| change.values.keys().any(is_meant))
    }

    fn entry(&mut self, target: &QmgrObject) -> &mut QmgrOverride {
        let place = self.all.iter().position(|(known, _)| known == target);
        let place = place.unwrap_or_else(|| {
            self.all.push((target.clone(), QmgrOverride::default()));
            self.all.len() - 1
        });
        &mut self.all[place].1
    }

    fn drop(&mut self, target: &QmgrObject) {
        self.all.retain(|(known, _)| known != target);
    }
}

/// Serializes the values as a list of pairs, because the keys of a JSON object must be strings.
mod pairs {
    use crate::config::overrides::AttributeKey;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    type Values = BTreeMap<AttributeKey, Option<String>>;

    pub fn serialize<S: Serializer>(values: &Values, serializer: S) -> Result<S::Ok, S::Error> {
        values.iter().collect::<Vec<_>>().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Values, D::Error> {
        Ok(
            Vec::<(AttributeKey, Option<String>)>::deserialize(deserializer)?
                .into_iter()
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests;
