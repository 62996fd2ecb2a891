//! The order in which jobs of the queues last started, for round-robin order (I22). A turn of a
//! queue is the start of one of its jobs.

use std::collections::BTreeMap;

/// The sequence number of the last turn of each queue. A queue without a turn is missing.
#[derive(Clone, Debug, Default)]
pub struct QueueTurns(BTreeMap<String, u64>);

impl QueueTurns {
    /// Records that a job of a queue has started.
    pub fn note(&mut self, queue: &str) {
        let turn = 1 + self.0.values().max().copied().unwrap_or(0);
        match self.0.get_mut(queue) {
            Some(last) => *last = turn,
            None => drop(self.0.insert(queue.to_string(), turn)),
        }
    }

    /// The number of queues in `all` that had no turn, or had their last turn before the last turn
    /// of `queue`. The result is 0 if `queue` had no turn.
    pub fn before<'q>(&self, queue: &str, all: impl Iterator<Item = &'q str>) -> i64 {
        let last = self.0.get(queue);
        all.filter(|other| self.0.get(*other) < last).count() as i64
    }
}
