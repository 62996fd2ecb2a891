//! Nodes: what a host offers and in what condition it is.

use super::resource::ResourceList;
use super::time::Time;
use serde::{Deserialize, Serialize};

/// What noded measured of one node it presents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Unique over all hosts.
    pub name: String,
    /// The host it is part of.
    pub host: String,
    /// `resources_available`: `ncpus`, `mem`, `ngpus`, `arch`, `host`, `vnode`, ...
    pub available: ResourceList,
    /// Processors of the host (`pcpus`).
    pub pcpus: u32,
    /// The host's numbers of the processors that are this node's alone; empty when its jobs are
    /// not to be bound.
    pub cpus: Vec<u16>,
    /// The host's numbers of its GPUs, in the order in which jobs get them.
    pub gpus: Vec<u16>,
    /// Those of them that processes outside the queue use now: no job gets them.
    #[serde(default)]
    pub gpus_outside: Vec<u16>,
    /// What is really in use of `ncpus`, `mem` and `swap`, by jobs and by everybody else (M6). `ncpus`
    /// is the load in whole processors, rounded up. Empty where nobody measures.
    #[serde(default)]
    pub utilized: ResourceList,
    /// The load average over one minute, in thousandths: 1000 keeps one processor busy.
    #[serde(default)]
    pub load: u32,
}

impl NodeFacts {
    /// These, with what changes all the time as in `other`.
    pub fn as_measured_in(&self, other: &NodeFacts) -> NodeFacts {
        NodeFacts { utilized: other.utilized.clone(), load: other.load, ..self.clone() }
    }
}

/// A node as schedd knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// What noded measured, with the administrator's values laid over it.
    pub facts: NodeFacts,
    /// Set by the administrator: accepts no new jobs.
    pub offline: bool,
    /// Whether its noded answers.
    pub up: bool,
    /// The boot of its host, as last told.
    pub boot: String,
    /// Set by the administrator.
    pub comment: Option<String>,
    /// When `offline` or `up` last changed.
    pub changed: Time,
    /// When a job last ended on it.
    pub used: Option<Time>,
}
