//! The free resources of all nodes, by node class (nodes of one kind with the same free resources).
//! A map describes the present, a later time, or a cluster without jobs.
//!
//! A map refers to the node classes of the cluster and stores only the differences. The time to
//! open a map grows with the number of classes. The time to claim resources grows with the number
//! of nodes of the job.

use super::columns::Columns;
use super::guide::{Guide, Rank};
use super::node_class::{MergedNodes, NodeClass, NodeClassSummary};
use super::ranked_nodes::RankedNodes;
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, subtract};
use crate::sched::view::cluster::Need;
use crate::sched::view::cluster::{Cluster, FreeResources, Joinable, KindIx, NodeClassKey, NodeIx};
use crate::sched::view::free_resources::InUse;
use crate::sched::view::node_access::{AccessPolicy, JobOwner};
use crate::sched::view::shared_hosts::{SharedHosts, SharedPlace};
use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// The resources that one job uses. Nodes that the job only closes to other jobs have zero amounts.
#[derive(Clone, Debug)]
pub struct JobAmounts {
    /// The amounts in use, by node.
    pub holds: BTreeMap<NodeIx, Amounts>,
    /// The owner of the job, and the other jobs that the job allows on its nodes.
    pub owner: JobOwner,
    /// For a subjob: the per-host resources (counted once on each host) that it uses and that other
    /// subjobs of its array on the same host may share. Each is given with the node on which it is
    /// counted.
    pub joins: Vec<(SharedPlace, NodeIx)>,
}

/// A node with free resources that differ from those in the cluster. `place` is the index of the
/// node's class; None if the node belongs to no class.
#[derive(Clone, Debug)]
struct ChangedNode {
    room: FreeResources,
    place: Option<usize>,
}

/// The free resources at one time.
#[derive(Clone, Debug)]
pub struct AvailabilityMap<'s> {
    /// The cluster with its nodes.
    pub cluster: &'s Cluster,
    /// The node classes: first those of the cluster, sorted by key, then the added classes.
    buckets: Vec<NodeClass<'s>>,
    /// The free amounts of each class.
    columns: Columns,
    /// The summary of each class.
    heads: Vec<NodeClassSummary>,
    /// The indices of added classes without nodes, which are reused.
    unused_places: Vec<usize>,
    /// The number of classes of the cluster.
    borrowed: usize,
    /// The indices of the added classes with nodes.
    added: BTreeMap<Arc<NodeClassKey>, usize>,
    /// The nodes with free resources that differ from those in the cluster.
    rooms: BTreeMap<NodeIx, ChangedNode>,
    /// The nodes in order of preference, computed on demand.
    preferred: OnceCell<Arc<RankedNodes>>,
    /// Whether nodes that are not in `rooms` have no jobs.
    is_vacant: bool,
    /// Whether the map describes a later time, at which some running jobs have ended.
    is_later: bool,
    /// The policy that determines the order of preference among nodes.
    guide: Arc<Guide>,
    /// The next planned start on each node.
    promises: Arc<BTreeMap<NodeIx, Time>>,
    /// The amounts of system-wide resources that are held for planned starts.
    held_back: Amounts,
    /// The per-host resources that arrays use because of a start in this cycle.
    joined: Arc<SharedHosts>,
    /// The measured use of each node beyond the allocations of jobs.
    in_use: Arc<BTreeMap<NodeIx, InUse>>,
    /// The total free amounts of nodes that take jobs, and of system-wide resources.
    free: Amounts,
    /// The total free amounts of nodes without jobs, and of system-wide resources.
    idle: Amounts,
}

