//! The nodes of the cluster, grouped into classes of interchangeable nodes.
//!
//! A *kind* is the capacity and the attributes of a node. Nodes of one kind with equal free
//! resources (`room`) form a *class*, and requests are compared with classes instead of nodes. Host
//! and node names are not part of a kind, because every node has its own.

pub use super::free_resources::{FreeResources, Joinable};
use super::node_access::{AccessPolicy, JobCountLimits, JobOwner, User};
use super::node_order::NodeOrder;
use super::pools::Pools;
use super::shared_hosts::{SharedPlace, Sharers};
use crate::model::job::NodeShare;
use crate::model::job_id::JobId;
use crate::model::node::{NodeFacts, NodeTerms};
use crate::model::request::cluster_path::ClusterPath;
use crate::model::resource::{ResourceList, ResourceValue};
use crate::sched::amounts::{Amounts, Catalog, MAX_NODE_AMOUNT, counted};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The index of a node in the order of the nodes (see [`super::node_order`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeIx(pub(in crate::sched) u32);

/// The index of a kind in the table of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindIx(pub(in crate::sched) u32);

/// The fixed properties of a node.
#[derive(Clone, Debug)]
pub struct NodeKind {
    /// Its capacity: the free resources of a node without jobs.
    pub empty: FreeResources,
    /// Attributes that are only compared, without `host` and `vnode`.
    pub attributes: ResourceList,
    /// The terms on which jobs may use its nodes.
    pub terms: NodeTerms,
    pub(super) key: Vec<u8>,
    /// The number of nodes of this kind.
    pub nodes: usize,
}

/// The properties that interchangeable nodes share at the moment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeClassKey {
    /// Their kind.
    pub kind: KindIx,
    /// Whether each is the only node of its host.
    pub solo: bool,
    /// Which jobs may use them.
    pub condition: Joinable,
    /// The users who have reached their maximum number of jobs there.
    pub barred: Vec<User>,
    /// Their free resources.
    pub free: Amounts,
}

/// The resources of one job on one node.
#[derive(Clone, Debug)]
pub struct Hold {
    /// Consumables, including system-wide ones.
    pub taken: Amounts,
    /// The owner of the job, and which jobs may share the node.
    pub owner: JobOwner,
    /// CPU numbers.
    pub cpus: Vec<u16>,
    /// GPU numbers.
    pub gpus: Vec<u16>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct ClusterNode {
    /// A unique name.
    pub name: String,
    /// Its host.
    pub host: String,
    /// Its kind; None before it is set, and after its removal.
    pub kind: Option<KindIx>,
    /// Whether it accepts jobs: up and not offline.
    pub usable: bool,
    /// Its free resources.
    pub room: FreeResources,
    /// The jobs on it.
    pub tenants: BTreeMap<JobId, Hold>,
    /// Its CPU numbers, ascending.
    pub cpus: Vec<u16>,
    /// Its GPU numbers, in the order in which jobs get them.
    pub gpus: Vec<u16>,
    /// The GPUs that processes outside the queue use.
    pub gpus_outside: Vec<u16>,
    /// The measured use, by resource.
    pub utilized: Vec<(usize, i64)>,
    /// Its load, in thousandths.
    pub load: u32,
}

/// The nodes of a cluster. A name keeps its slot forever, so that the jobs on a removed node are
/// still known when the node returns.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The interned resources.
    pub catalog: Catalog,
    /// The system-wide resources.
    pub pools: Pools,
    /// Per-host resources that arrays use, with the subjobs that share each.
    pub(in crate::sched) shared: BTreeMap<SharedPlace, Sharers>,
    /// The names of users.
    pub users: BTreeMap<User, String>,
    pub(super) order: NodeOrder,
    pub(super) nodes: Vec<Arc<ClusterNode>>,
    pub(super) names: BTreeMap<String, NodeIx>,
    pub(super) hosts: BTreeMap<String, BTreeSet<NodeIx>>,
    /// The hosts with more than one node.
    pub(super) composite: BTreeSet<String>,
    pub(super) kinds: Vec<NodeKind>,
    pub(super) kind_index: BTreeMap<Vec<u8>, KindIx>,
    pub(super) unused_kinds: Vec<KindIx>,
    pub(super) buckets: BTreeMap<Arc<NodeClassKey>, BTreeSet<NodeIx>>,
    pub(super) configured: BTreeMap<(KindIx, bool), BTreeSet<NodeIx>>,
    pub(super) capacity: Amounts,
    /// Incremented by each change of nodes.
    pub(super) edition: u64,
    /// The nodes with GPUs that are used from outside.
    pub(super) with_outside: BTreeSet<NodeIx>,
    /// The nodes with measured use or a maximum load.
    pub(in crate::sched) measured: BTreeSet<NodeIx>,
}

/// A value that a node must have.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// The resource.
    pub resource: String,
    /// The requested value.
    pub value: ResourceValue,
}

