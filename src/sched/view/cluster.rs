//! The nodes of the cluster, grouped into classes of interchangeable nodes.
//!
//! A *kind* is a set of nodes with equal total resources, attributes and terms of use. Nodes of
//! one kind with equal free resources (`room`) form a *node class*, and requests are compared with
//! node classes instead of nodes. Host and node names are not part of a kind, because every node
//! has a different name.

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

/// The index of a node in the order of [`super::node_order`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeIx(pub(in crate::sched) u32);

/// The index of a kind in the table of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindIx(pub(in crate::sched) u32);

/// The properties of a node that do not depend on its jobs.
#[derive(Clone, Debug)]
pub struct NodeKind {
    /// The free resources of a node of this kind without jobs.
    pub empty: FreeResources,
    /// The resources that are compared and not counted, without `host` and `vnode`.
    pub attributes: ResourceList,
    /// The configured conditions for jobs on nodes of this kind, such as the access policy.
    pub terms: NodeTerms,
    pub(super) key: Vec<u8>,
    /// The number of nodes of this kind.
    pub nodes: usize,
}

/// The current properties of the nodes of a node class, equal for all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeClassKey {
    /// The kind of the nodes.
    pub kind: KindIx,
    /// Whether each node is the only node of its host.
    pub solo: bool,
    /// Which jobs may use the nodes.
    pub condition: Joinable,
    /// The users who have the maximum number of jobs per user on each of the nodes.
    pub barred: Vec<User>,
    /// The free resources of each node.
    pub free: Amounts,
}

/// The resources of one job on one node.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The amounts of consumables, including system-wide resources.
    pub taken: Amounts,
    /// The owner of the job, and which other jobs may share the node.
    pub owner: JobOwner,
    /// CPU numbers.
    pub cpus: Vec<u16>,
    /// GPU numbers.
    pub gpus: Vec<u16>,
}

/// A node with its jobs.
#[derive(Clone, Debug)]
pub struct ClusterNode {
    /// The unique name of the node.
    pub name: String,
    /// The host of the node.
    pub host: String,
    /// The kind; None before the properties of the node are known, and after its removal.
    pub kind: Option<KindIx>,
    /// Whether the node may get jobs: it is up, and neither offline nor under maintenance.
    pub usable: bool,
    /// The free resources.
    pub room: FreeResources,
    /// The jobs on the node.
    pub tenants: BTreeMap<JobId, Hold>,
    /// The CPU numbers, ascending.
    pub cpus: Vec<u16>,
    /// The GPU numbers, in the order in which jobs get them.
    pub gpus: Vec<u16>,
    /// The GPUs that are used by processes outside of jobs.
    pub gpus_outside: Vec<u16>,
    /// The measured use: (resource index, amount).
    pub utilized: Vec<(usize, i64)>,
    /// The load, in thousandths.
    pub load: u32,
}

/// The nodes of a cluster. Each node name gets a slot: an entry in `nodes` that is never removed.
/// The jobs on a removed node are therefore still known when the node returns. A node is *set* if
/// its properties are known and it has not been removed.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The interned resources.
    pub catalog: Catalog,
    /// The system-wide resources.
    pub pools: Pools,
    /// The per-host resources (counted once on each host) that arrays use, each with the subjobs
    /// that share it.
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
    /// Incremented by each change of a node or of the order of nodes. Changes of a node's jobs,
    /// load and measured use do not count.
    pub(super) edition: u64,
    /// The nodes with GPUs that are used by processes outside of jobs.
    pub(super) with_outside: BTreeSet<NodeIx>,
    /// The nodes with measured use or a maximum load.
    pub(in crate::sched) measured: BTreeSet<NodeIx>,
}

/// A requested value of a resource. Values of nodes are compared with it and not counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// The name of the resource.
    pub resource: String,
    /// The requested value.
    pub value: ResourceValue,
}

impl Need {
    /// Whether a node with the value `found` meets the need. A requested number is a minimum, and
    /// text must be equal. If the node has no value, a requested Boolean must be false.
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

    /// The index of the node with this name, even if the node is removed.
    pub fn find(&self, name: &str) -> Option<NodeIx> {
        self.names.get(name).copied()
    }

