//! Where would it fit? Finds nodes for all chunks of a request, and takes nothing.
//!
//! A chunk is held against buckets, and only the nodes that are chosen are looked at, in the order
//! of the nodes. Requests of one kind of chunk are decided exactly; for several kinds the order
//! asked is tried, then the most demanding first, then a bounded search (see [`search`]).

use super::amounts::Amounts;
use super::cluster::{Condition, NodeIx};
use super::dealing::deal;
use super::preference::Rank;
use super::shape::{ChunkShape, Shape};
use super::space::Space;
use super::tenant::Tenancy;
use super::{neighbourhood, pools, screen, search, sets};
use crate::model::policy::Allocation;
use crate::model::resource::Value;
use crate::model::select::Arrangement;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// The node of each chunk, in the order of the request: (node, which kind of chunk).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// One for each chunk.
    pub picks: Vec<(NodeIx, usize)>,
}

/// What was found out when a request did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Too little in all.
    Amounts,
    /// Too few places for the one kind of chunk.
    Places {
        /// Chunks that have a place.
        fitting: u64,
        /// Chunks there are.
        needed: u64,
    },
    /// No arrangement was found.
    Arrangement,
}

/// The nodes for all chunks.
pub fn fit(space: &Space, shape: &Shape) -> Result<Placement, Misfit> {
    if !is_enough_free(space, shape) {
        return Err(Misfit::Amounts);
    }
    if let Some(chunk) = counted_alone(space, shape) {
        return place_alike(space, shape, chunk);
    }
    let placement = match (&shape.sets, &shape.group) {
        (Some(sets), _) => sets::place(space, shape, sets),
        (None, None) => arrange(space, shape),
        (None, Some(resource)) => {
            let values = group_values(space, resource);
            values.iter().find_map(|value| arrange(space, &shape.narrowed(resource, value)))
        }
    };
    placement.filter(|placement| suffices(space, shape, placement)).ok_or(Misfit::Arrangement)
}

/// Whether there is enough of what is counted once for each host.
fn suffices(space: &Space, shape: &Shape, placement: &Placement) -> bool {
    let nodes = placement.picks.iter().map(|&(ix, _)| ix);
    let free = space.free(Tenancy::Shared);
    pools::amounts(space.cluster, shape, nodes).into_iter().all(|(index, amount)| amount <= free[index])
}

/// Whether all chunks fit: as [`fit`], but where counting tells, no node is chosen.
pub fn fits(space: &Space, shape: &Shape) -> bool {
    match counted_alone(space, shape) {
        Some(chunk) => {
            let mut supply = 0;
            let enough = |bucket: FittingBucket| {
                supply = bucket.supply().saturating_add(supply);
                supply >= chunk.count
            };
            is_enough_free(space, shape) && fitting_buckets(space, shape, chunk).any(enough)
        }
        None => fit(space, shape).is_ok(),
    }
}

/// The chunk of a request that counting alone decides: one kind, on any nodes that have room.
fn counted_alone<'a>(space: &Space, shape: &'a Shape) -> Option<&'a ChunkShape> {
    let is_anywhere = match shape.arrangement {
        Arrangement::Free | Arrangement::Vscatter => true,
        Arrangement::Scatter => space.cluster.composite_hosts().next().is_none(),
        Arrangement::Pack => false,
    };
    let is_one_by_one = || {
        let policy = space.guide().policy(space, shape);
        matches!(policy, Allocation::Contiguous | Allocation::MaxBalance)
            || shape.sets.is_some()
            || shape.group.is_some()
            || shape.pooled.iter().any(|&(index, _)| space.cluster.pools.get(index).is_some_and(|pool| pool.per_host))
            || screen::asks_nodes(space, shape)
            || space.cluster.gives_whole_hosts(shape.tenant())
    };
    match &shape.chunks[..] {
        [chunk] if is_anywhere && !chunk.needs.iter().any(|need| need.is_pinned()) && !is_one_by_one() => Some(chunk),
        _ => None,
    }
}