impl Need {
    /// Whether a node with this value meets the need. Numbers are a minimum, an unset boolean is
    /// false, text must be equal.
    pub fn is_met_by(&self, found: Option<&ResourceValue>) -> bool {
        match (&self.value, found) {
            (ResourceValue::Boolean(requested), None) => !requested,
            (ResourceValue::String(_) | ResourceValue::Boolean(_), Some(found)) => {
                self.value == *found
            }
            (requested, Some(found)) => {
                matches!((counted(requested), counted(found)), (Some(a), Some(f)) if a <= f)
            }
            (_, None) => false,
        }
    }

    /// Whether the need is for one host or one node by name.
    pub fn is_pinned(&self) -> bool {
        matches!(self.resource.as_str(), "host" | "vnode")
    }
}

impl Cluster {
    /// A cluster without nodes.
    pub fn new(catalog: Catalog) -> Cluster {
        Cluster {
            capacity: catalog.nothing(),
            pools: Pools::new(&catalog),
            shared: BTreeMap::new(),
            users: BTreeMap::new(),
            order: NodeOrder::default(),
            catalog,
            nodes: Vec::new(),
            names: BTreeMap::new(),
            hosts: BTreeMap::new(),
            composite: BTreeSet::new(),
            kinds: Vec::new(),
            kind_index: BTreeMap::new(),
            unused_kinds: Vec::new(),
            buckets: BTreeMap::new(),
            configured: BTreeMap::new(),
            edition: 0,
            with_outside: BTreeSet::new(),
            measured: BTreeSet::new(),
        }
    }

    /// The node with this index.
    pub fn node(&self, ix: NodeIx) -> &ClusterNode {
        &self.nodes[ix.0 as usize]
    }

    pub(in crate::sched) fn node_mut(&mut self, ix: NodeIx) -> &mut ClusterNode {
        Arc::make_mut(&mut self.nodes[ix.0 as usize])
    }

    /// The index of a name.
    pub fn find(&self, name: &str) -> Option<NodeIx> {
        self.names.get(name).copied()
    }

    /// The kind with this index.
    pub fn kind(&self, ix: KindIx) -> &NodeKind {
        &self.kinds[ix.0 as usize]
    }

    /// The place of a node in the tree of clusters; None if the node is not set.
    pub fn label(&self, ix: NodeIx) -> Option<&ClusterPath> {
        self.node(ix)
            .kind
            .map(|kind| &self.kind(kind).terms.cluster)
    }

    /// The number of slots: of all node names so far.
    pub fn slots(&self) -> usize {
        self.nodes.len()
    }

    /// Nodes that are set, usable or not.
    pub fn present(&self) -> impl Iterator<Item = &ClusterNode> {
        self.nodes
            .iter()
            .map(Arc::as_ref)
            .filter(|node| node.kind.is_some())
    }

    /// The kinds that have nodes.
    pub fn kinds(&self) -> impl Iterator<Item = (KindIx, &NodeKind)> {
        let all = self
            .kinds
            .iter()
            .enumerate()
            .filter(|(_, kind)| kind.nodes > 0);
        all.map(|(place, kind)| (KindIx(place as u32), kind))
    }

