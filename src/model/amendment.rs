//! What `qmgr` has said, which stands above `lanai.toml`: objects made and taken away, attributes
//! set and unset, in PBS's language. A file read anew is amended anew; what does not fit it then is
//! kept, passed over and told of.

mod attributes;

mod forms;

mod limits;

mod resources;

mod apply;

mod command;

pub mod description;

pub use apply::Misfit;
pub use attributes::{Known, known, place};
pub use command::{Command, Edit, Op, Verb};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What a command of `qmgr` is about. In this order they are amended: queues speak of resources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
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

impl Target {
    /// As `qmgr` calls its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Target::Resource(_) => "resource",
            Target::Server => "server",
            Target::Sched => "sched",
            Target::Queue(_) => "queue",
            Target::Node(_) => "node",
            Target::Hook(_) => "hook",
        }
    }

    /// Of what an attribute is kept: what the scheduler shares with the server is the server's.
    fn keeper(&self, attribute: &str) -> Target {
        match self {
            Target::Sched if known(&Target::Server, attribute).is_some() => Target::Server,
            target => target.clone(),
        }
    }

    /// Its name; empty for the server and the scheduler.
    pub fn name(&self) -> &str {
        match self {
            Target::Resource(name)
            | Target::Queue(name)
            | Target::Node(name)
            | Target::Hook(name) => name,
            Target::Server | Target::Sched => "",
        }
    }
}

/// `queue gpu`, `server`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(format!("{} {}", self.kind(), self.name()).trim_end())
    }
}

/// An attribute, of a list of resources one of them: `enabled`, `resources_max.walltime`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// The attribute.
    pub attribute: String,
    /// The resource.
    pub resource: Option<String>,
}

impl Key {
    /// An attribute that is no list of resources.
    pub fn plain(attribute: &str) -> Key {
        Key {
            attribute: attribute.to_string(),
            resource: None,
        }
    }
}

impl fmt::Display for Key {
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
pub enum Being {
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
pub struct Amendment {
    /// Whether it was made or taken away.
    pub being: Being,
    /// The values of its attributes; None for one that was unset.
    #[serde(with = "pairs")]
    pub values: BTreeMap<Key, Option<String>>,
}

/// All that was said, of what was named first first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amendments {
    /// Of no object twice.
    pub all: Vec<(Target, Amendment)>,
}

impl Amendments {
    /// What was said of an object.
    pub fn of(&self, target: &Target) -> Option<&Amendment> {
        self.all
            .iter()
            .find(|(known, _)| known == target)
            .map(|(_, amendment)| amendment)
    }

    /// Whether a value was said.
    pub fn says(&self, target: &Target, key: &Key) -> bool {
        self.of(target)
            .is_some_and(|amendment| amendment.values.contains_key(key))
    }

    /// Whether an attribute has a value by them, whatever its letters' case; of a list, any
    /// resource.
    pub fn says_of(&self, target: &Target, attribute: &str) -> bool {
        let is_meant = |key: &Key| key.attribute.eq_ignore_ascii_case(attribute);
        self.of(target)
            .is_some_and(|amendment| amendment.values.keys().any(is_meant))
    }

    fn entry(&mut self, target: &Target) -> &mut Amendment {
        let place = self.all.iter().position(|(known, _)| known == target);
        let place = place.unwrap_or_else(|| {
            self.all.push((target.clone(), Amendment::default()));
            self.all.len() - 1
        });
        &mut self.all[place].1
    }

    fn drop(&mut self, target: &Target) {
        self.all.retain(|(known, _)| known != target);
    }
}

/// JSON's keys are texts: as pairs.
mod pairs {
    use super::Key;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    type Values = BTreeMap<Key, Option<String>>;

    pub fn serialize<S: Serializer>(values: &Values, serializer: S) -> Result<S::Ok, S::Error> {
        values.iter().collect::<Vec<_>>().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Values, D::Error> {
        Ok(Vec::<(Key, Option<String>)>::deserialize(deserializer)?
            .into_iter()
            .collect())
    }
}

#[cfg(test)]
mod tests;