impl<'s> AvailabilityMap<'s> {
    /// The resources that are free now.
    pub fn now(cluster: &'s Cluster) -> AvailabilityMap<'s> {
        let buckets = cluster.buckets().map(|(key, nodes)| (key.clone(), nodes));
        AvailabilityMap::open(cluster, buckets.collect(), false)
    }

    /// The resources that would be free if every node were up and no job ran.
    pub fn vacant(cluster: &'s Cluster) -> AvailabilityMap<'s> {
        let mut buckets: Vec<_> = cluster.configured().collect();
        buckets.sort_by(|a, b| a.0.cmp(&b.0));
        AvailabilityMap::open(cluster, buckets, true)
    }

    /// A map in which only the nodes of `rooms` take jobs, with these free resources.
    pub fn of_rooms(
        cluster: &'s Cluster,
        rooms: BTreeMap<NodeIx, FreeResources>,
    ) -> AvailabilityMap<'s> {
        let mut space = AvailabilityMap::open(cluster, Vec::new(), false);
        for (ix, room) in rooms {
            space.enter(ix, room);
        }
        space
    }

    /// Copies from `other` the order of preference, the planned starts, the system-wide resources,
    /// and the per-host resources that arrays use because of a start in this cycle.
    pub fn like(mut self, other: &AvailabilityMap<'s>) -> AvailabilityMap<'s> {
        (self.guide, self.promises) = (other.guide.clone(), other.promises.clone());
        self.preferred = OnceCell::new();
        self.held_back.clone_from(&other.held_back);
        self.joined = other.joined.clone();
        for index in self.cluster.catalog.pooled() {
            (self.free[index], self.idle[index]) = (other.free[index], other.idle[index]);
        }
        self
    }

    fn open(
        cluster: &'s Cluster,
        buckets: Vec<(Arc<NodeClassKey>, &'s BTreeSet<NodeIx>)>,
        is_vacant: bool,
    ) -> AvailabilityMap<'s> {
        let nothing = cluster.catalog.nothing();
        let columns = Columns::closed(cluster.catalog.pooled().start, buckets.len());
        let mut space = AvailabilityMap {
            cluster,
            borrowed: buckets.len(),
            buckets: Vec::with_capacity(buckets.len()),
            columns,
            heads: Vec::with_capacity(buckets.len()),
            unused_places: Vec::new(),
            added: BTreeMap::new(),
            rooms: BTreeMap::new(),
            preferred: OnceCell::new(),
            is_vacant,
            is_later: false,
            guide: Arc::default(),
            promises: Arc::default(),
            held_back: nothing.clone(),
            joined: Arc::default(),
            in_use: Arc::default(),
            free: nothing.clone(),
            idle: nothing,
        };
        for index in cluster.catalog.pooled() {
            let total = cluster.pools.get(index).map_or(0, |pool| pool.total);
            let free = if is_vacant {
                total
            } else {
                cluster.pools.free(index)
            };
            (space.free[index], space.idle[index]) = (free, free);
        }
        for (key, nodes) in buckets {
            space.count(&key, nodes.len() as i64);
            space.enlist(NodeClass::new(key, Some(nodes)));
        }
        let open = space
            .buckets
            .iter()
            .enumerate()
            .filter(|(_, bucket)| bucket.is_open());
        space
            .columns
            .fill(open.map(|(place, bucket)| (place, &*bucket.key.free)));
        space
    }

    /// Sets the policy that determines the order of preference among nodes.
    pub fn guided(self, guide: Arc<Guide>) -> AvailabilityMap<'s> {
        AvailabilityMap {
            guide,
            preferred: OnceCell::new(),
            ..self
        }
    }

    /// The policy that determines the order of preference among nodes.
    pub fn guide(&self) -> &Guide {
        &self.guide
    }

    /// Whether the map does not describe the present, but a later time or a cluster without jobs.
    pub fn is_hypothetical(&self) -> bool {
        self.is_vacant || self.is_later
    }

    /// Whether the map describes a cluster without jobs.
    pub fn is_vacant(&self) -> bool {
        self.is_vacant
    }

    /// Notes a planned start on a node. Of several planned starts, the earliest counts (M8b).
    pub fn promise(&mut self, ix: NodeIx, at: Time) {
        let promises = Arc::make_mut(&mut self.promises);
        promises
            .entry(ix)
            .and_modify(|known| *known = at.min(*known))
            .or_insert(at);
    }

    /// The next planned start on a node; None if there is none.
    pub fn next_planned_start(&self, ix: NodeIx) -> Option<Time> {
        self.promises.get(&ix).copied()
    }

    /// The node classes; some may be empty.
    pub fn buckets(&self) -> &[NodeClass<'s>] {
        &self.buckets
    }

    /// The summary of a class.
    pub fn head(&self, place: usize) -> NodeClassSummary {
        self.heads[place]
    }

    /// The first node of a class; None if the class has no nodes.
    pub fn first_of(&self, place: usize) -> Option<NodeIx> {
        self.buckets[place].first(Bound::Unbounded)
    }

    /// How many times these amounts (resource, amount above zero) fit on each node of a class; None
    /// if `amounts` is empty.
    pub fn times(&self, place: usize, amounts: &[(usize, i64)]) -> Option<u64> {
        amounts
            .iter()
            .map(|&(index, amount)| (self.columns.get(index, place).max(0) / amount).unsigned_abs())
            .min()
    }

    /// Whether all node classes are empty.
    pub fn has_no_nodes(&self) -> bool {
        self.heads.iter().all(|head| head.nodes == 0)
    }

    /// The total free amounts for a job with this access policy, regardless of fragmentation.
    pub fn free(&self, access: AccessPolicy) -> &[i64] {
        if access.is_exclusive() {
            &self.idle
        } else {
            &self.free
        }
    }

    /// The free resources of a node.
    pub fn room(&self, ix: NodeIx) -> &FreeResources {
        let node = self.cluster.node(ix);
        match (self.rooms.get(&ix), node.kind) {
            (Some(filed), _) => &filed.room,
            (None, Some(kind)) if self.is_vacant => &self.cluster.kind(kind).empty,
            _ => &node.room,
        }
    }

    /// Whether a node can take jobs: it is usable (up, not offline and not under maintenance). In a
    /// map without jobs, all nodes with known properties can take jobs.
    pub fn is_open(&self, ix: NodeIx) -> bool {
        let node = self.cluster.node(ix);
        node.kind.is_some() && (self.is_vacant || node.usable)
    }

    /// Whether the access policies of a job and of a node allow the job on the node. A job with
    /// exclusive hosts also needs the other nodes of the host to be idle.
    pub fn admits(&self, ix: NodeIx, owner: JobOwner) -> bool {
        let room = self.room(ix);
        if !room.admits(owner) {
            return false;
        }
        if owner.on(room.bounds) != AccessPolicy::Hosts {
            return true;
        }
        let mut neighbours = self.cluster.nodes_of_host(&self.cluster.node(ix).host);
        neighbours.all(|neighbour| self.room(neighbour).condition() == Joinable::Idle)
    }

    /// Whether nodes of a kind have the requested values. Host and node names are not checked.
    pub fn meets(&self, kind: KindIx, needs: &[Need]) -> bool {
        needs
            .iter()
            .all(|need| need.is_pinned() || self.cluster.meets(kind, need))
    }

    /// Whether the resources of a claim are free, on nodes that admit the job.
    pub fn has_room_for(&self, claim: &JobAmounts) -> bool {
        let of_nodes = self.cluster.catalog.pooled().start;
        let has_node_amounts = claim.holds.iter().all(|(&ix, taken)| {
            let room = self.room(ix);
            let mut amounts = taken[..of_nodes].iter().zip(&room.free);
            self.is_open(ix)
                && room.admits(claim.owner)
                && amounts.all(|(taken, free)| *taken == 0 || taken <= free)
        });
        has_node_amounts
            && self.cluster.catalog.pooled().all(|index| {
                let taken: i64 = claim.holds.values().map(|taken| taken[index]).sum();
                taken == 0 || taken <= self.free[index]
            })
    }

    /// Marks the resources of a claim as used.
    pub fn claim(&mut self, claim: &JobAmounts) {
        for (&ix, taken) in &claim.holds {
            self.admit(ix, taken, claim.owner);
        }
    }

    /// Adds a job with the amounts `taken` to a node.
    pub fn admit(&mut self, ix: NodeIx, taken: &[i64], owner: impl Into<JobOwner>) {
        let mut room = self.room(ix).clone();
        room.admit(taken, owner.into());
        self.refile(ix, room);
        self.change_pools(taken, -1);
    }

    /// Marks more resources as used, for a job that is already on the node.
    pub fn reduce(&mut self, ix: NodeIx, taken: &[i64]) {
        let mut room = self.room(ix).clone();
        subtract(&mut room.free, taken);
        self.refile(ix, room);
        self.change_pools(taken, -1);
    }

    /// The free amount of a system-wide resource.
    pub fn shared(&self, index: usize) -> i64 {
        self.free[index]
    }

    /// Removes a job with the amounts `taken` from a node. From then on, `is_hypothetical` is true:
    /// the map describes a later time.
    pub fn dismiss(&mut self, ix: NodeIx, taken: &[i64], owner: impl Into<JobOwner>) {
        let mut room = self.room(ix).clone();
        room.dismiss(taken, owner.into());
        self.refile(ix, room);
        self.change_pools(taken, 1);
        self.is_later = true;
    }

    /// Sets the amounts of system-wide resources that are held for planned starts.
    pub fn hold_back(&mut self, amounts: Amounts) {
        let before = std::mem::replace(&mut self.held_back, amounts.clone());
        self.change_pools(&before, 1);
        self.change_pools(&amounts, -1);
    }

    /// Whether no amount of a system-wide resource is held for planned starts.
    pub fn is_unheld(&self, index: usize) -> bool {
        self.held_back[index] == 0
    }

    /// Notes the hosts on which arrays use per-host resources because of a start in this cycle.
    pub fn join(&mut self, hosts: SharedHosts) {
        if !hosts.is_empty() {
            Arc::make_mut(&mut self.joined).extend(hosts);
        }
    }

    /// The hosts on which arrays use per-host resources because of a start in this cycle.
    pub fn joined(&self) -> &SharedHosts {
        &self.joined
    }

    /// Marks only the system-wide resources of `taken` as used.
    pub fn take_pools(&mut self, taken: &[i64]) {
        self.change_pools(taken, -1);
    }

    fn change_pools(&mut self, taken: &[i64], sign: i64) {
        for index in self.cluster.catalog.pooled() {
            let change = sign * taken.get(index).copied().unwrap_or(0);
            self.free[index] += change;
            self.idle[index] += change;
        }
    }

    /// Closes a node to all jobs.
    pub fn close(&mut self, ix: NodeIx) {
        let mut room = self.room(ix).clone();
        room.close();
        self.refile(ix, room);
    }

    /// Replaces the free resources of a node.
    pub fn refile(&mut self, ix: NodeIx, room: FreeResources) {
        let before = match self.rooms.get(&ix) {
            Some(filed) => filed.place,
            None => self
                .cluster
                .key_of(ix, self.room(ix))
                .map(|key| self.place_of(key)),
        };
        if let Some(place) = before {
            self.count(&self.buckets[place].key.clone(), -1);
            let bucket = &mut self.buckets[place];
            if !bucket.added.remove(&ix) {
                bucket.removed.insert(ix);
            }
            self.note(place);
        }
        self.enter(ix, room);
    }

    /// Records the measured use of a node beyond the allocations of jobs.
    pub fn withhold(&mut self, ix: NodeIx, in_use: InUse) {
        Arc::make_mut(&mut self.in_use).insert(ix, in_use);
    }

    /// The measured use beyond the allocations of jobs, by node.
    pub fn in_use(&self) -> &BTreeMap<NodeIx, InUse> {
        &self.in_use
    }

    /// Sets the free resources and the class of a node that is in no class.
    fn enter(&mut self, ix: NodeIx, room: FreeResources) {
        let after = self.cluster.key_of(ix, &room);
        if let Some(preferred) = self.preferred.get_mut() {
            let is_open = after
                .as_ref()
                .is_some_and(|key| key.condition != Joinable::Alone);
            Arc::make_mut(preferred).set(ix, is_open.then_some(&room.free));
        }
        let place = after.map(|key| self.place_of(key));
        if let Some(place) = place {
            self.count(&self.buckets[place].key.clone(), 1);
            let bucket = &mut self.buckets[place];
            if !bucket.removed.remove(&ix) {
                bucket.added.insert(ix);
            }
            self.note(place);
        }
        self.rooms.insert(ix, ChangedNode { room, place });
    }

    /// The index of the class with this key. Adds the class if it does not exist.
    fn place_of(&mut self, key: NodeClassKey) -> usize {
        let borrowed =
            self.buckets[..self.borrowed].binary_search_by(|bucket| (*bucket.key).cmp(&key));
        if let Some(place) = borrowed.ok().or_else(|| self.added.get(&key).copied()) {
            return place;
        }
        let key = Arc::new(key);
        let bucket = NodeClass::new(key.clone(), None);
        let place = match self.unused_places.pop() {
            Some(place) => {
                self.buckets[place] = bucket;
                place
            }
            None => {
                self.columns.push();
                self.enlist(bucket)
            }
        };
        self.added.insert(key, place);
        place
    }

    /// Appends a class that already has a row in `columns`. Returns the index of the class.
    fn enlist(&mut self, bucket: NodeClass<'s>) -> usize {
        let place = self.buckets.len();
        self.heads.push(NodeClassSummary::of(&bucket));
        self.buckets.push(bucket);
        place
    }

    /// Updates the free amounts and the summary of a class after its nodes have changed. Marks an
    /// added class without nodes for reuse.
    fn note(&mut self, place: usize) {
        let bucket = &self.buckets[place];
        let head = NodeClassSummary::of(bucket);
        self.columns
            .set(place, bucket.is_open().then_some(&bucket.key.free));
        self.heads[place] = head;
        if head.nodes == 0 && place >= self.borrowed {
            self.added.remove(&bucket.key);
            self.unused_places.push(place);
        }
    }

    /// The indices of the node classes with at least these amounts (resource, amount above zero)
    /// free on each node. Classes without nodes are excluded. If `amounts` is empty, closed classes
    /// are included.
    pub fn with_free(&self, amounts: &[(usize, i64)]) -> impl Iterator<Item = usize> + use<'_, 's> {
        self.columns
            .at_least(self.scarcest_first(amounts))
            .filter(|&place| self.heads[place].nodes > 0)
    }

    /// The nodes with at least these amounts free, in the order of preference of the site's policy.
    /// If `amounts` is empty, closed nodes are included. The order is correct only if the rank of a
    /// node depends on nothing but its kind.
    pub fn nodes_with_free(
        &self,
        amounts: &[(usize, i64)],
    ) -> impl Iterator<Item = NodeIx> + use<'_, 's> {
        self.preferred
            .get_or_init(|| Arc::new(self.rank_nodes()))
            .at_least(self.scarcest_first(amounts))
    }

    /// Sorts the amounts by scarcity. The scarcest resource comes first, because it excludes the
    /// most nodes.
    fn scarcest_first(&self, amounts: &[(usize, i64)]) -> Vec<(usize, i64)> {
        let mut amounts = amounts.to_vec();
        let plenty = |(index, amount): (usize, i64)| self.free[index].max(1) as f64 / amount as f64;
        amounts.sort_by(|a, b| plenty(*a).total_cmp(&plenty(*b)));
        amounts
    }

    /// The class of each node, for a comparison with another map.
    pub(super) fn rooms(&self) -> NodeClassIndex {
        let mut buckets = vec![NodeClassIndex::NOWHERE; self.cluster.slots()];
        for (place, bucket) in self.buckets.iter().enumerate() {
            for ix in bucket.nodes() {
                buckets[ix.0 as usize] = place as u32;
            }
        }
        NodeClassIndex {
            keys: self
                .buckets
                .iter()
                .map(|bucket| bucket.key.clone())
                .collect(),
            buckets,
        }
    }

    fn rank_nodes(&self) -> RankedNodes {
        let policy = self.guide.usual(self);
        let ranks = self.cluster.indices().map(|ix| {
            let kind = self.cluster.node(ix).kind;
            let rank = kind.and_then(|kind| self.guide.of_kind(policy, kind));
            (rank.unwrap_or_default(), ix)
        });
        let mut preferred = RankedNodes::closed(ranks, self.cluster.catalog.pooled().start);
        let open = self
            .buckets
            .iter()
            .filter(|bucket| bucket.key.condition != Joinable::Alone);
        preferred.fill(open.flat_map(|bucket| bucket.nodes().map(|ix| (ix, &*bucket.key.free))));
        preferred
    }

    /// Adds the free amounts of `nodes` nodes of a class to the totals. A negative number
    /// subtracts. Closed classes and negative free amounts do not count.
    fn count(&mut self, key: &NodeClassKey, nodes: i64) {
        if key.condition == Joinable::Alone {
            return;
        }
        let is_idle = key.condition == Joinable::Idle;
        for (index, free) in key.free.iter().enumerate() {
            let change = free.max(&0) * nodes;
            self.free[index] += change;
            self.idle[index] += if is_idle { change } else { 0 };
        }
    }

    /// The nodes of several classes by rank and then by index, computed on demand. The input is,
    /// for each class, its rank, its index, and a number that is returned with each node of the
    /// class.
    pub fn merged(&self, buckets: impl Iterator<Item = (Rank, usize, usize)>) -> MergedNodes<'_> {
        let heads: Vec<_> = buckets
            .filter_map(|(rank, place, mark)| {
                Some(Reverse((rank, self.first_of(place)?, place, mark)))
            })
            .collect();
        MergedNodes {
            buckets: &self.buckets,
            heads: heads.into(),
        }
    }
}