    /// The indexes of all slots, in order, including nodes that are not set.
    pub fn indices(&self) -> impl Iterator<Item = NodeIx> + use<> {
        (0..self.nodes.len() as u32).map(NodeIx)
    }

    /// The total of each resource: of all nodes that are set, even if down, and system-wide.
    pub fn capacity(&self) -> &[i64] {
        &self.capacity
    }

    /// The edition of the nodes. It changes with the kinds and with the nodes of each kind.
    pub fn edition(&self) -> u64 {
        self.edition
    }

    /// The number of hosts.
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// The nodes of a host that are set.
    pub fn nodes_of_host(&self, host: &str) -> impl Iterator<Item = NodeIx> + '_ {
        self.hosts.get(host).into_iter().flatten().copied()
    }

    /// The hosts of more than one node, with their nodes.
    pub fn composite_hosts(&self) -> impl Iterator<Item = &BTreeSet<NodeIx>> {
        self.composite
            .iter()
            .filter_map(|host| self.hosts.get(host))
    }

    /// Whether a job of this owner gets exclusive hosts on some kind of node.
    pub fn may_get_whole_hosts(&self, owner: JobOwner) -> bool {
        owner.access == AccessPolicy::Hosts
            || self
                .kinds()
                .any(|(_, kind)| owner.on(kind.empty.bounds) == AccessPolicy::Hosts)
    }

    /// Whether the node is the only one of its host.
    pub fn is_solo(&self, ix: NodeIx) -> bool {
        self.hosts
            .get(&self.node(ix).host)
            .is_none_or(|nodes| nodes.len() < 2)
    }

    /// The usable nodes by class.
    pub fn buckets(&self) -> impl Iterator<Item = (&Arc<NodeClassKey>, &BTreeSet<NodeIx>)> {
        self.buckets.iter()
    }

    /// All nodes that are set, by the class that they would have without jobs.
    pub fn configured(&self) -> impl Iterator<Item = (Arc<NodeClassKey>, &BTreeSet<NodeIx>)> {
        self.configured.iter().map(|(&(kind, solo), nodes)| {
            (
                Arc::new(self.key(kind, solo, &self.kind(kind).empty)),
                nodes,
            )
        })
    }

    fn key(&self, kind: KindIx, solo: bool, room: &FreeResources) -> NodeClassKey {
        NodeClassKey {
            kind,
            solo,
            condition: room.condition(),
            barred: room.barred(),
            free: room.free.clone(),
        }
    }

    /// The class of a node with these free resources; None for a node that accepts no jobs.
    pub fn key_of(&self, ix: NodeIx, room: &FreeResources) -> Option<NodeClassKey> {
        let node = self.node(ix);
        if !node.usable {
            return None;
        }
        Some(self.key(node.kind?, self.is_solo(ix), room))
    }

    /// Whether a kind of node meets a need.
    pub fn meets(&self, kind: KindIx, need: &Need) -> bool {
        need.is_met_by(self.kind(kind).attributes.get(&need.resource))
    }

    /// Whether a node meets all needs, including those for its host and its name.
    pub fn node_meets(&self, ix: NodeIx, needs: &[Need]) -> bool {
        let node = self.node(ix);
        needs
            .iter()
            .all(|need| need.is_met_by(self.value(node, &need.resource).as_ref()))
    }

    /// The node's value of an attribute that is only compared.
    pub fn value(&self, node: &ClusterNode, resource: &str) -> Option<ResourceValue> {
        match resource {
            "host" => Some(ResourceValue::String(node.host.clone())),
            "vnode" => Some(ResourceValue::String(node.name.clone())),
            other => node
                .kind
                .and_then(|kind| self.kind(kind).attributes.get(other).cloned()),
        }
    }

    /// Adds or changes a node; the jobs on it stay. Returns false if nothing changes.
    pub fn set(&mut self, facts: &NodeFacts, usable: bool) -> bool {
        let ix = self.slot(&facts.name, &facts.host);
        self.measure(ix, facts);
        if self.is_as_reported(ix, facts, usable) {
            return false;
        }
        self.unfile(ix);
        self.leave_host(ix);
        let kind = self.intern(facts);
        let node = self.node_mut(ix);
        node.host = facts.host.clone();
        node.kind = Some(kind);
        node.usable = usable;
        node.cpus = sorted(&facts.cpus);
        node.gpus = once_each(&facts.gpus);
        node.gpus_outside = facts.gpus_outside.clone();
        self.note_outside(ix);
        self.settle(ix);
        self.join_host(ix);
        self.file(ix);
        true
    }

    /// Whether the report changes nothing, like most reports.
    fn is_as_reported(&self, ix: NodeIx, facts: &NodeFacts, usable: bool) -> bool {
        let node = self.node(ix);
        let same_parts = node.cpus == sorted(&facts.cpus) && node.gpus == once_each(&facts.gpus);
        let same_parts = same_parts && node.gpus_outside == facts.gpus_outside;
        let same = node.usable == usable && node.host == facts.host && same_parts;
        same && node
            .kind
            .is_some_and(|kind| self.kind(kind).key == self.kind_key(facts))
    }

    /// Removes a node from the cluster; the jobs on it stay known.
    pub fn remove(&mut self, name: &str) {
        if let Some(ix) = self.find(name) {
            self.unfile(ix);
            self.leave_host(ix);
            self.node_mut(ix).usable = false;
        }
    }

    /// Adds a job with its resources to a node, known or not.
    pub fn occupy(&mut self, ix: NodeIx, job: JobId, hold: Hold) {
        self.unfile_bucket(ix);
        self.restore_outside(ix);
        self.pools.take(&hold.taken);
        let node = Arc::make_mut(&mut self.nodes[ix.0 as usize]);
        node.room.admit(&hold.taken, hold.owner);
        if let Some(before) = node.tenants.insert(job, hold) {
            node.room.dismiss(&before.taken, before.owner);
            self.pools.give(&before.taken);
        }
        self.withhold_outside(ix);
        self.file_bucket(ix);
    }

    /// Removes a job from a node.
    pub fn vacate(&mut self, ix: NodeIx, job: JobId) {
        self.unfile_bucket(ix);
        self.restore_outside(ix);
        let node = Arc::make_mut(&mut self.nodes[ix.0 as usize]);
        if let Some(hold) = node.tenants.remove(&job) {
            node.room.dismiss(&hold.taken, hold.owner);
            self.pools.give(&hold.taken);
        }
        self.withhold_outside(ix);
        self.file_bucket(ix);
    }

    /// Ensures that the node of every share has a slot.
    pub fn reserve_slots(&mut self, shares: &[NodeShare]) {
        for share in shares {
            self.slot(&share.node, &share.host);
        }
    }

    /// The resources of shares by node; the error names a node without a slot.
    pub fn holds(
        &self,
        shares: &[NodeShare],
        owner: JobOwner,
    ) -> Result<BTreeMap<NodeIx, Hold>, String> {
        let mut holds = BTreeMap::new();
        for share in shares {
            let ix = self
                .find(&share.node)
                .ok_or_else(|| format!("no node {}", share.node))?;
            let hold: &mut Hold = holds.entry(ix).or_insert_with(|| self.bare_hold(owner));
            for (name, value) in share.taken.iter().chain(&share.pooled) {
                if let (Some(index), Some(amount)) = (self.catalog.index(name), counted(value)) {
                    hold.taken[index] = hold.taken[index].saturating_add(amount);
                }
            }
            hold.cpus.extend(&share.cpus);
            hold.gpus.extend(&share.gpus);
        }
        Ok(holds)
    }

    /// A hold without resources.
    pub fn bare_hold(&self, owner: JobOwner) -> Hold {
        Hold {
            taken: self.catalog.nothing(),
            owner,
            cpus: Vec::new(),
            gpus: Vec::new(),
        }
    }

    /// The slot of a name, added if new.
    fn slot(&mut self, name: &str, host: &str) -> NodeIx {
        if let Some(ix) = self.find(name) {
            return ix;
        }
        let ix = NodeIx(u32::try_from(self.nodes.len()).expect("fewer than 2^32 nodes"));
        self.names.insert(name.to_string(), ix);
        self.nodes.push(Arc::new(ClusterNode {
            name: name.to_string(),
            host: host.to_string(),
            kind: None,
            usable: false,
            room: FreeResources::empty(self.catalog.node_zeros(), JobCountLimits::default()),
            tenants: BTreeMap::new(),
            cpus: Vec::new(),
            gpus: Vec::new(),
            gpus_outside: Vec::new(),
            utilized: Vec::new(),
            load: 0,
        }));
        ix
    }

    /// The kind of a node with these facts, added if new.
    fn intern(&mut self, facts: &NodeFacts) -> KindIx {
        let key = self.kind_key(facts);
        if let Some(&known) = self.kind_index.get(&key) {
            return known;
        }
        let (free, attributes) = self.sort_out(&facts.available);
        let (empty, terms) = (
            FreeResources::empty(free, JobCountLimits::from(&facts.terms)),
            facts.terms.clone(),
        );
        let kind = NodeKind {
            empty,
            attributes,
            terms,
            key: key.clone(),
            nodes: 0,
        };
        let ix = match self.unused_kinds.pop() {
            Some(ix) => ix,
            None => KindIx(u32::try_from(self.kinds.len()).expect("fewer kinds than nodes")),
        };
        match self.kinds.get_mut(ix.0 as usize) {
            Some(place) => *place = kind,
            None => self.kinds.push(kind),
        }
        self.kind_index.insert(key, ix);
        ix
    }

    /// A sortable key, equal for equal kinds: values themselves have no order.
    fn kind_key(&self, facts: &NodeFacts) -> Vec<u8> {
        // Writing plain data into a vector cannot fail.
        postcard::to_stdvec(&(self.sort_out(&facts.available), &facts.terms)).unwrap_or_default()
    }

    /// Divides resources into counted ones and those that are only compared.
    fn sort_out(&self, available: &ResourceList) -> (Amounts, ResourceList) {
        let mut capacity = self.catalog.node_zeros();
        // Hardware does not bound virtual memory: without a configured amount, it is unlimited.
        if !available.contains_key("vmem")
            && let Some(index) = self.catalog.index("vmem")
        {
            capacity[index] = MAX_NODE_AMOUNT;
        }
        let mut attributes = ResourceList::new();
        for (name, value) in available {
            match (self.catalog.index_on_node(name), counted(value)) {
                (Some(index), Some(amount)) => capacity[index] = amount.min(MAX_NODE_AMOUNT),
                _ if name == "host" || name == "vnode" => (),
                _ => drop(attributes.insert(name.clone(), value.clone())),
            }
        }
        (capacity, attributes)
    }

    /// Recomputes the free resources of a node from its capacity and its jobs.
    fn settle(&mut self, ix: NodeIx) {
        let Some(kind) = self.node(ix).kind else {
            return;
        };
        let mut room = self.kind(kind).empty.clone();
        for hold in self.node(ix).tenants.values() {
            room.admit(&hold.taken, hold.owner);
        }
        self.node_mut(ix).room = room;
        self.withhold_outside(ix);
    }

    /// All nodes of the hosts that a job of this owner on `nodes` has exclusively.
    pub fn neighbours<'a>(
        &self,
        owner: JobOwner,
        nodes: impl Iterator<Item = &'a NodeIx>,
    ) -> Vec<NodeIx> {
        let hosts: BTreeSet<&str> = nodes
            .map(|&ix| self.node(ix))
            .filter(|node| {
                let bounds = node.kind.map(|kind| self.kind(kind).empty.bounds);
                owner.on(bounds.unwrap_or_default()) == AccessPolicy::Hosts
            })
            .map(|node| node.host.as_str())
            .collect();
        hosts
            .into_iter()
            .flat_map(|host| self.nodes_of_host(host))
            .collect()
    }
}

fn once_each(numbers: &[u16]) -> Vec<u16> {
    let mut seen = BTreeSet::new();
    numbers
        .iter()
        .copied()
        .filter(|number| seen.insert(*number))
        .collect()
}

fn sorted(numbers: &[u16]) -> Vec<u16> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests;
