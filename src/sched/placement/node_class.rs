//! Classes of interchangeable nodes in an availability map. The map stores only the differences
//! from the classes of the cluster.

use super::guide::Rank;
use crate::sched::view::cluster::{Joinable, KindIx, NodeClassKey, NodeIx};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Bound;
use std::sync::Arc;

/// A class of interchangeable nodes.
#[derive(Clone, Debug)]
pub struct NodeClass<'s> {
    /// The properties that the nodes share.
    pub key: Arc<NodeClassKey>,
    /// The nodes of the cluster's class with this key; None if the cluster has no such class.
    pub(super) base: Option<&'s BTreeSet<NodeIx>>,
    /// The nodes of `base` that are in another class in the availability map.
    pub(super) removed: BTreeSet<NodeIx>,
    /// The nodes of this class that are not in `base`.
    pub(super) added: BTreeSet<NodeIx>,
}

impl<'s> NodeClass<'s> {
    /// A class with this key. `base` contains the nodes of the cluster's class with this key.
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

    /// Whether the class has nodes, and jobs may start on them.
    pub(super) fn is_open(&self) -> bool {
        self.len() > 0 && self.key.condition != Joinable::Alone
    }

    /// The nodes of the class, in no particular order.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeIx> {
        let stayed = self
            .base
            .into_iter()
            .flatten()
            .filter(|ix| !self.removed.contains(ix));
        stayed.chain(&self.added).copied()
    }

    /// The first node of the class from `bound` on; None if there is none.
    pub(super) fn first(&self, bound: Bound<NodeIx>) -> Option<NodeIx> {
        let range = (bound, Bound::Unbounded);
        let base = self
            .base
            .and_then(|base| base.range(range).find(|ix| !self.removed.contains(ix)));
        let added = self.added.range(range).next();
        base.into_iter().chain(added).min().copied()
    }
}

/// The number of nodes of a class, and its properties except the free amounts and the barred users.
#[derive(Clone, Copy, Debug)]
pub struct NodeClassSummary {
    /// The number of nodes.
    pub nodes: u64,
    /// The kind of the nodes.
    pub kind: KindIx,
    /// Which jobs may use the nodes.
    pub condition: Joinable,
    /// Whether each node is the only node of its host.
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

/// The nodes of several classes in order of rank. Each node comes with a number that the caller has
/// assigned to the class, such as the number of chunks that fit.
pub struct MergedNodes<'a> {
    pub(super) buckets: &'a [NodeClass<'a>],
    /// For each class: its rank, its next node, its index in `buckets`, and its number.
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
