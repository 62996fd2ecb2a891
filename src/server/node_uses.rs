//! For each node, the time when a job last released resources there. To save a write for each job,
//! the time is kept in memory and written with the next change of the node, or periodically.

use crate::model::job::NodeShare;
use crate::model::time::Time;
use std::collections::BTreeMap;

/// The times of last use that are not stored yet, by node.
#[derive(Debug, Default)]
pub struct NodeUses(BTreeMap<String, Time>);

impl NodeUses {
    /// Records that a job released these shares at `at`.
    pub fn record(&mut self, shares: &[NodeShare], at: Time) {
        for share in shares {
            match self.0.get_mut(&share.node) {
                Some(last) => *last = at,
                None => drop(self.0.insert(share.node.clone(), at)),
            }
        }
    }

    /// Takes the time of last use of a node, to store it.
    pub fn take(&mut self, node: &str) -> Option<Time> {
        self.0.remove(node)
    }

    /// The nodes with a time of last use that is not stored yet.
    pub fn nodes(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}