    /// The kind with this index.
    pub fn kind(&self, ix: KindIx) -> &NodeKind {
        &self.kinds[ix.0 as usize]
    }

    /// The label of a node, such as `/film/shot3`; None if the node is not set.
    pub fn label(&self, ix: NodeIx) -> Option<&ClusterPath> {
        self.node(ix)
            .kind
            .map(|kind| &self.kind(kind).terms.cluster)
    }

    /// The number of slots: one for each node name since the start.
    pub fn slots(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes that are set, usable or not.
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

    /// The total of each resource. For a resource of nodes, this is the sum over the nodes that are
    /// set, even if they are down.
    pub fn capacity(&self) -> &[i64] {
        &self.capacity
    }

    /// A number that increases with each change of a node or of the order of nodes. Changes of a
    /// node's jobs, load and measured use do not count.
    pub fn edition(&self) -> u64 {
        self.edition
    }

    /// The number of hosts with nodes that are set.
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// The nodes of a host, without nodes that are not set; empty for an unknown host.
    pub fn nodes_of_host(&self, host: &str) -> impl Iterator<Item = NodeIx> + '_ {
        self.hosts.get(host).into_iter().flatten().copied()
    }

    /// The nodes of each host that has more than one node.
    pub fn composite_hosts(&self) -> impl Iterator<Item = &BTreeSet<NodeIx>> {
        self.composite
            .iter()
            .filter_map(|host| self.hosts.get(host))
    }

    /// Whether a job of this owner gets exclusive hosts, at least on nodes of some kind.
    pub fn may_get_whole_hosts(&self, owner: JobOwner) -> bool {
        owner.access == AccessPolicy::Hosts
            || self
                .kinds()
                .any(|(_, kind)| owner.on(kind.empty.bounds) == AccessPolicy::Hosts)
    }

    /// Whether the node is the only node of its host.
    pub fn is_solo(&self, ix: NodeIx) -> bool {
        self.hosts
            .get(&self.node(ix).host)
            .is_none_or(|nodes| nodes.len() < 2)
    }

    /// The usable nodes, by node class.
    pub fn buckets(&self) -> impl Iterator<Item = (&Arc<NodeClassKey>, &BTreeSet<NodeIx>)> {
        self.buckets.iter()
    }

    /// All nodes that are set, by the node class that they would have without jobs.
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

    /// The node class that a node would have with these free resources; None if the node is not
    /// usable.
    pub fn key_of(&self, ix: NodeIx, room: &FreeResources) -> Option<NodeClassKey> {
        let node = self.node(ix);
        if !node.usable {
            return None;
        }
        Some(self.key(node.kind?, self.is_solo(ix), room))
    }

    /// Whether nodes of a kind meet a need that is not for a host or node name.
    pub fn meets(&self, kind: KindIx, need: &Need) -> bool {
        need.is_met_by(self.kind(kind).attributes.get(&need.resource))
    }

    /// Whether a node meets all needs, including needs for a host or node name.
    pub fn node_meets(&self, ix: NodeIx, needs: &[Need]) -> bool {
        let node = self.node(ix);
        needs
            .iter()
            .all(|need| need.is_met_by(self.value(node, &need.resource).as_ref()))
    }

    /// The node's value of a resource that is compared and not counted; None if it has no value.
    pub fn value(&self, node: &ClusterNode, resource: &str) -> Option<ResourceValue> {
        match resource {
            "host" => Some(ResourceValue::String(node.host.clone())),
            "vnode" => Some(ResourceValue::String(node.name.clone())),
            other => node
                .kind
                .and_then(|kind| self.kind(kind).attributes.get(other).cloned()),
        }
    }