/// Chunks of one kind on the first nodes with room. So many chunks need at most so many buckets,
/// those whose first nodes come first; the others are only counted.
fn place_alike(space: &Space, shape: &Shape, chunk: &ChunkShape) -> Result<Placement, Misfit> {
    let ranks_kinds = ranks_kinds(space, shape);
    let (mut supply, mut nearest) = (0_u64, BinaryHeap::new());
    for bucket in fitting_buckets(space, shape, chunk) {
        supply = supply.saturating_add(bucket.supply());
        if !ranks_kinds {
            continue;
        }
        if (nearest.len() as u64) < chunk.count {
            nearest.push(bucket);
        } else if let Some(mut farthest) = nearest.peek_mut().filter(|farthest| bucket < **farthest) {
            *farthest = bucket;
        }
    }
    if supply < chunk.count {
        return Err(Misfit::Places { fitting: supply, needed: chunk.count });
    }
    let candidates = match ranks_kinds {
        true => Candidates::Buckets(nearest.into_vec()),
        false => Candidates::of(space, shape, 0, None),
    };
    let wanted = chunk.count;
    let picks = deal(space, shape, candidates.nodes(space), wanted).into_iter().map(|node| (node, 0)).collect();
    Ok(Placement { picks })
}

/// Whether nodes are ranked by what they are.
fn ranks_kinds(space: &Space, shape: &Shape) -> bool {
    !matches!(
        space.guide().policy(space, shape),
        Allocation::LastAvailable | Allocation::CpuLoad | Allocation::Priority
    ) && shape.answer.is_none()
}

/// The buckets with room for a kind of chunk, host and node names left aside.
fn fitting_buckets<'a>(
    space: &'a Space,
    shape: &'a Shape,
    chunk: &'a ChunkShape,
) -> impl Iterator<Item = FittingBucket> + 'a {
    let guide = space.guide();
    let policy = guide.policy(space, shape);
    space.with_free(&chunk.asked).filter_map(move |place| {
        let head = space.head(place);
        let first = head.first?;
        let suits = space.welcomes(place, shape.tenant())
            && space.meets(head.kind, &chunk.needs)
            && screen::suits_kind(space, shape, head.kind)
            && (!chunk.wants_idle() || head.condition == Condition::Idle);
        let times = match shape.is_one_to_a_node(space.cluster.kind(head.kind)) || chunk.wants_idle() {
            true => 1,
            false => space.times(place, &chunk.asked).unwrap_or(ChunkShape::MOST_EMPTY_ON_A_NODE).min(chunk.count),
        };
        let rank = guide.of_kind(policy, head.kind).unwrap_or_default();
        suits.then_some(FittingBucket { rank, first, place, nodes: head.nodes, times })
    })
}

/// Whether the sums suffice; most refusals are found here.
fn is_enough_free(space: &Space, shape: &Shape) -> bool {
    shape.total.iter().zip(space.free(shape.tenancy)).all(|(asked, free)| *asked == 0 || asked <= free)
}

/// The values a resource has on the nodes, in order.
fn group_values(space: &Space, resource: &str) -> Vec<Value> {
    let mut values = BTreeMap::new();
    for node in space.cluster.present() {
        if let Some(value) = space.cluster.value(node, resource) {
            values.insert(value.to_string(), value);
        }
    }
    values.into_values().collect()
}

/// Nodes for all chunks, sets and groups left aside.
pub fn arrange(space: &Space, shape: &Shape) -> Option<Placement> {
    match (shape.arrangement, space.guide().policy(space, shape)) {
        (Arrangement::Pack, _) => pack(space, shape),
        (_, Allocation::Contiguous) => neighbourhood::contiguous(space, shape),
        (_, Allocation::MaxBalance) => neighbourhood::balanced(space, shape),
        (Arrangement::Free | Arrangement::Scatter | Arrangement::Vscatter, _) => spread(space, shape, None),
    }
}

/// A node's rank for a job.
fn rank(space: &Space, shape: &Shape, ix: NodeIx) -> Rank {
    if let Some(answer) = &shape.answer {
        return Rank::at(answer.get(&space.cluster.node(ix).name).copied());
    }
    space.guide().of_node(space.guide().policy(space, shape), space, shape, ix)
}

/// All chunks on one host: the first that takes them.
fn pack(space: &Space, shape: &Shape) -> Option<Placement> {
    let solo = pack_on_one_node(space, shape);
    let rank_of = |ix: NodeIx| (rank(space, shape, ix), ix);
    let first = solo.as_ref().and_then(|placement| placement.picks.first()).map(|&(node, _)| rank_of(node));
    let mut hosts: Vec<(Rank, Vec<NodeIx>)> = space
        .cluster
        .composite_hosts()
        .filter_map(|nodes| {
            let best = nodes.iter().map(|&ix| rank(space, shape, ix)).min()?;
            Some((best, nodes.iter().copied().collect()))
        })
        .collect();
    hosts.sort();
    let earlier = hosts.iter().take_while(|(best, nodes)| first.is_none_or(|first| (*best, nodes[0]) < first));
    earlier.into_iter().find_map(|(_, nodes)| spread(space, shape, Some(nodes))).or(solo)
}

