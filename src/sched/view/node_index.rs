//! The indexes of the nodes: by host, by kind (equal total resources, attributes and terms of use),
//! and by node class (equal kind and equal free resources).

use super::cluster::{Cluster, NodeIx};
use crate::sched::amounts::{add, subtract};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Cluster {
    /// Adds a node to its host. If it is the second node of the host, the node class of the first
    /// node changes.
    pub(super) fn join_host(&mut self, ix: NodeIx) {
        let host = self.node(ix).host.clone();
        let first = self.only_node_of(&host);
        if let Some(first) = first {
            self.remove_from_class_indexes(first);
        }
        self.composite.extend(first.map(|_| host.clone()));
        self.hosts.entry(host).or_default().insert(ix);
        if let Some(first) = first {
            self.add_to_class_indexes(first);
        }
    }

    /// Removes a node from its host. If one node remains on the host, its node class changes.
    pub(super) fn leave_host(&mut self, ix: NodeIx) {
        let host = self.node(ix).host.clone();
        let Some(nodes) = self.hosts.get(&host).filter(|nodes| nodes.contains(&ix)) else {
            return;
        };
        let last = if nodes.len() == 2 {
            nodes.iter().copied().find(|&other| other != ix)
        } else {
            None
        };
        if let Some(last) = last {
            self.remove_from_class_indexes(last);
        }
        if last.is_some() {
            self.composite.remove(&host);
        }
        if let Some(nodes) = self.hosts.get_mut(&host) {
            nodes.remove(&ix);
        }
        if self.hosts.get(&host).is_some_and(BTreeSet::is_empty) {
            self.hosts.remove(&host);
        }
        if let Some(last) = last {
            self.add_to_class_indexes(last);
        }
    }

    pub(super) fn only_node_of(&self, host: &str) -> Option<NodeIx> {
        self.hosts
            .get(host)
            .filter(|nodes| nodes.len() == 1)
            .and_then(BTreeSet::first)
            .copied()
    }

    /// Adds a node to all indexes except the index by host; does nothing if the node has no kind.
    pub(super) fn add_to_indexes(&mut self, ix: NodeIx) {
        let Some(kind) = self.node(ix).kind else {
            return;
        };
        self.kinds[kind.0 as usize].nodes += 1;
        add(&mut self.capacity, &self.kinds[kind.0 as usize].empty.free);
        self.add_to_class_indexes(ix);
    }

    /// Removes a node from all indexes except the index by host, and clears its kind. A kind
    /// without nodes becomes unused.
    pub(super) fn remove_from_indexes(&mut self, ix: NodeIx) {
        self.remove_from_class_indexes(ix);
        let Some(kind) = self.node_mut(ix).kind.take() else {
            return;
        };
        let entry = &mut self.kinds[kind.0 as usize];
        subtract(&mut self.capacity, &entry.empty.free);
        entry.nodes -= 1;
        if entry.nodes == 0 {
            self.kind_index.remove(&entry.key);
            self.unused_kinds.push(kind);
        }
    }

    /// Adds a node to the indexes by kind and by node class.
    pub(super) fn add_to_class_indexes(&mut self, ix: NodeIx) {
        self.edition += 1;
        if let Some(kind) = self.node(ix).kind {
            let solo = self.is_solo(ix);
            self.configured.entry((kind, solo)).or_default().insert(ix);
        }
        self.add_to_class(ix);
    }

    /// Removes a node from the indexes by kind and by node class.
    pub(super) fn remove_from_class_indexes(&mut self, ix: NodeIx) {
        self.edition += 1;
        self.remove_from_class(ix);
        if let Some(kind) = self.node(ix).kind {
            let place = (kind, self.is_solo(ix));
            if let Some(nodes) = self.configured.get_mut(&place) {
                nodes.remove(&ix);
                if nodes.is_empty() {
                    self.configured.remove(&place);
                }
            }
        }
    }

    /// Adds a node to the index by node class; does nothing if the node is not usable.
    pub(super) fn add_to_class(&mut self, ix: NodeIx) {
        if let Some(key) = self.key_of(ix, &self.node(ix).room) {
            self.buckets.entry(Arc::new(key)).or_default().insert(ix);
        }
    }

    /// Removes a node from the index by node class. To be called before its free resources change,
    /// because the class depends on them.
    pub(super) fn remove_from_class(&mut self, ix: NodeIx) {
        let Some(key) = self.key_of(ix, &self.node(ix).room) else {
            return;
        };
        if let Some(nodes) = self.buckets.get_mut(&key) {
            nodes.remove(&ix);
            if nodes.is_empty() {
                self.buckets.remove(&key);
            }
        }
    }
}