    /// Adds or changes a node; the jobs on the node stay. Returns false if nothing has changed
    /// except load and measured use.
    pub fn set(&mut self, facts: &NodeFacts, usable: bool) -> bool {
        let ix = self.slot(&facts.name, &facts.host);
        self.measure(ix, facts);
        if self.matches_report(ix, facts, usable) {
            return false;
        }
        self.remove_from_indexes(ix);
        self.leave_host(ix);
        let kind = self.intern(facts);
        let node = self.node_mut(ix);
        node.host = facts.host.clone();
        node.kind = Some(kind);
        node.usable = usable;
        node.cpus = sorted(&facts.cpus);
        node.gpus = without_duplicates(&facts.gpus);
        node.gpus_outside = facts.gpus_outside.clone();
        self.update_outside_index(ix);
        self.recompute_free(ix);
        self.join_host(ix);
        self.add_to_indexes(ix);
        true
    }

    /// Whether the report changes nothing except load and measured use, as most reports do.
    fn matches_report(&self, ix: NodeIx, facts: &NodeFacts, usable: bool) -> bool {
        let node = self.node(ix);
        let same_parts =
            node.cpus == sorted(&facts.cpus) && node.gpus == without_duplicates(&facts.gpus);
        let same_parts = same_parts && node.gpus_outside == facts.gpus_outside;
        let same = node.usable == usable && node.host == facts.host && same_parts;
        same && node
            .kind
            .is_some_and(|kind| self.kind(kind).key == self.kind_key(facts))
    }

    /// Removes a node from the cluster. The jobs on the node stay known.
    pub fn remove(&mut self, name: &str) {
        if let Some(ix) = self.find(name) {
            self.remove_from_indexes(ix);
            self.leave_host(ix);
            self.node_mut(ix).usable = false;
        }
    }

    /// Adds a job with its resources to a node, or replaces the resources of the job there. The
    /// node need not be set.
    pub fn occupy(&mut self, ix: NodeIx, job: JobId, hold: Hold) {
        self.remove_from_class(ix);
        self.restore_outside(ix);
        self.pools.take(&hold.taken);
        let node = Arc::make_mut(&mut self.nodes[ix.0 as usize]);
        node.room.admit(&hold.taken, hold.owner);
        if let Some(before) = node.tenants.insert(job, hold) {
            node.room.dismiss(&before.taken, before.owner);
            self.pools.give(&before.taken);
        }
        self.withhold_outside(ix);
        self.add_to_class(ix);
    }

    /// Removes a job from a node.
    pub fn vacate(&mut self, ix: NodeIx, job: JobId) {
        self.remove_from_class(ix);
        self.restore_outside(ix);
        let node = Arc::make_mut(&mut self.nodes[ix.0 as usize]);
        if let Some(hold) = node.tenants.remove(&job) {
            node.room.dismiss(&hold.taken, hold.owner);
            self.pools.give(&hold.taken);
        }
        self.withhold_outside(ix);
        self.add_to_class(ix);
    }

    /// Ensures that the node of every share has a slot.
    pub fn reserve_slots(&mut self, shares: &[NodeShare]) {
        for share in shares {
            self.slot(&share.node, &share.host);
        }
    }

    /// The resources of these shares, summed for each node. The error names a node without a slot.
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

    /// The slot of a node name; adds a slot if the name is new.
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

    /// The kind of a node with these facts; adds the kind if it is new.
    fn intern(&mut self, facts: &NodeFacts) -> KindIx {
        let key = self.kind_key(facts);
        if let Some(&known) = self.kind_index.get(&key) {
            return known;
        }
        let (free, attributes) = self.split_counted(&facts.available);
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

    /// A sortable key that is equal for equal kinds. Resource values themselves have no order.
    fn kind_key(&self, facts: &NodeFacts) -> Vec<u8> {
        // Writing plain data into a vector cannot fail.
        postcard::to_stdvec(&(self.split_counted(&facts.available), &facts.terms))
            .unwrap_or_default()
    }

    /// Separates the resources that are counted from those that are only compared. Omits `host` and
    /// `vnode`.
    fn split_counted(&self, available: &ResourceList) -> (Amounts, ResourceList) {
        let mut capacity = self.catalog.node_zeros();
        // The hardware does not limit virtual memory, so `vmem` is unlimited unless configured.
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
    fn recompute_free(&mut self, ix: NodeIx) {
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

    /// All nodes of the hosts that a job of this owner has exclusively if it runs on `nodes`.
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

fn without_duplicates(numbers: &[u16]) -> Vec<u16> {
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
