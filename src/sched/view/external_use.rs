//! GPUs used by processes outside the queue. They count as present, so that requests stay possible,
//! but not as free. A GPU that a job uses belongs to that job, whatever else uses it.

use super::cluster::{Cluster, NodeIx};

impl Cluster {
    /// The number of a node's GPUs that processes outside the queue use and no job holds.
    pub fn outside(&self, ix: NodeIx) -> i64 {
        let node = self.node(ix);
        node.gpus_outside
            .iter()
            .filter(|gpu| {
                let mut holds = node.tenants.values();
                node.gpus.contains(gpu) && !holds.any(|hold| hold.gpus.contains(gpu))
            })
            .count() as i64
    }

    /// The usable nodes with GPUs used from outside.
    pub fn used_outside(&self) -> impl Iterator<Item = NodeIx> + '_ {
        self.with_outside
            .iter()
            .copied()
            .filter(|&ix| self.node(ix).usable && self.outside(ix) > 0)
    }

    /// Updates whether a node has GPUs used from outside.
    pub fn note_outside(&mut self, ix: NodeIx) {
        if self.node(ix).gpus_outside.is_empty() {
            self.with_outside.remove(&ix)
        } else {
            self.with_outside.insert(ix)
        };
    }

    /// Subtracts the GPUs used from outside from the free ones. Must be undone before the node's
    /// jobs or GPUs change.
    pub fn withhold_outside(&mut self, ix: NodeIx) {
        let outside = self.outside(ix);
        if outside > 0
            && let Some(index) = self.catalog.index("ngpus")
        {
            self.node_mut(ix).room.free[index] -= outside;
        }
    }

    /// Adds them to the free ones again: undoes [`withhold_outside`](Self::withhold_outside).
    pub fn restore_outside(&mut self, ix: NodeIx) {
        let outside = self.outside(ix);
        if outside > 0
            && let Some(index) = self.catalog.index("ngpus")
        {
            self.node_mut(ix).room.free[index] += outside;
        }
    }
}
