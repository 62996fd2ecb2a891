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
    /// Resources of each set, including defaults. `ncpus` is always present.
    pub resources: Vec<(String, ResourceValue)>,
    /// Flexible amounts such as `4+` (Q22), by resource name; `resources` has their minimums.
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

    /// Returns the amount of resource `name`; 0 if not requested, or if the value is no number.
    pub fn long(&self, name: &str) -> i64 {
        self.get(name).and_then(ResourceValue::amount).unwrap_or(0)
    }
}

/// Arrangement of chunks on nodes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Arrangement {
    /// Chunks on any nodes; a node may have several chunks.
    #[default]
    Free,
    /// All chunks on one host.
    Pack,
    /// Each chunk on a separate host.
    Scatter,
    /// Each chunk on a separate vnode.
    Vscatter,
}

/// Sharing of nodes with other jobs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Sharing {
    /// Attribute `sharing` of each node decides.
    #[default]
    Default,
    /// Nodes are shared.
    Shared,
    /// Nodes are exclusive.
    Excl,
    /// Hosts are exclusive.
    Exclhost,
}

impl Sharing {
    /// Tests whether the job has its nodes or hosts for itself.
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
    /// Name of a resource; all nodes of the job must have the same value of this resource.
    pub group: Option<String>,
    /// Text as given.
    pub text: String,
}

/// Parsed `-l` options: the displayed list, with chunks and place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// `Resource_List`: job-wide resources, totals over the chunks, `select`, `place`, `nodect`,
    /// and `nodes` if given.
    pub list: ResourceList,
    /// Requested or default chunks.
    pub select: Select,
    /// Requested or default place.
    pub place: Place,
    /// Requested options without defaults, each name once: (name, text). If options or defaults
    /// change, a new request is parsed from these options.
    pub asked: Vec<(String, String)>,
}
