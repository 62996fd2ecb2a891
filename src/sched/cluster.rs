//! The nodes, filed by what makes them interchangeable.
//!
//! A *kind* is what a node is: its capacity and its attributes. A *room* is what a node has left.
//! Nodes of one kind with equal rooms share a *bucket*, and a request is held against buckets.
//! Host and node names are not part of a kind: no two nodes would be alike.

use super::amounts::{Amounts, Catalog, MOST_OF_A_NODE, add, counted, subtract};
pub use super::room::{Condition, Room};
use super::shape::Need;
use crate::model::job::{JobId, Share};
use crate::model::node::NodeFacts;
use crate::model::resource::{ResourceList, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A node's place in the order in which nodes were first set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeIx(u32);

/// A kind's place in the table of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindIx(u32);

/// What a node is.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its room when nobody is there: its capacity.
    pub empty: Room,
    /// What is only compared, without `host` and `vnode`.
    pub attributes: ResourceList,
    key: Vec<u8>,
    nodes: usize,
}

/// What makes nodes interchangeable now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// What they are.
    pub kind: KindIx,
    /// Whether each is the only node of its host.
    pub solo: bool,
    /// Who may join.
    pub condition: Condition,
    /// What they have left.
    pub free: Amounts,
}

/// What one job has on one node.
#[derive(Clone, Debug)]
pub struct Hold {
    /// Consumables.
    pub taken: Amounts,
    /// Whether it has the node alone.
    pub alone: bool,
    /// Numbers of processors.
    pub cpus: Vec<u16>,
    /// Numbers of GPUs.
    pub gpus: Vec<u16>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Unique.
    pub name: String,
    /// The host it is part of.
    pub host: String,
    /// What it is; None once it is removed, or before it is set.
    pub kind: Option<KindIx>,
    /// Whether it may be given jobs: up and not offline.
    pub usable: bool,
    /// What it has left.
    pub room: Room,
    /// The jobs on it.
    pub tenants: BTreeMap<JobId, Hold>,
    /// The numbers of its processors, ascending.
    pub cpus: Vec<u16>,
    /// The numbers of its GPUs, in the order in which jobs get them.
    pub gpus: Vec<u16>,
    /// Those of them that processes outside the queue use.
    pub gpus_outside: Vec<u16>,
}

/// The nodes of a cluster. A name keeps its slot for ever, so that what runs on a node that went
/// away is still there when it comes back.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The interned resources.
    pub catalog: Catalog,
    nodes: Vec<Node>,
    names: BTreeMap<String, NodeIx>,
    hosts: BTreeMap<String, BTreeSet<NodeIx>>,
    /// The hosts of more than one node.
    composite: BTreeSet<String>,
    kinds: Vec<Kind>,
    kind_index: BTreeMap<Vec<u8>, KindIx>,
    unused_kinds: Vec<KindIx>,
    buckets: BTreeMap<Arc<Key>, BTreeSet<NodeIx>>,
    configured: BTreeMap<(KindIx, bool), BTreeSet<NodeIx>>,
    capacity: Amounts,
    /// The nodes of which GPUs are used from outside.
    pub(super) with_outside: BTreeSet<NodeIx>,
}

impl Cluster {
    /// No nodes.
    pub fn new(catalog: Catalog) -> Cluster {
        Cluster {
            capacity: catalog.nothing(),
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
            with_outside: BTreeSet::new(),
        }
    }

    /// The node with this index.
    pub fn node(&self, ix: NodeIx) -> &Node {
        &self.nodes[ix.0 as usize]
    }

    pub(super) fn node_mut(&mut self, ix: NodeIx) -> &mut Node {
        &mut self.nodes[ix.0 as usize]
    }

    /// The index of a name.
    pub fn find(&self, name: &str) -> Option<NodeIx> {
        self.names.get(name).copied()
    }

    /// The kind with this index.
    pub fn kind(&self, ix: KindIx) -> &Kind {
        &self.kinds[ix.0 as usize]
    }

    /// How many nodes have ever been named.
    pub fn slots(&self) -> usize {
        self.nodes.len()
    }