/// The class of each node in an availability map.
#[derive(Clone, Debug, Default)]
pub struct NodeClassIndex {
    /// The keys of the classes.
    pub keys: Vec<Arc<NodeClassKey>>,
    /// For each node: the index of its class, or [`NodeClassIndex::NOWHERE`].
    pub buckets: Vec<u32>,
}

impl NodeClassIndex {
    /// The index for a node without class.
    pub const NOWHERE: u32 = u32::MAX;

    pub fn of(&self, node: usize) -> Option<&Arc<NodeClassKey>> {
        self.keys.get(self.buckets[node] as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job_id::JobId;
    use crate::sched::fixture::{TestCluster, cluster};

    /// The names of the nodes with at least this many free CPUs.
    fn with_ncpus(space: &AvailabilityMap, ncpus: i64) -> Vec<String> {
        let index = space.cluster.catalog.index("ncpus").unwrap();
        let amounts = [(index, ncpus)];
        space
            .merged(
                space
                    .with_free(&amounts)
                    .map(|place| (Rank::default(), place, 0)),
            )
            .map(|(ix, _)| space.cluster.node(ix).name.clone())
            .collect()
    }

    fn claim(fixture: &TestCluster, node: &str, ncpus: i64) -> JobAmounts {
        let cluster = &fixture.state.cluster;
        let mut taken = cluster.catalog.nothing();
        taken[cluster.catalog.index("ncpus").unwrap()] = ncpus;
        JobAmounts {
            holds: [(cluster.find(node).unwrap(), taken)].into(),
            owner: JobOwner::default(),
            joins: Vec::new(),
        }
    }

    #[test]
    fn a_changed_map_equals_the_map_of_the_changed_state() {
        let mut fixture = cluster("5 x ncpus=9, 5 x ncpus=6");
        let before = fixture.clone();
        let mut overlay = AvailabilityMap::now(&before.state.cluster);
        let mut claims = Vec::new();
        for step in 0..200_u64 {
            let (node, ncpus) = (format!("n{}", 1 + step * 7 % 10), (step * 5 % 3) as i64);
            if claims.len() > 12 {
                let (old, released): (u64, JobAmounts) =
                    claims.remove(step as usize % claims.len());
                for (&ix, taken) in &released.holds {
                    overlay.dismiss(ix, taken, released.owner);
                }
                fixture.state.vacate(JobId::job(old));
            } else {
                let new = claim(&fixture, &node, ncpus);
                overlay.claim(&new);
                fixture = fixture.running(step, &format!("select=1:ncpus={ncpus}"), &node, 60);
                claims.push((step, new));
            }
            let changed = AvailabilityMap::now(&fixture.state.cluster);
            assert_eq!(overlay.free, changed.free);
            assert_eq!(overlay.idle, changed.idle);
            for least in 1..10 {
                assert_eq!(
                    with_ncpus(&overlay, least),
                    with_ncpus(&changed, least),
                    "step {step}, {least} free"
                );
            }
        }
        assert!(
            overlay.buckets.len() < 60,
            "classes without nodes are reused"
        );
    }

    #[test]
    fn the_scarcest_resource_limits_how_often_amounts_fit() {
        let fixture = cluster("1 x ncpus=8:mem=2gb");
        let space = AvailabilityMap::now(&fixture.state.cluster);
        let [ncpus, mem] =
            ["ncpus", "mem"].map(|name| fixture.state.cluster.catalog.index(name).unwrap());
        assert_eq!(space.times(0, &[(ncpus, 1), (mem, 1 << 30)]), Some(2));
        assert_eq!(
            (space.times(0, &[(ncpus, 3)]), space.times(0, &[])),
            (Some(2), None)
        );
    }

    /// M8b.
    #[test]
    fn the_earliest_planned_start_on_a_node_counts() {
        let fixture = cluster("2 x ncpus=8");
        let mut space = AvailabilityMap::now(&fixture.state.cluster);
        [20, 10, 30]
            .iter()
            .for_each(|&at| space.promise(NodeIx(0), Time(at)));
        assert_eq!(
            [0, 1].map(|ix| space.next_planned_start(NodeIx(ix))),
            [Some(Time(10)), None]
        );
    }
}