/// The same among hosts of one node each, which are alike by bucket.
fn pack_on_one_node(space: &Space, shape: &Shape) -> Option<Placement> {
    let asked: Vec<(usize, i64)> = shape.total.iter().copied().enumerate().filter(|&(_, amount)| amount > 0).collect();
    let needs: Vec<_> = shape.chunks.iter().flat_map(|chunk| chunk.needs.iter().cloned()).collect();
    let wants_idle = shape.chunks.iter().any(ChunkShape::wants_idle);
    let fitting = space.with_free(&asked).filter(|&place| {
        let head = space.head(place);
        let is_suitable = space.meets(head.kind, &needs) && screen::suits_kind(space, shape, head.kind);
        let is_open = space.welcomes(place, shape.tenant()) && (!wants_idle || head.condition == Condition::Idle);
        head.solo
            && is_open
            && is_suitable
            && (shape.instances == 1 || !shape.is_one_to_a_node(space.cluster.kind(head.kind)))
    });
    let is_pinned = needs.iter().any(|need| need.is_pinned());
    let node = match is_pinned || screen::asks_nodes(space, shape) || !ranks_kinds(space, shape) {
        false => {
            let guide = space.guide();
            let policy = guide.policy(space, shape);
            let first = |place| {
                let head = space.head(place);
                Some((guide.of_kind(policy, head.kind).unwrap_or_default(), head.first?))
            };
            fitting.filter_map(first).min()?.1
        }
        true => {
            let nodes = space.merged(fitting.map(|place| (Rank::default(), place, 0))).map(|(node, _)| node);
            let suits =
                |ix: &NodeIx| space.cluster.node_meets(*ix, &needs) && screen::objection(space, shape, *ix).is_none();
            nodes.filter(suits).min_by_key(|&ix| (rank(space, shape, ix), ix))?
        }
    };
    spread(space, shape, Some(&[node]))
}

/// The chunks on any of the nodes, or of these only, each on a node or host of its own if so asked.
pub fn spread(space: &Space, shape: &Shape, within: Option<&[NodeIx]>) -> Option<Placement> {
    let as_asked: Vec<usize> = (0..shape.chunks.len()).collect();
    let first = in_order(space, shape, within, &as_asked);
    if first.is_some() || shape.chunks.len() < 2 {
        return first;
    }
    let mut demanding = as_asked;
    demanding
        .sort_by_key(|&chunk| std::cmp::Reverse(shape.chunks[chunk].asked.iter().map(|a| a.1).collect::<Vec<_>>()));
    in_order(space, shape, within, &demanding).or_else(|| search::place(space, shape, within, &demanding))
}

fn in_order(space: &Space, shape: &Shape, within: Option<&[NodeIx]>, order: &[usize]) -> Option<Placement> {
    let mut trial = Trial::new(space, shape);
    order.iter().all(|&chunk| trial.place(chunk, within) == shape.chunks[chunk].count).then(|| trial.placement())
}

/// Chunks put on nodes for a try.
#[derive(Clone)]
pub struct Trial<'a> {
    space: &'a Space<'a>,
    shape: &'a Shape,
    /// What is left of the nodes picked so far.
    left: BTreeMap<NodeIx, Amounts>,
    hosts: BTreeSet<&'a str>,
    picks: Vec<(NodeIx, usize)>,
}