    /// Nodes that are set, usable or not.
    pub fn present(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.kind.is_some())
    }

    /// What all nodes have in all, those that are down included.
    pub fn capacity(&self) -> &[i64] {
        &self.capacity
    }

    /// The nodes of a host that are set.
    pub fn nodes_of_host(&self, host: &str) -> impl Iterator<Item = NodeIx> + '_ {
        self.hosts.get(host).into_iter().flatten().copied()
    }

    /// The hosts of more than one node, with their nodes.
    pub fn composite_hosts(&self) -> impl Iterator<Item = &BTreeSet<NodeIx>> {
        self.composite.iter().filter_map(|host| self.hosts.get(host))
    }

    /// Whether the node is the only one of its host.
    pub fn is_solo(&self, ix: NodeIx) -> bool {
        self.hosts.get(&self.node(ix).host).is_none_or(|nodes| nodes.len() < 2)
    }

    /// The usable nodes by bucket.
    pub fn buckets(&self) -> impl Iterator<Item = (&Arc<Key>, &BTreeSet<NodeIx>)> {
        self.buckets.iter()
    }

    /// All nodes that are set, as they would be with nobody there.
    pub fn configured(&self) -> impl Iterator<Item = (Arc<Key>, &BTreeSet<NodeIx>)> {
        self.configured
            .iter()
            .map(|(&(kind, solo), nodes)| (Arc::new(self.key(kind, solo, &self.kind(kind).empty)), nodes))
    }

    fn key(&self, kind: KindIx, solo: bool, room: &Room) -> Key {
        Key { kind, solo, condition: room.condition(), free: room.free.clone() }
    }

    /// The bucket a node belongs in with this room; None for a node that takes no jobs.
    pub fn key_of(&self, ix: NodeIx, room: &Room) -> Option<Key> {
        let node = self.node(ix);
        node.kind.filter(|_| node.usable).map(|kind| self.key(kind, self.is_solo(ix), room))
    }

    /// What a kind of node has of a resource.
    pub fn meets(&self, kind: KindIx, need: &Need) -> bool {
        need.is_met_by(self.kind(kind).attributes.get(&need.resource))
    }

    /// Whether a node has all these values, its names included.
    pub fn node_meets(&self, ix: NodeIx, needs: &[Need]) -> bool {
        let node = self.node(ix);
        needs.iter().all(|need| need.is_met_by(self.value(node, &need.resource).as_ref()))
    }

    /// A node's value of a resource that is only compared.
    pub fn value(&self, node: &Node, resource: &str) -> Option<Value> {
        match resource {
            "host" => Some(Value::String(node.host.clone())),
            "vnode" => Some(Value::String(node.name.clone())),
            other => node.kind.and_then(|kind| self.kind(kind).attributes.get(other).cloned()),
        }
    }

    /// Adds or changes a node; the jobs on it stay.
    pub fn set(&mut self, facts: &NodeFacts, usable: bool) {
        let ix = self.slot(&facts.name);
        if self.is_as_told(ix, facts, usable) {
            return;
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
    }

    /// Whether nothing is new: most reports of a node change nothing.
    fn is_as_told(&self, ix: NodeIx, facts: &NodeFacts, usable: bool) -> bool {
        let node = self.node(ix);
        let same_parts = node.cpus == sorted(&facts.cpus) && node.gpus == once_each(&facts.gpus);
        let same_parts = same_parts && node.gpus_outside == facts.gpus_outside;
        let same = node.usable == usable && node.host == facts.host && same_parts;
        same && node.kind.is_some_and(|kind| self.kind(kind).key == kind_key(&self.sort_out(&facts.available)))
    }

    /// Takes a node out of the cluster; the jobs on it stay known.
    pub fn remove(&mut self, name: &str) {
        if let Some(ix) = self.find(name) {
            self.unfile(ix);
            self.leave_host(ix);
            self.node_mut(ix).usable = false;
        }
    }

    /// Gives a job what it holds on a node, known or not.
    pub fn occupy(&mut self, ix: NodeIx, job: JobId, hold: Hold) {
        self.unfile_bucket(ix);
        self.yield_outside(ix);
        let node = self.node_mut(ix);
        node.room.admit(&hold.taken, hold.alone);
        if let Some(before) = node.tenants.insert(job, hold) {
            node.room.dismiss(&before.taken, before.alone);
        }
        self.withhold_outside(ix);
        self.file_bucket(ix);
    }

    /// Takes it back.
    pub fn vacate(&mut self, ix: NodeIx, job: JobId) {
        self.unfile_bucket(ix);
        self.yield_outside(ix);
        let node = self.node_mut(ix);
        if let Some(hold) = node.tenants.remove(&job) {
            node.room.dismiss(&hold.taken, hold.alone);
        }
        self.withhold_outside(ix);
        self.file_bucket(ix);
    }

    /// Makes sure that every share's node has a slot.
    pub fn reserve_slots(&mut self, shares: &[Share]) {
        for share in shares {
            self.slot(&share.node);
        }
    }

    /// What shares take, node by node; the error names a node without a slot.
    pub fn holds(&self, shares: &[Share], alone: bool) -> Result<BTreeMap<NodeIx, Hold>, String> {
        let mut holds = BTreeMap::new();
        for share in shares {
            let ix = self.find(&share.node).ok_or_else(|| format!("no node {}", share.node))?;
            let hold: &mut Hold = holds.entry(ix).or_insert_with(|| self.bare_hold(alone));
            for (name, value) in &share.taken {
                if let (Some(index), Some(amount)) = (self.catalog.index(name), counted(value)) {
                    hold.taken[index] = hold.taken[index].saturating_add(amount);
                }
            }
            hold.cpus.extend(&share.cpus);
            hold.gpus.extend(&share.gpus);
        }
        Ok(holds)
    }

    /// A hold on nothing.
    pub fn bare_hold(&self, alone: bool) -> Hold {
        Hold { taken: self.catalog.nothing(), alone, cpus: Vec::new(), gpus: Vec::new() }
    }

    /// The slot of a name, made when it is new.
    fn slot(&mut self, name: &str) -> NodeIx {
        if let Some(ix) = self.find(name) {
            return ix;
        }
        let ix = NodeIx(u32::try_from(self.nodes.len()).expect("fewer than 2^32 nodes"));
        self.names.insert(name.to_string(), ix);
        self.nodes.push(Node {
            name: name.to_string(),
            host: name.to_string(),
            kind: None,
            usable: false,
            room: Room { free: self.catalog.nothing(), tenants: 0, alone: 0 },
            tenants: BTreeMap::new(),
            cpus: Vec::new(),
            gpus: Vec::new(),
            gpus_outside: Vec::new(),
        });
        ix
    }

    /// The kind of a node with these facts, made when it is new.
    fn intern(&mut self, facts: &NodeFacts) -> KindIx {
        let parts = self.sort_out(&facts.available);
        let key = kind_key(&parts);
        if let Some(&known) = self.kind_index.get(&key) {
            return known;
        }
        let (free, attributes) = parts;
        let kind = Kind { empty: Room { free, tenants: 0, alone: 0 }, attributes, key: key.clone(), nodes: 0 };
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

    /// What is counted and what is compared.
    fn sort_out(&self, available: &ResourceList) -> (Amounts, ResourceList) {
        let mut capacity = self.catalog.nothing();
        // Address space is no hardware: a node that sets no bound has none.
        if let Some(index) = self.catalog.index("vmem").filter(|_| !available.contains_key("vmem")) {
            capacity[index] = MOST_OF_A_NODE;
        }
        let mut attributes = ResourceList::new();
        for (name, value) in available {
            match (self.catalog.index(name), counted(value)) {
                (Some(index), Some(amount)) => capacity[index] = amount.min(MOST_OF_A_NODE),
                _ if name == "host" || name == "vnode" => (),
                _ => drop(attributes.insert(name.clone(), value.clone())),
            }
        }
        (capacity, attributes)
    }

    /// Counts again what a node has left.
    fn settle(&mut self, ix: NodeIx) {
        let Some(kind) = self.node(ix).kind else { return };
        let mut room = self.kind(kind).empty.clone();
        for hold in self.node(ix).tenants.values() {
            room.admit(&hold.taken, hold.alone);
        }
        self.node_mut(ix).room = room;
        self.withhold_outside(ix);
    }

    /// A second node on a host makes both parts of it: the first is filed anew.
    fn join_host(&mut self, ix: NodeIx) {
        let host = self.node(ix).host.clone();
        let first = self.only_node_of(&host);
        first.iter().for_each(|&first| self.unfile_place(first));
        self.composite.extend(first.map(|_| host.clone()));
        self.hosts.entry(host).or_default().insert(ix);
        first.iter().for_each(|&first| self.file_place(first));
    }

    /// The last node left on a host is filed anew, too.
    fn leave_host(&mut self, ix: NodeIx) {
        let host = self.node(ix).host.clone();
        let Some(nodes) = self.hosts.get(&host).filter(|nodes| nodes.contains(&ix)) else { return };
        let last = if nodes.len() == 2 { nodes.iter().copied().find(|&other| other != ix) } else { None };
        last.iter().for_each(|&last| self.unfile_place(last));
        if last.is_some() {
            self.composite.remove(&host);
        }
        if let Some(nodes) = self.hosts.get_mut(&host) {
            nodes.remove(&ix);
        }
        if self.hosts.get(&host).is_some_and(BTreeSet::is_empty) {
            self.hosts.remove(&host);
        }
        last.iter().for_each(|&last| self.file_place(last));
    }

    fn only_node_of(&self, host: &str) -> Option<NodeIx> {
        self.hosts.get(host).filter(|nodes| nodes.len() == 1).and_then(BTreeSet::first).copied()
    }

    /// Enters a node that is set into all indexes.
    fn file(&mut self, ix: NodeIx) {
        let Some(kind) = self.node(ix).kind else { return };
        self.kinds[kind.0 as usize].nodes += 1;
        add(&mut self.capacity, &self.kinds[kind.0 as usize].empty.free);
        self.file_place(ix);
    }

    /// Takes it out of all indexes, and forgets its kind.
    fn unfile(&mut self, ix: NodeIx) {
        self.unfile_place(ix);
        let Some(kind) = self.node_mut(ix).kind.take() else { return };
        let entry = &mut self.kinds[kind.0 as usize];
        subtract(&mut self.capacity, &entry.empty.free);
        entry.nodes -= 1;
        if entry.nodes == 0 {
            self.kind_index.remove(&entry.key);
            self.unused_kinds.push(kind);
        }
    }

    fn file_place(&mut self, ix: NodeIx) {
        if let Some(kind) = self.node(ix).kind {
            let solo = self.is_solo(ix);
            self.configured.entry((kind, solo)).or_default().insert(ix);
        }
        self.file_bucket(ix);
    }

    fn unfile_place(&mut self, ix: NodeIx) {
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

    fn file_bucket(&mut self, ix: NodeIx) {
        if let Some(key) = self.key_of(ix, &self.node(ix).room) {
            self.buckets.entry(Arc::new(key)).or_default().insert(ix);
        }
    }

    fn unfile_bucket(&mut self, ix: NodeIx) {
        let Some(key) = self.key_of(ix, &self.node(ix).room) else { return };
        if let Some(nodes) = self.buckets.get_mut(&key) {
            nodes.remove(&ix);
            if nodes.is_empty() {
                self.buckets.remove(&key);
            }
        }
    }
}

/// Equal for equal kinds, and in some order: values have none of their own.
fn kind_key(parts: &(Amounts, ResourceList)) -> Vec<u8> {
    // Writing plain data into a vector cannot fail.
    postcard::to_stdvec(parts).unwrap_or_default()
}

fn once_each(numbers: &[u16]) -> Vec<u16> {
    let mut seen = BTreeSet::new();
    numbers.iter().copied().filter(|number| seen.insert(*number)).collect()
}

fn sorted(numbers: &[u16]) -> Vec<u16> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
