//! The nodes' rooms at one moment, as buckets: now, at a later time, or with nobody there.
//!
//! A space is an overlay: it borrows the cluster's buckets and keeps only what differs, so opening
//! one costs the number of buckets, and a claim costs the nodes it touches.

use super::amounts::{Amounts, add, subtract};
use super::cluster::{Cluster, Condition, Key, NodeIx, Room};
use super::shape::{Need, Tenancy};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, btree_set};
use std::sync::Arc;

/// What one job takes: amounts by node. Nodes it only bars others from are there with nothing.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Node, and what is taken of it.
    pub holds: BTreeMap<NodeIx, Amounts>,
    /// Whether it has these nodes alone.
    pub alone: bool,
}

/// Nodes alike.
#[derive(Clone, Debug)]
pub struct Bucket<'s> {
    /// In what they are alike.
    pub key: Arc<Key>,
    base: Option<&'s BTreeSet<NodeIx>>,
    gone: BTreeSet<NodeIx>,
    come: BTreeSet<NodeIx>,
}

impl Bucket<'_> {
    /// How many they are.
    pub fn len(&self) -> u64 {
        (self.base.map_or(0, BTreeSet::len) - self.gone.len() + self.come.len()) as u64
    }
}

/// Rooms at one moment.
#[derive(Clone, Debug)]
pub struct Space<'s> {
    /// The nodes they are rooms of.
    pub cluster: &'s Cluster,
    buckets: Vec<Bucket<'s>>,
    /// The first so many buckets are the cluster's own, in the order of their keys.
    borrowed: usize,
    added: BTreeMap<Arc<Key>, usize>,
    rooms: BTreeMap<NodeIx, Room>,
    /// Whether rooms that are not in `rooms` are those of nodes with nobody there.
    is_vacant: bool,
    free: Amounts,
    idle: Amounts,
}

impl<'s> Space<'s> {
    /// What is free now.
    pub fn now(cluster: &'s Cluster) -> Space<'s> {
        let buckets = cluster.buckets().map(|(key, nodes)| (key.clone(), nodes));
        Space::open(cluster, buckets.collect(), false)
    }

    /// What would be free with every node up and nobody there.
    pub fn vacant(cluster: &'s Cluster) -> Space<'s> {
        let mut buckets: Vec<_> = cluster.configured().collect();
        buckets.sort_by(|a, b| a.0.cmp(&b.0));
        Space::open(cluster, buckets, true)
    }

    fn open(cluster: &'s Cluster, buckets: Vec<(Arc<Key>, &'s BTreeSet<NodeIx>)>, is_vacant: bool) -> Space<'s> {
        let nothing = cluster.catalog.nothing();
        let mut space = Space {
            cluster,
            borrowed: buckets.len(),
            buckets: Vec::with_capacity(buckets.len()),
            added: BTreeMap::new(),
            rooms: BTreeMap::new(),
            is_vacant,
            free: nothing.clone(),
            idle: nothing,
        };
        for (key, nodes) in buckets {
            space.count(&key, nodes.len() as i64);
            space.buckets.push(Bucket { key, base: Some(nodes), gone: BTreeSet::new(), come: BTreeSet::new() });
        }
        space
    }

    /// The buckets; some may be empty.
    pub fn buckets(&self) -> &[Bucket<'s>] {
        &self.buckets
    }

