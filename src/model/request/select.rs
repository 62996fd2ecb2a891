//! Chunks and placement of a request.

use crate::model::resource::amount::Amount;
use crate::model::resource::{ResourceList, ResourceValue};
use serde::{Deserialize, Serialize};

/// Value of `select`, such as `2:ncpus=4:mem=8gb+1:ngpus=1`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Select {
    /// Chunks in the order given.
    pub chunks: Vec<Chunk>,
    /// Text as displayed: `2:ncpus=4:mem=8gb+1:ngpus=1`.
    pub text: String,
}

/// `count` equal sets of resources; each set comes from one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// Number of sets, at least 1.
    pub count: u32,
    /// Resources in the order given, including a default `ncpus`.
    pub resources: Vec<(String, ResourceValue)>,
    /// Resources that take more if more is free (Q22); `resources` holds the minimum.
    #[serde(default)]
    pub growing: Vec<(String, Amount)>,
}

impl Chunk {
    /// Returns the value of resource `name`.
    pub fn get(&self, name: &str) -> Option<&ResourceValue> {
        self.resources
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value)
    }

    /// Returns the amount of resource `name`; 0 if not requested.
    pub fn long(&self, name: &str) -> i64 {
        self.get(name).and_then(ResourceValue::amount).unwrap_or(0)
    }
}

/// Arrangement of chunks on nodes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Arrangement {
    /// On any nodes, several on one node if they fit.
    #[default]
    Free,
    /// All on one host.
    Pack,
    /// Each on a separate host.
    Scatter,
    /// Each on a separate vnode.
    Vscatter,
}

/// Sharing of nodes with other jobs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Sharing {
    /// Sharing set by the node.
    #[default]
    Default,
    /// Shared nodes.
    Shared,
    /// Exclusive nodes.
    Excl,
    /// Exclusive hosts.
    Exclhost,
}

impl Sharing {
    /// Tests for exclusive nodes or hosts.
    pub fn is_exclusive(self) -> bool {
        matches!(self, Sharing::Excl | Sharing::Exclhost)
    }
}

/// Value of `place`, such as `scatter:excl`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Arrangement of the chunks.
    pub arrangement: Arrangement,
    /// Sharing with other jobs.
    pub sharing: Sharing,
    /// Resource of which all nodes must have the same value.
    pub group: Option<String>,
    /// Text as given.
    pub text: String,
}

/// Parsed `-l` options: the displayed list, with chunks and place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// `Resource_List`: job-wide resources, totals over the chunks, `select`, `place`, `nodect`.
    pub list: ResourceList,
    /// Chunks, including default ones.
    pub select: Select,
    /// Place, including the default.
    pub place: Place,
    /// Options as given, so that `qalter -l` can merge them by name: (name, text).
    pub asked: Vec<(String, String)>,
}
