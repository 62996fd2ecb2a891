//! The time a job last ended on each node. It is kept in memory and stored with the node's row when
//! that is written, or periodically, to save a write per job.

use crate::model::job::NodeShare;
use crate::model::time::Time;
use std::collections::BTreeMap;

/// The uses that are not stored yet.
#[derive(Debug, Default)]
pub struct NodeUses(BTreeMap<String, Time>);

impl NodeUses {
    /// Records that a job released these shares at `at`.
    pub fn note(&mut self, shares: &[NodeShare], at: Time) {
        for share in shares {
            match self.0.get_mut(&share.node) {
                Some(last) => *last = at,
                None => drop(self.0.insert(share.node.clone(), at)),
            }
        }
    }

    /// Takes the last use of a node, to store it now.
    pub fn take(&mut self, node: &str) -> Option<Time> {
        self.0.remove(node)
    }

    /// The nodes with a use to store.
    pub fn nodes(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}