impl<'a> Trial<'a> {
    /// Nothing put anywhere yet.
    pub fn new(space: &'a Space<'a>, shape: &'a Shape) -> Trial<'a> {
        Trial { space, shape, left: BTreeMap::new(), hosts: BTreeSet::new(), picks: Vec::new() }
    }

    /// The picks, in the order of the request.
    pub fn placement(mut self) -> Placement {
        self.picks.sort_by_key(|&(_, chunk)| chunk);
        Placement { picks: self.picks }
    }

    /// Puts the chunks of one kind on the first nodes that take them, as many on each as go;
    /// tells how many found a place. None is put anywhere when there are too few places in all.
    pub fn place(&mut self, chunk: usize, within: Option<&[NodeIx]>) -> u64 {
        let count = self.shape.chunks[chunk].count;
        let candidates = Candidates::of(self.space, self.shape, chunk, within);
        // Compared before anything is put anywhere: a count may be in the billions.
        if candidates.supply() < count {
            return 0;
        }
        if self.shape.is_spread() {
            return self.spread(chunk, count, &candidates);
        }
        let dealt = {
            let trial = &*self;
            let nodes = candidates.nodes(self.space).map(|(node, _)| (node, trial.times(node, chunk)));
            deal(self.space, self.shape, nodes.filter(|&(_, times)| times > 0), count)
        };
        // Runs of one node are put there at once.
        for run in dealt.chunk_by(|a, b| a == b) {
            self.put(run[0], chunk, run.len() as u64);
        }
        dealt.len() as u64
    }

    /// The same where each chunk stands in the way of the next.
    fn spread(&mut self, chunk: usize, count: u64, candidates: &Candidates) -> u64 {
        let mut wanted = count;
        for (node, _) in candidates.nodes(self.space) {
            let take = self.times(node, chunk).min(wanted);
            self.put(node, chunk, take);
            wanted -= take;
            if wanted == 0 {
                break;
            }
        }
        count - wanted
    }

    /// How many chunks of a kind go on a node, besides those that are there.
    pub fn times(&self, node: NodeIx, chunk: usize) -> u64 {
        let room = self.space.room(node);
        if !self.space.admits(node, self.shape.tenant()) || self.is_reserved(node) {
            return 0;
        }
        let chunk = &self.shape.chunks[chunk];
        let is_single = self
            .space
            .cluster
            .node(node)
            .kind
            .is_some_and(|kind| self.shape.is_one_to_a_node(self.space.cluster.kind(kind)) || chunk.wants_idle());
        let is_in_use = self.left.contains_key(&node);
        if is_single && is_in_use || chunk.wants_idle() && room.tenants > 0 {
            return 0;
        }
        let times = chunk.times_in(self.left.get(&node).unwrap_or(&room.free));
        if is_single { times.min(1) } else { times }
    }

    /// Whether another chunk is there that wants the node, or its host, for itself.
    fn is_reserved(&self, node: NodeIx) -> bool {
        match self.shape.arrangement {
            Arrangement::Scatter => self.hosts.contains(self.space.cluster.node(node).host.as_str()),
            Arrangement::Vscatter => self.left.contains_key(&node),
            Arrangement::Free | Arrangement::Pack => {
                let has_whole = |&(at, chunk): &(NodeIx, usize)| at == node && self.shape.chunks[chunk].wants_idle();
                self.shape.chunks.iter().any(ChunkShape::wants_idle) && self.picks.iter().any(has_whole)
            }
        }
    }

    /// Puts so many chunks of a kind on a node.
    pub fn put(&mut self, node: NodeIx, chunk: usize, times: u64) {
        if times == 0 {
            return;
        }
        let space = self.space;
        let left = self.left.entry(node).or_insert_with(|| space.room(node).free.clone());
        for &(index, amount) in &self.shape.chunks[chunk].asked {
            left[index] -= amount * times as i64;
        }
        self.hosts.insert(&space.cluster.node(node).host);
        self.picks.extend((0..times).map(|_| (node, chunk)));
    }

    /// Whether something is on this node.
    pub fn is_touched(&self, node: NodeIx) -> bool {
        self.left.contains_key(&node)
    }

    /// The nodes something is on.
    pub fn touched(&self) -> Vec<NodeIx> {
        self.left.keys().copied().collect()
    }
}

/// Where a kind of chunk could go, as far as buckets tell, and how many chunks go on one node.
pub enum Candidates {
    /// Nodes of these buckets.
    Buckets(Vec<FittingBucket>),
    /// These nodes.
    Listed(Vec<(NodeIx, u64)>),
}

/// A bucket with room; those of the lowest rank are first, and of these those whose first node comes
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FittingBucket {
    /// The rank of its nodes, where that is the same for all.
    pub rank: Rank,
    first: NodeIx,
    /// Its place in the space.
    pub place: usize,
    /// Its nodes.
    pub nodes: u64,
    /// How many chunks go on each.
    pub times: u64,
}

impl FittingBucket {
    /// How many chunks go on all of its nodes.
    fn supply(self) -> u64 {
        self.nodes.saturating_mul(self.times)
    }
}

impl Candidates {
    /// The candidates for one kind of chunk, on all nodes or within some.
    pub fn of(space: &Space, shape: &Shape, chunk: usize, within: Option<&[NodeIx]>) -> Candidates {
        let chunk = &shape.chunks[chunk];
        match within {
            Some(nodes) => Candidates::listed(space, shape, chunk, nodes.iter().copied()),
            None => match Candidates::named(space, chunk) {
                Some(nodes) => Candidates::listed(space, shape, chunk, nodes.into_iter()),
                None => {
                    let fitting: Vec<FittingBucket> = fitting_buckets(space, shape, chunk).collect();
                    if ranks_kinds(space, shape) && !screen::asks_nodes(space, shape) {
                        return Candidates::Buckets(fitting);
                    }
                    let nodes = space.merged(fitting.iter().map(|bucket| (Rank::default(), bucket.place, 0)));
                    Candidates::listed(space, shape, chunk, nodes.map(|(node, _)| node))
                }
            },
        }
    }

