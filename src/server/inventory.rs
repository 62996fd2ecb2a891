//! The inventory of a noded: its first report after it has connected.

use crate::model::job::Attempt;
use crate::model::job::TaskNumber;
use crate::model::job_id::JobId;
use crate::model::node::NodeFacts;
use crate::wire::order::AttemptStatus;

/// The nodes and attempts of a noded.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// The kernel's boot id.
    pub boot: String,
    /// The identity of the noded's state directory.
    pub directory: String,
    /// The nodes presented.
    pub nodes: Vec<NodeFacts>,
    /// Every attempt and task not yet confirmed.
    pub attempts: Vec<(JobId, Attempt, TaskNumber, AttemptStatus)>,
}

impl Inventory {
    /// Whether the noded presents a node.
    pub fn presents(&self, node: &str) -> bool {
        self.nodes.iter().any(|facts| facts.name == node)
    }
}