    /// Whether there is no node that takes jobs.
    pub fn is_void(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.len() == 0)
    }

    /// What a job of this tenancy could have in all, were it in small pieces.
    pub fn free(&self, tenancy: Tenancy) -> &[i64] {
        if tenancy.is_exclusive() { &self.idle } else { &self.free }
    }

    /// A node's room.
    pub fn room(&self, ix: NodeIx) -> &Room {
        let node = self.cluster.node(ix);
        match (self.rooms.get(&ix), node.kind) {
            (Some(room), _) => room,
            (None, Some(kind)) if self.is_vacant => &self.cluster.kind(kind).empty,
            _ => &node.room,
        }
    }

    /// Whether jobs can be given this node at all.
    pub fn is_open(&self, ix: NodeIx) -> bool {
        let node = self.cluster.node(ix);
        node.kind.is_some() && (self.is_vacant || node.usable)
    }

    /// Whether a job of this tenancy may join a node, its neighbours on the host considered.
    pub fn admits(&self, ix: NodeIx, tenancy: Tenancy) -> bool {
        let host_is_idle = || {
            let mut neighbours = self.cluster.nodes_of_host(&self.cluster.node(ix).host);
            neighbours.all(|neighbour| self.room(neighbour).condition() == Condition::Idle)
        };
        may_join(self.room(ix).condition(), tenancy) && (tenancy != Tenancy::Hosts || host_is_idle())
    }

    /// Whether nodes of a bucket have these values, host and node names left aside.
    pub fn meets(&self, key: &Key, needs: &[Need]) -> bool {
        needs.iter().all(|need| self.cluster.meets(key.kind, need))
    }

    /// Takes what a claim takes.
    pub fn claim(&mut self, claim: &Claim) {
        for (&ix, taken) in &claim.holds {
            let mut room = self.room(ix).clone();
            room.admit(taken, claim.alone);
            self.refile(ix, room);
        }
    }

    /// Gives back what a claim took.
    pub fn release(&mut self, claim: &Claim) {
        for (&ix, taken) in &claim.holds {
            self.dismiss(ix, taken, claim.alone);
        }
    }

    /// One job less on a node.
    pub fn dismiss(&mut self, ix: NodeIx, taken: &[i64], alone: bool) {
        let mut room = self.room(ix).clone();
        room.dismiss(taken, alone);
        self.refile(ix, room);
    }

    /// Gives a node another room.
    pub fn refile(&mut self, ix: NodeIx, room: Room) {
        if let Some(before) = self.cluster.key_of(ix, self.room(ix)) {
            self.count(&before, -1);
            let bucket = self.bucket_mut(before);
            if !bucket.come.remove(&ix) {
                bucket.gone.insert(ix);
            }
        }
        if let Some(after) = self.cluster.key_of(ix, &room) {
            self.count(&after, 1);
            let bucket = self.bucket_mut(after);
            if !bucket.gone.remove(&ix) {
                bucket.come.insert(ix);
            }
        }
        self.rooms.insert(ix, room);
    }

    fn bucket_mut(&mut self, key: Key) -> &mut Bucket<'s> {
        let borrowed = self.buckets[..self.borrowed].binary_search_by(|bucket| (*bucket.key).cmp(&key));
        let place = match borrowed {
            Ok(place) => place,
            Err(_) => {
                let key = Arc::new(key);
                let next = self.buckets.len();
                let place = *self.added.entry(key.clone()).or_insert(next);
                if place == next {
                    self.buckets.push(Bucket { key, base: None, gone: BTreeSet::new(), come: BTreeSet::new() });
                }
                place
            }
        };
        &mut self.buckets[place]
    }

    /// Counts `nodes` nodes of a bucket in, or out.
    fn count(&mut self, key: &Key, nodes: i64) {
        if key.condition == Condition::Alone {
            return;
        }
        let change = if nodes < 0 { subtract } else { add };
        let amounts: Vec<i64> = key.free.iter().map(|free| free.max(&0).saturating_mul(nodes.abs())).collect();
        change(&mut self.free, &amounts);
        if key.condition == Condition::Idle {
            change(&mut self.idle, &amounts);
        }
    }

    /// The nodes of some buckets, in the order of the nodes, found one by one.
    pub fn merged(&self, buckets: impl Iterator<Item = usize>) -> Merged<'_> {
        let mut merged = Merged { streams: Vec::new(), heads: BinaryHeap::new() };
        for bucket in buckets.map(|place| &self.buckets[place]) {
            for (nodes, gone) in [(bucket.base, &bucket.gone), (Some(&bucket.come), &bucket.gone)] {
                merged.add(Stream { nodes: nodes.map(BTreeSet::iter), gone });
            }
        }
        merged
    }
}

/// Whether a job of this tenancy may join nodes in this condition.
pub fn may_join(condition: Condition, tenancy: Tenancy) -> bool {
    match condition {
        Condition::Idle => true,
        Condition::Shared => !tenancy.is_exclusive(),
        Condition::Alone => false,
    }
}

struct Stream<'a> {
    nodes: Option<btree_set::Iter<'a, NodeIx>>,
    gone: &'a BTreeSet<NodeIx>,
}

impl Iterator for Stream<'_> {
    type Item = NodeIx;

    fn next(&mut self) -> Option<NodeIx> {
        let gone = self.gone;
        self.nodes.as_mut()?.find(|ix| !gone.contains(ix)).copied()
    }
}

/// Nodes of several buckets, in their order.
pub struct Merged<'a> {
    streams: Vec<Stream<'a>>,
    heads: BinaryHeap<Reverse<(NodeIx, usize)>>,
}

impl<'a> Merged<'a> {
    fn add(&mut self, mut stream: Stream<'a>) {
        if let Some(head) = stream.next() {
            self.heads.push(Reverse((head, self.streams.len())));
            self.streams.push(stream);
        }
    }
}

impl Iterator for Merged<'_> {
    type Item = NodeIx;

    fn next(&mut self) -> Option<NodeIx> {
        let Reverse((node, stream)) = self.heads.pop()?;
        if let Some(following) = self.streams[stream].next() {
            self.heads.push(Reverse((following, stream)));
        }
        Some(node)
    }
}
