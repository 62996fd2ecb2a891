//! GPUs that are used by processes outside of jobs. They count as present, so that jobs that need
//! them wait instead of being refused, but they do not count as free. A GPU that a job uses belongs
//! to that job, even if other processes use it too.

use super::cluster::{Cluster, NodeIx};

impl Cluster {
    /// The number of GPUs of a node that processes outside of jobs use and no job holds.
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

    /// The usable nodes with GPUs that processes outside of jobs use and no job holds.
    pub fn used_outside(&self) -> impl Iterator<Item = NodeIx> + '_ {
        self.with_outside
            .iter()
            .copied()
            .filter(|&ix| self.node(ix).usable && self.outside(ix) > 0)
    }

    /// Updates whether a node is in the set of nodes with GPUs that are used outside of jobs.
    pub fn update_outside_index(&mut self, ix: NodeIx) {
        if self.node(ix).gpus_outside.is_empty() {
            self.with_outside.remove(&ix)
        } else {
            self.with_outside.insert(ix)
        };
    }

    /// Subtracts the GPUs that are used outside of jobs from the free GPUs. Must be undone with
    /// [`restore_outside`](Self::restore_outside) before the jobs or GPUs of the node change.
    pub fn withhold_outside(&mut self, ix: NodeIx) {
        let outside = self.outside(ix);
        if outside > 0
            && let Some(index) = self.catalog.index("ngpus")
        {
            self.node_mut(ix).room.free[index] -= outside;
        }
    }

    /// Adds the GPUs that are used outside of jobs to the free GPUs again: undoes
    /// [`withhold_outside`](Self::withhold_outside).
    pub fn restore_outside(&mut self, ix: NodeIx) {
        let outside = self.outside(ix);
        if outside > 0
            && let Some(index) = self.catalog.index("ngpus")
        {
            self.node_mut(ix).room.free[index] += outside;
        }
    }
}
