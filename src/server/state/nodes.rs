//! Changes of nodes and their measurements.

use crate::model::job::Job;
use crate::model::node::Node;
use crate::model::node::NodeFacts;
use crate::model::trigger::Trigger;
use crate::sched::view::change::Change;
use crate::server::state::ServerState;
use crate::update::Update;
use std::collections::BTreeMap;

/// Records in a started attempt the state directory of the noded that has the attempt's first node.
/// Only a noded with this directory gets the order to start the attempt.
pub(crate) fn record_directory(job: &mut Job, nodes: &BTreeMap<String, Node>) {
    let Some(run) = job.life.run.as_mut() else {
        return;
    };
    let node = run.shares.first().and_then(|share| nodes.get(&share.node));
    run.directory = node.and_then(|node| node.directory.clone());
}

impl ServerState {
    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// Adds or changes a node.
    pub fn set_node(&mut self, mut node: Node) {
        node.used = self.uses.take(&node.facts.name).or(node.used);
        if self.nodes.get(&node.facts.name) == Some(&node) {
            return;
        }
        let name = node.facts.name.clone();
        let before = self.nodes.get(&name).cloned();
        // The last use and the comment of a node do not affect cycles.
        if before
            .as_ref()
            .is_none_or(|before| Change::of_node(before) != Change::of_node(&node))
        {
            self.cluster.make(Change::of_node(&node));
            self.want_cycle(Trigger::Node(name.clone()));
        }
        self.transaction.nodes.entry(name.clone()).or_insert(before);
        self.transaction
            .changes
            .push(Update::Node(Box::new(node.clone())));
        self.nodes.insert(name, node);
    }

    /// Removes a node. The node returns when its noded reports it again.
    pub fn forget_node(&mut self, name: &str) {
        let Some(before) = self.nodes.remove(name) else {
            return;
        };
        self.transaction
            .nodes
            .entry(name.to_string())
            .or_insert(Some(before));
        self.forget_reported_facts(name);
        self.remove_from_view(name);
        self.transaction
            .changes
            .push(Update::NodeGone(name.to_string()));
        self.want_cycle(Trigger::Node(name.to_string()));
    }

    /// Records measurements of a node, such as its load. If the policy uses measurements, they are
    /// written with the current transaction and trigger a cycle. `pbsnodes`, which reads the spool,
    /// then shows the same values as the reasons of waiting jobs. If the policy does not use
    /// measurements, [`ServerState::write_uses`] writes them later. A cycle uses the last recorded
    /// values (X21).
    pub fn measure(&mut self, name: &str, facts: NodeFacts) {
        let Some(node) = self.nodes.get_mut(name) else {
            return;
        };
        node.facts = facts;
        self.cluster.make(Change::of_node(node));
        if self.setup.policy.placement.uses_measurements() {
            self.transaction
                .changes
                .push(Update::Node(Box::new(node.clone())));
            self.want_cycle(Trigger::Node(name.to_string()));
        } else {
            self.measured.insert(name.to_string());
        }
    }

    /// Writes the measurements and the times of last use that are not on disk yet.
    pub fn write_uses(&mut self) {
        let measured = std::mem::take(&mut self.measured);
        let nodes = measured.iter().filter_map(|name| self.nodes.get(name));
        self.transaction
            .changes
            .extend(nodes.map(|node| Update::Node(Box::new(node.clone()))));
        for name in self.uses.nodes() {
            match self.nodes.get(&name).cloned() {
                Some(node) => self.set_node(node),
                None => drop(self.uses.take(&name)),
            }
        }
    }
}
