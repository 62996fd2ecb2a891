//! What `qmgr` has said, which stands above `lanai.toml`: objects made and taken away, attributes
//! set and unset, in PBS's language. A file read anew is amended anew; what does not fit it then is
//! kept, passed over and told of.

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

/// What a command of `qmgr` is about. In this order they are amended: queues speak of resources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QmgrObject {
    /// A resource by name.
    Resource(String),
    /// The server.
    Server,
    /// The only scheduler.
    Sched,
    /// A queue by name.
    Queue(String),
    /// A node by name.
    Node(String),
    /// A hook by name.
    Hook(String),
}

impl QmgrObject {
    /// As `qmgr` calls its kind.
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

    /// Its name; empty for the server and the scheduler.
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

/// `queue gpu`, `server`.
impl fmt::Display for QmgrObject {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(format!("{} {}", self.kind(), self.name()).trim_end())
    }
}

/// An attribute, of a list of resources one of them: `enabled`, `resources_max.walltime`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttributeKey {
    /// The attribute.
    pub attribute: String,
    /// The resource.
    pub resource: Option<String>,
}

impl AttributeKey {
    /// An attribute that is no list of resources.
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

/// Where an object comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Existence {
    /// From the file, or it is there anyway.
    #[default]
    Filed,
    /// It was created: what the file says of one of this name does not count.
    Created,
    /// It was deleted.
    Deleted,
}

/// What was said of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QmgrOverride {
    /// Whether it was made or taken away.
    pub being: Existence,
    /// The values of its attributes; None for one that was unset.
    #[serde(with = "pairs")]
    pub values: BTreeMap<AttributeKey, Option<String>>,
}

/// All that was said, of what was named first first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QmgrOverrides {
    /// Of no object twice.
    pub all: Vec<(QmgrObject, QmgrOverride)>,
}

impl QmgrOverrides {
    /// What was said of an object.
    pub fn of(&self, target: &QmgrObject) -> Option<&QmgrOverride> {
        self.all
            .iter()
            .find(|(known, _)| known == target)
            .map(|(_, change)| change)
    }

    /// Whether a value was said.
    pub fn says(&self, target: &QmgrObject, key: &AttributeKey) -> bool {
        self.of(target)
            .is_some_and(|change| change.values.contains_key(key))
    }

    /// Whether an attribute has a value by them, whatever its letters' case; of a list, any
    /// resource.
    pub fn says_of(&self, target: &QmgrObject, attribute: &str) -> bool {
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

/// JSON's keys are texts: as pairs.
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
