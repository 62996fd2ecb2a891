//! Nodes: what a host offers and in what condition it is.

use crate::model::job_id::JobId;
use crate::model::request::cluster_path::{ClusterPath, Restriction};
use crate::model::request::placement_policy::NodeAccess;
use crate::model::request::select::Sharing;
use crate::model::resource::ResourceList;
use crate::model::time::Time;
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
    /// What is really in use of `ncpus`, `mem` and `swap`, by jobs and by everybody else (M6).
    /// `ncpus` is the load in whole processors, rounded up. Empty where nobody measures.
    #[serde(default)]
    pub utilized: ResourceList,
    /// The load average over one minute, in thousandths: 1000 keeps one processor busy.
    #[serde(default)]
    pub load: u32,
    /// What the administrator says of it beyond what it has.
    #[serde(default)]
    pub terms: NodeTerms,
}

/// On what terms jobs get a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTerms {
    /// Whether jobs share it that do not say (PBS's `sharing`).
    pub sharing: NodeSharing,
    /// Who else may be where a job is (M46).
    pub access: NodeAccess,
    /// So many jobs at once at most (M48; PBS's `max_running`).
    pub max_jobs: Option<u32>,
    /// So many jobs of one user at once at most (PBS's `max_user_run`).
    pub max_user_jobs: Option<u32>,
    /// No more jobs above this load, in thousandths.
    pub max_load: Option<u32>,
    /// What is done when the load comes near that.
    pub adjust: Adjust,
    /// Where it stands in the tree of clusters (Q19).
    pub cluster: ClusterPath,
    /// The groups of hosts it belongs to (Q24).
    pub groups: Vec<String>,
    /// The clusters whose jobs it takes; None for all.
    pub restrictions: Option<Restriction>,
    /// What stands for `PRIORITY` where nodes are ranked (M8f).
    pub priority: i32,
}

named! {
    /// Whether jobs share a node (PBS's node attribute `sharing`).
    NodeSharing {
        /// Unless the job wants it alone.
        DefaultShared = "default_shared",
        /// Only if the job says so.
        DefaultExcl = "default_excl",
        /// Only if the job says so; else it gets the whole host.
        DefaultExclhost = "default_exclhost",
        /// Always.
        IgnoreExcl = "ignore_excl",
        /// Never.
        ForceExcl = "force_excl",
        /// Never, and a job gets the whole host.
        ForceExclhost = "force_exclhost",
    }
}

impl NodeSharing {
    /// What a job that says `asked` gets here.
    pub fn resolve(self, asked: Sharing) -> Sharing {
        match (self, asked) {
            (NodeSharing::IgnoreExcl, _) => Sharing::Shared,
            (NodeSharing::ForceExclhost, _) | (NodeSharing::ForceExcl, Sharing::Exclhost) => {
                Sharing::Exclhost
            }
            (NodeSharing::ForceExcl, _) | (NodeSharing::DefaultExcl, Sharing::Default) => {
                Sharing::Excl
            }
            (NodeSharing::DefaultExclhost, Sharing::Default) => Sharing::Exclhost,
            (NodeSharing::DefaultShared, Sharing::Default) => Sharing::Shared,
            (_, said) => said,
        }
    }
}

named! {
    /// What a node's `max_load` does (M48).
    Adjust {
        /// Above it, the node takes no jobs.
        State = "state",
        /// Only so many processors are free as are missing to it.
        Procs = "procs",
    }
}

impl NodeFacts {
    /// These, with what changes all the time as in `other`.
    pub fn as_measured_in(&self, other: &NodeFacts) -> NodeFacts {
        NodeFacts {
            utilized: other.utilized.clone(),
            load: other.load,
            ..self.clone()
        }
    }
}

impl Node {
    /// A suspended job keeps it under maintenance from now on, or no more.
    pub fn maintain(&mut self, job: JobId, is_wanted: bool) {
        self.maintenance.retain(|known| *known != job);
        self.maintenance.extend(is_wanted.then_some(job));
    }

    /// Whether it may be given jobs: it answers, and nobody has taken it out of service.
    pub fn is_usable(&self) -> bool {
        self.up && !self.offline && self.maintenance.is_empty()
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
    /// The jobs that are suspended so that it can be maintained (`maintenance_jobs`): accepts no
    /// new jobs.
    #[serde(default)]
    pub maintenance: Vec<JobId>,
    /// The identity of the state directory of the noded that was admitted last. None before the
    /// first one, and after the host was declared gone.
    #[serde(default)]
    pub directory: Option<String>,
    /// Why the noded that presented it last was refused; None once one is admitted.
    #[serde(default)]
    pub refused: Option<String>,
}

impl Node {
    /// A node that responds for the first time.
    pub fn new(facts: NodeFacts, boot: String, now: Time) -> Node {
        Node {
            facts,
            offline: false,
            up: true,
            boot,
            comment: None,
            changed: now,
            used: None,
            maintenance: Vec::new(),
            directory: None,
            refused: None,
        }
    }
}
