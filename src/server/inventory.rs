//! The inventory of a noded: the first report on a new connection.

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
    /// The nodes of this noded.
    pub nodes: Vec<NodeFacts>,
    /// The scripts (task 0) and tasks of the noded, until schedd has confirmed their ends.
    pub attempts: Vec<(JobId, Attempt, TaskNumber, AttemptStatus)>,
}

impl Inventory {
    /// Whether this noded has a node of this name.
    pub fn presents(&self, node: &str) -> bool {
        self.nodes.iter().any(|facts| facts.name == node)
    }
}
