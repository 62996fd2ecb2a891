//! GPUs that processes outside the queue use: there, so that nothing becomes impossible for want of
//! them, but not free while that lasts. One that a job here holds is the job's, whoever else uses
//! it.

use super::cluster::{Cluster, NodeIx};

impl Cluster {
    /// How many GPUs of a node processes outside the queue use, those held by its jobs not counted.
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

    /// The usable nodes of which GPUs are used from outside.
    pub fn used_outside(&self) -> impl Iterator<Item = NodeIx> + '_ {
        self.with_outside
            .iter()
            .copied()
            .filter(|&ix| self.node(ix).usable && self.outside(ix) > 0)
    }

    /// Takes note of what is now said of a node.
    pub fn note_outside(&mut self, ix: NodeIx) {
        if self.node(ix).gpus_outside.is_empty() {
            self.with_outside.remove(&ix)
        } else {
            self.with_outside.insert(ix)
        };
    }

    /// Takes those GPUs out of what is free. To be undone before its jobs or GPUs change.
    pub fn withhold_outside(&mut self, ix: NodeIx) {
        let outside = self.outside(ix);
        if outside > 0
            && let Some(index) = self.catalog.index("ngpus")
        {
            self.node_mut(ix).room.free[index] -= outside;
        }
    }

    /// Undoes it.
    pub fn yield_outside(&mut self, ix: NodeIx) {
        let outside = self.outside(ix);
        if outside > 0
            && let Some(index) = self.catalog.index("ngpus")
        {
            self.node_mut(ix).room.free[index] += outside;
        }
    }
}