    /// The nodes that bear the host or node name a chunk asks for; None when it asks for none.
    pub fn named(space: &Space, chunk: &ChunkShape) -> Option<Vec<NodeIx>> {
        let name_of = |resource: &str| {
            let need = chunk.needs.iter().find(|need| need.resource == resource)?;
            Some(need.value.to_string())
        };
        match (name_of("vnode"), name_of("host")) {
            (Some(node), _) => Some(space.cluster.find(&node).into_iter().collect()),
            (None, Some(host)) => Some(space.cluster.nodes_of_host(&host).collect()),
            (None, None) => None,
        }
    }

    fn listed(space: &Space, shape: &Shape, chunk: &ChunkShape, nodes: impl Iterator<Item = NodeIx>) -> Candidates {
        let fits = |ix: &NodeIx| {
            space.is_open(*ix)
                && space.admits(*ix, shape.tenant())
                && space.cluster.node_meets(*ix, &chunk.needs)
                && screen::suits(space, shape, *ix)
        };
        let trial = Trial::new(space, shape);
        let place = shape.chunks.iter().position(|other| std::ptr::eq(other, chunk)).unwrap_or(0);
        let times = |ix: NodeIx| (ix, trial.times(ix, place));
        let mut listed: Vec<(NodeIx, u64)> = nodes.filter(fits).map(times).filter(|&(_, times)| times > 0).collect();
        listed.sort_by_cached_key(|&(ix, _)| (rank(space, shape, ix), ix));
        Candidates::Listed(listed)
    }

    /// How many chunks could go there, at most.
    pub fn supply(&self) -> u64 {
        match self {
            Candidates::Buckets(fitting) => fitting.iter().map(|bucket| bucket.supply()).fold(0, u64::saturating_add),
            Candidates::Listed(nodes) => nodes.iter().map(|&(_, times)| times).fold(0, u64::saturating_add),
        }
    }

