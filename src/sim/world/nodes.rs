//! Adds and changes the nodes of a world, and simulates the loss and the return of nodes.

use super::{BOOT, World};
use crate::model::node::{Node, NodeFacts};
use crate::model::resource::ResourceValue;
use crate::model::trigger::Trigger;
use crate::server::inventory::Inventory;
use crate::server::node_reports;

impl World {
    /// Adds a node.
    pub fn add_node(&mut self, facts: NodeFacts, up: bool, offline: bool) {
        let node = Node::new(facts, BOOT.to_string(), self.server.now);
        self.server.set_node(Node {
            up,
            offline,
            ..node
        });
    }

    /// Sets the amount of a resource that a node offers.
    pub(super) fn offer(&mut self, name: &str, resource: &str, text: &str) -> Result<(), String> {
        let value = self.value(resource, text)?;
        self.change_facts(name, |facts| {
            facts.available.insert(resource.to_string(), value);
            number(facts, 0);
        })
    }

    /// Sets the measured use of a node's resource, as a node's sensor would report it.
    pub(super) fn note_use(
        &mut self,
        name: &str,
        resource: &str,
        text: &str,
    ) -> Result<(), String> {
        let value = self.value(resource, text)?;
        self.change_facts(name, |facts| {
            drop(facts.utilized.insert(resource.to_string(), value))
        })
    }

    pub(super) fn change_facts(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut NodeFacts),
    ) -> Result<(), String> {
        let node = self.known_node(name)?.clone();
        let mut facts = node.facts.clone();
        change(&mut facts);
        if facts.as_measured_in(&node.facts) == node.facts {
            self.server.measure(name, facts);
            // `measure` requests a cycle only if the policy uses measurements. Otherwise schedd
            // waits for the next periodic cycle. A simulation has no periodic cycles, so request a
            // cycle.
            self.server.want_cycle(Trigger::Node(name.to_string()));
        } else {
            self.server.set_node(Node { facts, ..node });
        }
        Ok(())
    }

    pub(super) fn value(&self, resource: &str, text: &str) -> Result<ResourceValue, String> {
        let kind = self
            .server
            .setup
            .resources
            .get(resource)
            .ok_or_else(|| format!("there is no resource `{resource}`"))?
            .kind;
        ResourceValue::parse(kind, text)
            .ok_or_else(|| format!("`{text}` is not a value of `{resource}`"))
    }

    /// Makes a node stop responding. The node's jobs keep their states until it responds again.
    pub fn lose_node(&mut self, name: &str) -> Result<(), String> {
        self.known_node(name)?;
        node_reports::node_down(&mut self.server, name);
        node_reports::lose_contact(&mut self.server, name);
        Ok(())
    }

    /// Makes a node respond again after a boot. The boot has ended the node's jobs.
    pub(super) fn regain_node(&mut self, name: &str) -> Result<(), String> {
        let node = self.known_node(name)?.clone();
        let inventory = Inventory {
            boot: "another".to_string(),
            directory: String::new(),
            nodes: vec![node.facts.clone()],
            attempts: Vec::new(),
        };
        let changed = self.server.now;
        self.server.set_node(Node {
            up: true,
            changed,
            ..node
        });
        for job in node_reports::running_on(&self.server, |node| node == name) {
            if let Some(run) = job.life.open_run() {
                self.server.set_used(job.id, self.used(run));
                self.record_end(job.id);
            }
        }
        node_reports::lose_missing(&mut self.server, &inventory);
        Ok(())
    }

    fn known_node(&self, name: &str) -> Result<&Node, String> {
        let node = self.server.node(name);
        node.ok_or_else(|| format!("there is no node `{name}`"))
    }
}

/// Numbers a node's processors and GPUs. The first processor keeps its number. If the node has had
/// no processors, the first number is `first`. GPUs are numbered from 0.
pub fn number(facts: &mut NodeFacts, first: u16) {
    let count = |name: &str| {
        facts
            .available
            .get(name)
            .and_then(ResourceValue::amount)
            .unwrap_or(0)
    };
    let (ncpus, ngpus) = (
        count("ncpus").clamp(0, 4096) as u16,
        count("ngpus").clamp(0, 4096) as u16,
    );
    let first = facts.cpus.first().copied().unwrap_or(first);
    facts.cpus = (first..first.saturating_add(ncpus)).collect();
    facts.gpus = (0..ngpus).collect();
    facts.pcpus = u32::from(ncpus);
}
