//! Nodes: a node is a set of resources of a host (PBS's vnode).

use crate::model::job_id::JobId;
use crate::model::request::cluster_path::{ClusterPath, Restriction};
use crate::model::request::placement_policy::NodeAccess;
use crate::model::request::select::Sharing;
use crate::model::resource::ResourceList;
use crate::model::time::Time;
use serde::{Deserialize, Serialize};

/// Facts that noded reports for one of its nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Node name, unique over all hosts.
    pub name: String,
    /// Host name.
    pub host: String,
    /// Resources (`resources_available`): `ncpus`, `mem`, `ngpus`, `arch`, `host`, `vnode`, ...
    pub available: ResourceList,
    /// Number of processors of the host (`pcpus`).
    pub pcpus: u32,
    /// Processors that belong to this node alone, by their numbers in the operating system; empty
    /// if jobs are not bound to processors.
    pub cpus: Vec<u16>,
    /// GPUs in order of allocation, by their numbers on the host.
    pub gpus: Vec<u16>,
    /// GPUs in use by processes that belong to no job. No job gets these GPUs.
    #[serde(default)]
    pub gpus_outside: Vec<u16>,
    /// Measured use of `ncpus`, `mem` and `swap` by all processes of the host, divided equally
    /// among the nodes of the host (M6). The use of `ncpus` is `load` in whole processors, rounded
    /// up. Empty without measurement.
    #[serde(default)]
    pub utilized: ResourceList,
    /// One-minute load average of the host, in thousandths, divided equally among the nodes of the
    /// host. A load of 1000 keeps one processor busy.
    #[serde(default)]
    pub load: u32,
    /// Administrator's settings for the node.
    #[serde(default)]
    pub terms: NodeTerms,
}

/// Administrator's settings for a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTerms {
    /// Whether jobs share the node (PBS's `sharing`).
    pub sharing: NodeSharing,
    /// Restriction on which jobs may run on the node at the same time (M46).
    pub access: NodeAccess,
    /// Maximum number of running jobs (M48; PBS's `max_running`).
    pub max_jobs: Option<u32>,
    /// Maximum number of running jobs of one user (PBS's `max_user_run`).
    pub max_user_jobs: Option<u32>,
    /// Maximum load in thousandths; None for no maximum.
    pub max_load: Option<u32>,
    /// Effect of `max_load`.
    pub adjust: Adjust,
    /// Position in the tree of clusters (Q19).
    pub cluster: ClusterPath,
    /// Host groups that the node belongs to (Q24).
    pub groups: Vec<String>,
    /// The node accepts jobs of these clusters; None for all.
    pub restrictions: Option<Restriction>,
    /// Value of `PRIORITY` in the expression that ranks nodes (M8f).
    pub priority: i32,
}

named! {
    /// Whether jobs share a node (PBS's node attribute `sharing`).
    NodeSharing {
        /// Shared unless the job requests exclusive use.
        DefaultShared = "default_shared",
        /// Exclusive unless the job requests sharing.
        DefaultExcl = "default_excl",
        /// Exclusive use of the whole host unless the job requests sharing or an exclusive node.
        DefaultExclhost = "default_exclhost",
        /// Always shared.
        IgnoreExcl = "ignore_excl",
        /// Always exclusive.
        ForceExcl = "force_excl",
        /// Always exclusive, with the whole host.
        ForceExclhost = "force_exclhost",
    }
}

impl NodeSharing {
    /// Returns the sharing that applies to a job that requests `requested`.
    pub fn resolve(self, requested: Sharing) -> Sharing {
        match (self, requested) {
            (NodeSharing::IgnoreExcl, _) => Sharing::Shared,
            (NodeSharing::ForceExclhost, _) | (NodeSharing::ForceExcl, Sharing::Exclhost) => {
                Sharing::Exclhost
            }
            (NodeSharing::ForceExcl, _) | (NodeSharing::DefaultExcl, Sharing::Default) => {
                Sharing::Excl
            }
            (NodeSharing::DefaultExclhost, Sharing::Default) => Sharing::Exclhost,
            (NodeSharing::DefaultShared, Sharing::Default) => Sharing::Shared,
            (_, requested) => requested,
        }
    }
}

named! {
    /// Effect of a node's `max_load` (M48).
    Adjust {
        /// While the load is at least `max_load`, the node accepts no more jobs.
        State = "state",
        /// The number of free processors is at most `max_load` minus the load.
        Procs = "procs",
    }
}

impl NodeFacts {
    /// Returns a copy of these facts with the measured usage and load from `other`.
    pub fn as_measured_in(&self, other: &NodeFacts) -> NodeFacts {
        NodeFacts {
            utilized: other.utilized.clone(),
            load: other.load,
            ..self.clone()
        }
    }
}

impl Node {
    /// Adds (`is_wanted`) or removes a job that is suspended for maintenance of the node.
    pub fn maintain(&mut self, job: JobId, is_wanted: bool) {
        self.maintenance.retain(|known| *known != job);
        self.maintenance.extend(is_wanted.then_some(job));
    }

    /// Tests whether the node can get jobs. It must respond, and must be neither offline nor under
    /// maintenance.
    pub fn is_usable(&self) -> bool {
        self.up && !self.offline && self.maintenance.is_empty()
    }
}

/// State of a node in schedd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Facts reported by noded, with the administrator's values applied.
    pub facts: NodeFacts,
    /// The administrator or a failed hook has set the node offline, so that it accepts no new jobs.
    pub offline: bool,
    /// Operator who set the node offline, `user@host`. None if the node is online, or if a failed
    /// hook set it offline.
    #[serde(default)]
    pub offline_by: Option<String>,
    /// True while noded responds.
    pub up: bool,
    /// Latest reported boot id of the host.
    pub boot: String,
    /// Comment, such as the reason why the node is offline.
    pub comment: Option<String>,
    /// Time of the last change of `offline` or `up`.
    pub changed: Time,
    /// Time of the last job end on the node.
    pub used: Option<Time>,
    /// Jobs suspended for maintenance of the node (`maintenance_jobs`). The node accepts no new
    /// jobs while this list contains a job.
    #[serde(default)]
    pub maintenance: Vec<JobId>,
    /// Identity of the state directory of the noded that schedd accepted last for this node. None
    /// before the first noded connects, and after the host was declared gone.
    #[serde(default)]
    pub directory: Option<String>,
    /// Reason why schedd refused a noded for this node; None once schedd has accepted a noded.
    #[serde(default)]
    pub refused: Option<String>,
}

impl Node {
    /// Creates the state of a node at its first registration.
    pub fn new(facts: NodeFacts, boot: String, now: Time) -> Node {
        Node {
            facts,
            offline: false,
            offline_by: None,
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
