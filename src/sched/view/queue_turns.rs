//! The last turns of queues, for round-robin order (I22).

use std::collections::BTreeMap;

/// The sequence number of each queue's last turn. A queue that is not listed has had none.
#[derive(Clone, Debug, Default)]
pub struct QueueTurns(BTreeMap<String, u64>);

impl QueueTurns {
    /// Notes a start of a job of a queue.
    pub fn note(&mut self, queue: &str) {
        let turn = 1 + self.0.values().max().copied().unwrap_or(0);
        match self.0.get_mut(queue) {
            Some(last) => *last = turn,
            None => drop(self.0.insert(queue.to_string(), turn)),
        }
    }

    /// The number of queues in `all` that had their last turn before the last turn of `queue`.
    pub fn before<'q>(&self, queue: &str, all: impl Iterator<Item = &'q str>) -> i64 {
        let last = self.0.get(queue);
        all.filter(|other| self.0.get(*other) < last).count() as i64
    }
}
