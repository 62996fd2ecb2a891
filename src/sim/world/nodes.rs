//! Nodes that come, go, and change.

use super::World;
use crate::model::job::Job;
use crate::model::job::event::Event;
use crate::model::job_id::JobId;
use crate::model::node::{Node, NodeFacts};
use crate::model::resource::Value;
use crate::model::trigger::Trigger;
use crate::sched::view::change::Change;
use std::borrow::Cow;

impl World {
    /// A node is there, or offers something else than before.
    pub fn set_node(&mut self, facts: NodeFacts) {
        let name = facts.name.clone();
        let node = match self.nodes.remove(&name) {
            Some(node) => Node { facts, ..node },
            None => {
                let boot = "1".to_string();
                Node {
                    facts,
                    offline: false,
                    up: true,
                    boot,
                    comment: None,
                    changed: self.now,
                    used: None,
                    maintenance: vec![],
                    directory: None,
                    refused: None,
                }
            }
        };
        self.nodes.insert(name.clone(), node);
        self.see_node(&name);
    }

    /// A node offers this much of a resource now; the error names what is not known.
    pub(super) fn offer(&mut self, name: &str, resource: &str, text: &str) -> Result<(), String> {
        let value = self.value(resource, text)?;
        self.change_facts(name, |facts| {
            facts.available.insert(resource.to_string(), value);
            number(facts, 0);
        })
    }

    /// So much of a resource of a node is really in use, by whomever.
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

    /// Processes outside the queue use these GPUs of a node.
    pub(super) fn use_gpus_outside(&mut self, name: &str, gpus: Vec<u16>) -> Result<(), String> {
        self.change_facts(name, |facts| facts.gpus_outside = gpus)
    }

    pub(super) fn change_facts(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut NodeFacts),
    ) -> Result<(), String> {
        let mut facts = self.known_node(name)?.facts.clone();
        change(&mut facts);
        self.set_node(facts);
        Ok(())
    }

    pub(super) fn value(&self, resource: &str, text: &str) -> Result<Value, String> {
        let kind = self
            .resources
            .get(resource)
            .ok_or_else(|| format!("there is no resource `{resource}`"))?
            .kind;
        Value::parse(kind, text).ok_or_else(|| format!("`{text}` is no value of `{resource}`"))
    }

    /// An operator takes a node out of service, or puts it back.
    pub fn mark_offline(&mut self, name: &str, offline: bool) -> Result<(), String> {
        self.change_node(name, |node| node.offline = offline)
    }

    /// A node stops answering: whatever runs on it is neither ended nor known to run.
    pub fn lose_node(&mut self, name: &str) -> Result<(), String> {
        self.change_node(name, |node| node.up = false)?;
        for id in self.on_node(name) {
            self.happen(
                id,
                Event::ContactLost {
                    node: name.to_string(),
                },
            );
        }
        Ok(())
    }

    /// A node answers again, after it was booted: what ran on it is gone.
    pub(super) fn regain_node(&mut self, name: &str) -> Result<(), String> {
        self.change_node(name, |node| node.up = true)?;
        for id in self.on_node(name) {
            let Some(attempt) = self.open_attempt(id) else {
                continue;
            };
            self.close(id);
            self.happen(
                id,
                Event::Vanished {
                    attempt,
                    why: "its node was rebooted".to_string(),
                },
            );
        }
        Ok(())
    }

    fn on_node(&self, name: &str) -> Vec<JobId> {
        let is_there = |job: &&Job| {
            let run = job.life.open_run();
            run.is_some_and(|run| run.shares.iter().any(|share| share.node == name))
        };
        self.jobs
            .values()
            .filter(is_there)
            .map(|job| job.id)
            .collect()
    }

    fn known_node(&self, name: &str) -> Result<&Node, String> {
        self.nodes
            .get(name)
            .ok_or_else(|| format!("there is no node `{name}`"))
    }

    fn change_node(&mut self, name: &str, change: impl FnOnce(&mut Node)) -> Result<(), String> {
        change(
            self.nodes
                .get_mut(name)
                .ok_or_else(|| format!("there is no node `{name}`"))?,
        );
        self.see_node(name);
        Ok(())
    }

    /// A job keeps its nodes under maintenance from now on, or no more.
    pub(super) fn maintain_nodes(&mut self, id: JobId, is_wanted: bool) {
        let run = self.jobs.get(&id).and_then(|job| job.life.run.as_ref());
        let names: Vec<String> = run
            .iter()
            .flat_map(|run| &run.shares)
            .map(|share| share.node.clone())
            .collect();
        for name in names {
            // A job may be on a node that is no more.
            let _ = self.change_node(&name, |node| node.maintain(id, is_wanted));
        }
    }

    fn see_node(&mut self, name: &str) {
        self.want_cycle(Trigger::Node(name.to_string()));
        if let Some(node) = self.nodes.get(name) {
            let change = Change::Node {
                facts: Cow::Borrowed(&node.facts),
                usable: node.is_usable(),
            };
            self.state.make(&change);
        }
    }
}

/// Numbers a node's processors and GPUs, the processors from `first` on: those below belong to
/// other nodes of its host.
pub fn number(facts: &mut NodeFacts, first: u16) {
    let count = |name: &str| {
        facts
            .available
            .get(name)
            .and_then(Value::amount)
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