    /// The nodes, in order, with how many chunks go on each.
    pub fn nodes<'a>(&'a self, space: &'a Space) -> Box<dyn Iterator<Item = (NodeIx, u64)> + 'a> {
        match self {
            Candidates::Buckets(fitting) => {
                let merged = space.merged(fitting.iter().enumerate().map(|(i, bucket)| (bucket.rank, bucket.place, i)));
                Box::new(merged.map(|(node, i)| (node, fitting[i].times)))
            }
            Candidates::Listed(nodes) => Box::new(nodes.iter().copied()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::sched::fixture::{Scene, cluster};

    fn starts(nodes: &str, request: &str) -> String {
        cluster(nodes).queued(1, request).starts()
    }

    #[test]
    fn free_chunks_fill_the_first_nodes() {
        assert_eq!(starts("3 x ncpus=8", "select=3:ncpus=4"), "1 on n1,n1,n2");
        assert_eq!(starts("2 x ncpus=8", "select=5:ncpus=4"), "");
    }

    #[test]
    fn packed_chunks_share_a_host() {
        assert_eq!(starts("2 x ncpus=4, 1 x ncpus=8", "select=2:ncpus=4 place=pack"), "1 on n3,n3");
        let vnodes = cluster("1 x ncpus=2").on_host("h", "3 x ncpus=2");
        assert_eq!(vnodes.queued(1, "select=3:ncpus=2 place=pack").starts(), "1 on n2,n3,n4");
    }

    #[test]
    fn scattered_chunks_have_a_host_each() {
        assert_eq!(starts("3 x ncpus=8", "select=3:ncpus=1 place=scatter"), "1 on n1,n2,n3");
        let vnodes = cluster("1 x ncpus=2").on_host("h", "3 x ncpus=2");
        assert_eq!(vnodes.clone().queued(1, "select=2:ncpus=1 place=scatter").starts(), "1 on n1,n2");
        assert_eq!(vnodes.clone().queued(1, "select=3:ncpus=1 place=scatter").starts(), "");
        assert_eq!(vnodes.queued(1, "select=4:ncpus=1 place=vscatter").starts(), "1 on n1,n2,n3,n4");
    }

    #[test]
    fn an_exclusive_job_wants_empty_nodes_and_keeps_them() {
        let busy = cluster("2 x ncpus=8").running(1, "select=1:ncpus=1", "n1", 100);
        let alone =
            busy.queued(2, "select=1:ncpus=1 place=excl").queued(3, "select=1:ncpus=7").queued(4, "select=1:ncpus=1");
        assert_eq!(alone.starts(), "2 on n2; 3 on n1");
    }

    #[test]
    fn an_exclusive_host_is_barred_as_a_whole() {
        let hosts = cluster("").on_host("a", "2 x ncpus=2").on_host("b", "2 x ncpus=2");
        let scene = hosts.running(9, "select=1:ncpus=1", "n1", 100);
        let scene = scene
            .queued(1, "select=1:ncpus=1 place=exclhost")
            .queued(2, "select=3:ncpus=1")
            .queued(3, "select=1:ncpus=1");
        assert_eq!(scene.starts(), "1 on n3; 2 on n1,n2,n2");
        assert_eq!(scene.plan().starts[0].exclusive.tenancy, crate::sched::snapshot::Tenancy::Hosts);
    }

    #[test]
    fn values_that_are_compared_choose_the_nodes() {
        let nodes = "1 x ncpus=8, 1 x ncpus=8:big=True:color=red:speed=3";
        assert_eq!(starts(nodes, "select=1:ncpus=1:big=True"), "1 on n2");
        assert_eq!(starts(nodes, "select=1:ncpus=1:big=False"), "1 on n1");
        assert_eq!(starts(nodes, "select=1:ncpus=1:color=red"), "1 on n2");
        assert_eq!(starts(nodes, "select=1:ncpus=1:speed=2"), "1 on n2");
        assert_eq!(starts(nodes, "select=1:ncpus=1:host=n2"), "1 on n2");
        assert_eq!(starts(nodes, "select=1:ncpus=2+1:ncpus=1:vnode=n1"), "1 on n1,n1");
        assert_eq!(starts(nodes, "select=2:ncpus=4 place=group=color"), "1 on n2,n2");
    }

    #[test]
    fn custom_consumables_run_out() {
        let scene = cluster("2 x ncpus=8:lic=1")
            .queued(1, "select=1:lic=1")
            .queued(2, "select=1:lic=1")
            .queued(3, "select=1:lic=1");
        assert_eq!(scene.starts(), "1 on n1; 2 on n2");
        assert_eq!(scene.why(3), "Not Running: Insufficient amount of resource: lic (R: 1 A: 0 T: 2)");
    }

    #[test]
    fn kinds_of_chunks_are_not_in_each_others_way() {
        assert_eq!(starts("1 x ncpus=4, 1 x ncpus=2", "select=1:ncpus=2+1:ncpus=4"), "1 on n2,n1");
        // Neither order of first fit places this: 3+3 and 2+2+2.
        assert_eq!(starts("2 x ncpus=6", "select=2:ncpus=3+3:ncpus=2"), "1 on n1,n1,n2,n2,n2");
        assert_eq!(starts("1 x ncpus=5, 1 x ncpus=7", "select=1:ncpus=4+1:ncpus=3+1:ncpus=5"), "1 on n2,n2,n1");
    }

    #[test]
    fn chunks_may_ask_for_nothing() {
        assert_eq!(starts("1 x ncpus=1", "select=2:ncpus=0"), "1 on n1,n1");
    }

    #[test]
    fn billions_of_chunks_are_refused_at_once() {
        for request in
            ["select=4000000000:ncpus=1", "select=4000000000:ncpus=0", "select=4000000000:ncpus=1 place=scatter"]
        {
            assert!(cluster("3 x ncpus=8").queued(1, request).reason(1).unwrap().is_never(), "{request}");
        }
    }

    #[test]
    fn nodes_that_are_down_or_gone_get_nothing() {
        let mut scene: Scene = cluster("2 x ncpus=8").node("n1", "ncpus=8", false).queued(1, "select=1:ncpus=8");
        assert_eq!(scene.starts(), "1 on n2");
        scene.state.remove_node("n2");
        assert_eq!(scene.starts(), "");
        assert_eq!(scene.node("n1", "ncpus=8", true).starts(), "1 on n1");
    }
}
