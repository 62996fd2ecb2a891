//! When a job last ended on each node: kept in memory, and written with the node's row when that is
//! written anyway, or once in a while. It is worth no write of its own for every job.

use crate::model::job::NodeShare;
use crate::model::time::Time;
use std::collections::BTreeMap;

/// The uses that are not on disk yet.
#[derive(Debug, Default)]
pub struct NodeUses(BTreeMap<String, Time>);

impl NodeUses {
    /// A job has had these for the last time.
    pub fn note(&mut self, shares: &[NodeShare], at: Time) {
        for share in shares {
            match self.0.get_mut(&share.node) {
                Some(last) => *last = at,
                None => drop(self.0.insert(share.node.clone(), at)),
            }
        }
    }

    /// The last use of a node, to be written now.
    pub fn take(&mut self, node: &str) -> Option<Time> {
        self.0.remove(node)
    }

    /// The nodes that have one.
    pub fn nodes(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}
