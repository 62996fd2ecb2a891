//! Classes of interchangeable nodes, as an overlay on the classes of the cluster.

use super::guide::Rank;
use crate::sched::view::cluster::{Joinable, KindIx, NodeClassKey, NodeIx};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Bound;
use std::sync::Arc;

/// Interchangeable nodes.
#[derive(Clone, Debug)]
pub struct NodeClass<'s> {
    /// The properties that they share.
    pub key: Arc<NodeClassKey>,
    /// The nodes of the cluster's class.
    pub(super) base: Option<&'s BTreeSet<NodeIx>>,
    /// The nodes of `base` that are in another class here.
    pub(super) removed: BTreeSet<NodeIx>,
    /// The nodes of this class that are not in `base`.
    pub(super) added: BTreeSet<NodeIx>,
}

impl<'s> NodeClass<'s> {
    /// A class with the nodes of the cluster's class of this key, or without nodes.
    pub(super) fn new(key: Arc<NodeClassKey>, base: Option<&'s BTreeSet<NodeIx>>) -> NodeClass<'s> {
        NodeClass {
            key,
            base,
            removed: BTreeSet::new(),
            added: BTreeSet::new(),
        }
    }

    /// The number of nodes.
    pub fn len(&self) -> u64 {
        (self.base.map_or(0, BTreeSet::len) - self.removed.len() + self.added.len()) as u64
    }

    /// Whether the class has nodes, and they take jobs.
    pub(super) fn is_open(&self) -> bool {
        self.len() > 0 && self.key.condition != Joinable::Alone
    }

    /// The nodes, in no order.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeIx> {
        let stayed = self
            .base
            .into_iter()
            .flatten()
            .filter(|ix| !self.removed.contains(ix));
        stayed.chain(&self.added).copied()
    }

    /// The first of its nodes from `bound` on.
    pub(super) fn first(&self, bound: Bound<NodeIx>) -> Option<NodeIx> {
        let range = (bound, Bound::Unbounded);
        let base = self
            .base
            .and_then(|base| base.range(range).find(|ix| !self.removed.contains(ix)));
        let added = self.added.range(range).next();
        base.into_iter().chain(added).min().copied()
    }
}

/// The properties of a class that requests check, besides amounts.
#[derive(Clone, Copy, Debug)]
pub struct NodeClassSummary {
    /// The number of nodes.
    pub nodes: u64,
    /// Their kind.
    pub kind: KindIx,
    /// Which jobs may use them.
    pub condition: Joinable,
    /// Whether each is the only node of its host.
    pub solo: bool,
}

impl NodeClassSummary {
    /// The summary of a class.
    pub(super) fn of(bucket: &NodeClass) -> NodeClassSummary {
        let NodeClassKey {
            kind,
            solo,
            condition,
            ..
        } = *bucket.key;
        NodeClassSummary {
            nodes: bucket.len(),
            kind,
            condition,
            solo,
        }
    }
}

/// The nodes of several classes in order of rank, each with the mark of its class.
pub struct MergedNodes<'a> {
    pub(super) buckets: &'a [NodeClass<'a>],
    /// The next node of each class.
    pub(super) heads: BinaryHeap<Reverse<(Rank, NodeIx, usize, usize)>>,
}

impl Iterator for MergedNodes<'_> {
    type Item = (NodeIx, usize);

    fn next(&mut self) -> Option<(NodeIx, usize)> {
        let mut head = self.heads.peek_mut()?;
        let Reverse((rank, node, place, mark)) = *head;
        match self.buckets[place].first(Bound::Excluded(node)) {
            Some(following) => *head = Reverse((rank, following, place, mark)),
            None => drop(PeekMut::pop(head)),
        }
        Some((node, mark))
    }
}
