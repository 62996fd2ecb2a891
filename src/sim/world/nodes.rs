//! The nodes of a world, which come, go, and change.

use super::World;
use crate::model::job::event::Event;
use crate::model::job::{Job, Usage};
use crate::model::job_id::JobId;
use crate::model::node::{Node, NodeFacts};
use crate::model::resource::ResourceValue;
use crate::model::trigger::Trigger;
use crate::server::node_reports;

impl World {
    /// Adds a node, or changes what it offers.
    pub fn set_node(&mut self, facts: NodeFacts) {
        let now = self.server.now;
        let node = match self.server.node(&facts.name).cloned() {
            Some(node) => Node { facts, ..node },
            None => Node {
                facts,
                offline: false,
                up: true,
                boot: "1".to_string(),
                comment: None,
                changed: now,
                used: None,
                maintenance: vec![],
                directory: None,
                refused: None,
            },
        };
        self.server.set_node(node);
    }

    /// Lets a node offer this much of a resource.
    pub(super) fn offer(&mut self, name: &str, resource: &str, text: &str) -> Result<(), String> {
        let value = self.value(resource, text)?;
        self.change_facts(name, |facts| {
            facts.available.insert(resource.to_string(), value);
            number(facts, 0);
        })
    }

    /// Sets how much of a resource of a node is really in use.
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
        let known = &self.known_node(name)?.facts;
        let mut facts = known.clone();
        change(&mut facts);
        let is_measure = facts.as_measured_in(known) == *known;
        if is_measure {
            self.server.measure(name, facts);
            // schedd would look at the next poll, which a simulation does not have.
            self.server.want_cycle(Trigger::Node(name.to_string()));
        } else {
            self.set_node(facts);
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
            .ok_or_else(|| format!("`{text}` is no value of `{resource}`"))
    }

    /// Takes a node out of service, or puts it back.
    pub fn mark_offline(&mut self, name: &str, offline: bool) -> Result<(), String> {
        let node = self.known_node(name)?.clone();
        self.server.set_node(Node { offline, ..node });
        Ok(())
    }

    /// A node stops responding: its jobs neither end nor are known to run.
    pub fn lose_node(&mut self, name: &str) -> Result<(), String> {
        self.known_node(name)?;
        node_reports::node_down(&mut self.server, name);
        for id in self.jobs_on(name) {
            let node = name.to_string();
            self.server.happen(id, Event::ContactLost { node });
        }
        Ok(())
    }

    /// A node responds again after it was booted: its jobs are gone.
    pub(super) fn regain_node(&mut self, name: &str) -> Result<(), String> {
        let node = self.known_node(name)?.clone();
        let changed = self.server.now;
        self.server.set_node(Node {
            up: true,
            changed,
            ..node
        });
        for id in self.jobs_on(name) {
            let Some(attempt) = self.open_attempt(id) else {
                continue;
            };
            let walltime = self.ran(id);
            self.server.used(
                id,
                Usage {
                    walltime,
                    ..Usage::default()
                },
            );
            self.close(id);
            let why = "its node was rebooted".to_string();
            self.server.happen(id, Event::Vanished { attempt, why });
        }
        Ok(())
    }

    fn jobs_on(&self, name: &str) -> Vec<JobId> {
        let is_there = |job: &Job| {
            let run = job.life.open_run();
            run.is_some_and(|run| run.shares.iter().any(|share| share.node == name))
        };
        let jobs = self.server.jobs().filter(|job| is_there(job));
        jobs.map(|job| job.id).collect()
    }

    fn known_node(&self, name: &str) -> Result<&Node, String> {
        let node = self.server.node(name);
        node.ok_or_else(|| format!("there is no node `{name}`"))
    }
}

/// Numbers a node's processors and GPUs, the processors from `first` on: those below belong to
/// other nodes of its host.
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
