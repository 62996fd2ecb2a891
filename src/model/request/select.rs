//! What a job asks for: chunks of resources and how to place them.

use crate::model::resource::amount::Amount;
use crate::model::resource::{ResourceList, ResourceValue};
use serde::{Deserialize, Serialize};

/// `select=2:ncpus=4:mem=8gb+1:ngpus=1`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Select {
    /// In the order given.
    pub chunks: Vec<Chunk>,
    /// As shown: `2:ncpus=4:mem=8gb+1:ngpus=1`.
    pub text: String,
}

/// `count` sets of resources, each of which must come from one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// How many, at least 1.
    pub count: u32,
    /// In the order given; `ncpus` stands here even when only the default asks for it.
    pub resources: Vec<(String, ResourceValue)>,
    /// Resources of which it takes more where more is free (Q22); `resources` has the least.
    #[serde(default)]
    pub growing: Vec<(String, Amount)>,
}

impl Chunk {
    /// The value of resource `name`.
    pub fn get(&self, name: &str) -> Option<&ResourceValue> {
        self.resources
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value)
    }

    /// The whole number asked of resource `name`; 0 when it is not named.
    pub fn long(&self, name: &str) -> i64 {
        self.get(name).and_then(ResourceValue::amount).unwrap_or(0)
    }
}

/// How the chunks lie on the nodes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Arrangement {
    /// Anywhere, several on one node if they fit.
    #[default]
    Free,
    /// All on one host.
    Pack,
    /// Each on a host of its own.
    Scatter,
    /// Each on a vnode of its own.
    Vscatter,
}

/// Whether others may use the nodes too.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Sharing {
    /// As the node says.
    #[default]
    Default,
    /// With others.
    Shared,
    /// The nodes alone.
    Excl,
    /// The whole hosts alone.
    Exclhost,
}

impl Sharing {
    /// Whether nobody else may join.
    pub fn is_exclusive(self) -> bool {
        matches!(self, Sharing::Excl | Sharing::Exclhost)
    }
}

/// `place=scatter:excl`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// How the chunks lie.
    pub arrangement: Arrangement,
    /// Who else may be there.
    pub sharing: Sharing,
    /// All nodes must have the same value of this resource.
    pub group: Option<String>,
    /// As typed.
    pub text: String,
}

/// All that `-l` said: the list as shown, and the chunks and place it comes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// `Resource_List`: job-wide resources, totals over the chunks, `select`, `place`, `nodect`.
    pub list: ResourceList,
    /// The chunks, also when the job named none.
    pub select: Select,
    /// The place, also when the job named none.
    pub place: Place,
    /// What was asked in so many words, so that `qalter -l` can merge by name: (name, text).
    pub asked: Vec<(String, String)>,
}
