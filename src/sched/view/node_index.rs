//! The indexes of the nodes: by host, by kind, and by free resources.

use super::cluster::{Cluster, NodeIx};
use crate::sched::amounts::{add, subtract};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Cluster {
    /// Adds a node to its host. A second node changes the class of the first.
    pub(super) fn join_host(&mut self, ix: NodeIx) {
        let host = self.node(ix).host.clone();
        let first = self.only_node_of(&host);
        if let Some(first) = first {
            self.unfile_place(first);
        }
        self.composite.extend(first.map(|_| host.clone()));
        self.hosts.entry(host).or_default().insert(ix);
        if let Some(first) = first {
            self.file_place(first);
        }
    }

    /// Removes a node from its host. The class of a single remaining node changes.
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
            self.unfile_place(last);
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
            self.file_place(last);
        }
    }

    pub(super) fn only_node_of(&self, host: &str) -> Option<NodeIx> {
        self.hosts
            .get(host)
            .filter(|nodes| nodes.len() == 1)
            .and_then(BTreeSet::first)
            .copied()
    }

    /// Adds a node to all indexes; does nothing if the node is not set.
    pub(super) fn file(&mut self, ix: NodeIx) {
        let Some(kind) = self.node(ix).kind else {
            return;
        };
        self.kinds[kind.0 as usize].nodes += 1;
        add(&mut self.capacity, &self.kinds[kind.0 as usize].empty.free);
        self.file_place(ix);
    }

    /// Removes a node from all indexes, and drops its kind.
    pub(super) fn unfile(&mut self, ix: NodeIx) {
        self.unfile_place(ix);
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

    pub(super) fn file_place(&mut self, ix: NodeIx) {
        self.edition += 1;
        if let Some(kind) = self.node(ix).kind {
            let solo = self.is_solo(ix);
            self.configured.entry((kind, solo)).or_default().insert(ix);
        }
        self.file_bucket(ix);
    }

    pub(super) fn unfile_place(&mut self, ix: NodeIx) {
        self.edition += 1;
        self.unfile_bucket(ix);
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

    pub(super) fn file_bucket(&mut self, ix: NodeIx) {
        if let Some(key) = self.key_of(ix, &self.node(ix).room) {
            self.buckets.entry(Arc::new(key)).or_default().insert(ix);
        }
    }

    pub(super) fn unfile_bucket(&mut self, ix: NodeIx) {
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
