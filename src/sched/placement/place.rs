//! Placement: finds a node for each chunk of a request, but claims no resources.
//!
//! Chunks are compared with node classes (interchangeable nodes); single nodes are examined only
//! where necessary. The result is exact for requests with one kind of chunk. For several kinds,
//! placement tries the order of the request, then the most demanding kind first, and then a bounded
//! search (see [`search`]).

mod node_groups;
mod search;

use super::availability_map::AvailabilityMap;
use super::filter::{self, admits_owner, fitting_classes, fitting_nodes};
use super::guide::Rank;
use super::rank::{Candidates, class_rank, rank, ranks_kinds};
use super::shared_hosts;
use crate::model::request::placement_policy::{Distribution, NodeAllocation};
use crate::model::request::select::Arrangement;
use crate::sched::amounts::Amounts;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::node_access::AccessPolicy;
use crate::sched::view::shape::{ChunkShape, Shape};
use std::collections::{BTreeMap, BTreeSet};

/// The node of each chunk, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// For each chunk, its node and the index of its kind of chunk.
    pub picks: Vec<(NodeIx, usize)>,
}

impl Placement {
    /// The placement on these nodes, one for each chunk. None if a node is unknown, or if the
    /// number of nodes differs from the number of chunks.
    pub fn on(space: &AvailabilityMap, shape: &Shape, nodes: &[String]) -> Option<Placement> {
        let chunks = shape
            .chunks
            .iter()
            .enumerate()
            .flat_map(|(kind, chunk)| (0..chunk.count).map(move |_| kind));
        let known: Option<Vec<NodeIx>> =
            nodes.iter().map(|node| space.cluster.find(node)).collect();
        let known = known.filter(|known| known.len() as u64 == shape.instances)?;
        Some(Placement {
            picks: known.into_iter().zip(chunks).collect(),
        })
    }
}

/// Why a request does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The total free amounts are too small.
    Amounts,
    /// The request has only one kind of chunk, and too few of these chunks fit.
    Places {
        /// The number of chunks that fit.
        fitting: u64,
        /// The number of chunks requested.
        needed: u64,
    },
    /// No arrangement was found.
    Arrangement,
}

/// Finds nodes for all chunks. The error is the reason why the request does not fit.
pub fn fit(space: &AvailabilityMap, shape: &Shape) -> Result<Placement, Misfit> {
    if !is_enough_free(space, shape) {
        return Err(Misfit::Amounts);
    }
    if let Some(chunk) = counted_chunk(space, shape) {
        return place_only_kind(space, shape, chunk);
    }
    if let Some(placement) = arrange_in_groups(space, shape)
        && suffices(space, shape, &placement)
    {
        return Ok(placement);
    }
    if let Some(placement) = shared_hosts::place(space, shape)
        && suffices(space, shape, &placement)
    {
        return Ok(placement);
    }
    Err(Misfit::Arrangement)
}

/// Finds nodes for all chunks. If the policy or the request demands it, all nodes are in one node
/// set, or have the same value of a resource.
fn arrange_in_groups(space: &AvailabilityMap, shape: &Shape) -> Option<Placement> {
    if let Some(sets) = &shape.sets {
        return node_groups::within_sets(space, shape, sets);
    }
    if let Some(resource) = &shape.group {
        return node_groups::with_common_value(space, shape, resource);
    }
    arrange(space, shape)
}

/// Whether enough system-wide resources are free for a placement.
fn suffices(space: &AvailabilityMap, shape: &Shape, placement: &Placement) -> bool {
    let nodes = placement.picks.iter().map(|&(ix, _)| ix);
    let free = space.free(AccessPolicy::Shared);
    space
        .pooled(shape, nodes)
        .into_iter()
        .all(|(index, amount)| amount <= free[index])
}

/// Why a request does not fit; None if it fits. Unlike [`fit`], chooses no nodes if counting the
/// chunks that fit is sufficient.
pub fn misfit(space: &AvailabilityMap, shape: &Shape) -> Option<Misfit> {
    if !is_enough_free(space, shape) {
        return Some(Misfit::Amounts);
    }
    match counted_chunk(space, shape) {
        Some(chunk) => {
            let fitting = supply(space, shape, chunk);
            (fitting < chunk.count).then_some(Misfit::Places {
                fitting,
                needed: chunk.count,
            })
        }
        None => fit(space, shape).err(),
    }
}

/// Whether all chunks fit.
pub fn fits(space: &AvailabilityMap, shape: &Shape) -> bool {
    misfit(space, shape).is_none()
}

/// Whether counting the chunks that fit is sufficient to determine whether the request fits.
pub fn is_counted(space: &AvailabilityMap, shape: &Shape) -> bool {
    counted_chunk(space, shape).is_some()
}

/// The only kind of chunk of a request, if the chunks depend neither on each other nor on single
/// nodes. Counting them is then sufficient to determine whether the request fits. Otherwise None.
fn counted_chunk<'a>(space: &AvailabilityMap, shape: &'a Shape) -> Option<&'a ChunkShape> {
    let [chunk] = &shape.chunks[..] else {
        return None;
    };
    let is_anywhere = match shape.arrangement {
        Arrangement::Free | Arrangement::Vscatter => true,
        Arrangement::Scatter => space.cluster.composite_hosts().next().is_none(),
        Arrangement::Pack => false,
    };
    if !is_anywhere
        || chunk.needs.iter().any(|need| need.is_pinned())
        || needs_single_nodes(space, shape)
    {
        return None;
    }
    Some(chunk)
}

/// Whether nodes must be considered individually, not by class.
fn needs_single_nodes(space: &AvailabilityMap, shape: &Shape) -> bool {
    let is_per_host = |index: usize| {
        let pool = space.cluster.pools.get(index);
        pool.is_some_and(|pool| pool.per_host)
    };
    matches!(
        space.guide().policy(space, shape),
        NodeAllocation::Contiguous | NodeAllocation::MaxBalance
    ) || shape.sets.is_some()
        || shape.group.is_some()
        || shape.pooled.iter().any(|&(index, _)| is_per_host(index))
        || filter::distinguishes_nodes(space, shape)
        || space.cluster.may_get_whole_hosts(shape.owner())
}

/// Places the chunks of a request with one kind of chunk on the first nodes on which they fit.
fn place_only_kind(
    space: &AvailabilityMap,
    shape: &Shape,
    chunk: &ChunkShape,
) -> Result<Placement, Misfit> {
    let fitting = supply(space, shape, chunk);
    if fitting < chunk.count {
        return Err(Misfit::Places {
            fitting,
            needed: chunk.count,
        });
    }
    let guide = space.guide();
    let uses_default = guide.policy(space, shape) == guide.usual(space);
    let picks = if uses_default && ranks_kinds(space, shape) {
        let nodes = fitting_nodes(space, shape, chunk);
        distribute_chunks(space, shape, nodes, chunk.count)
    } else {
        let candidates = Candidates::of(space, shape, 0, None);
        distribute_chunks(space, shape, candidates.nodes(space, shape), chunk.count)
    };
    Ok(Placement {
        picks: picks.into_iter().map(|node| (node, 0)).collect(),
    })
}

/// The number of chunks that fit. Stops counting when enough chunks fit.
fn supply(space: &AvailabilityMap, shape: &Shape, chunk: &ChunkShape) -> u64 {
    let mut supply = 0_u64;
    for bucket in fitting_classes(space, shape, chunk) {
        supply = supply.saturating_add(bucket.supply());
        if supply >= chunk.count {
            break;
        }
    }
    supply
}

/// Whether the cluster's total free amounts suffice. Per-host resources that a subjob can share
/// with other subjobs of its array are not checked. This check alone causes most refusals.
pub fn is_enough_free(space: &AvailabilityMap, shape: &Shape) -> bool {
    has_total(space, shape)
        || shared_hosts::eased(space, shape).is_some_and(|eased| has_total(space, &eased))
}

fn has_total(space: &AvailabilityMap, shape: &Shape) -> bool {
    let mut sums = shape.total.iter().zip(space.free(shape.access));
    sums.all(|(requested, free)| *requested == 0 || requested <= free)
}

/// Finds nodes for all chunks, without regard to node sets and the `group` of the place statement.
pub fn arrange(space: &AvailabilityMap, shape: &Shape) -> Option<Placement> {
    match (shape.arrangement, space.guide().policy(space, shape)) {
        (Arrangement::Pack, _) => pack(space, shape),
        (_, NodeAllocation::Contiguous) => node_groups::contiguous(space, shape),
        (_, NodeAllocation::MaxBalance) => node_groups::balanced(space, shape),
        (Arrangement::Free | Arrangement::Scatter | Arrangement::Vscatter, _) => {
            spread(space, shape, None)
        }
    }
}

/// Places all chunks on the first host on which they fit.
fn pack(space: &AvailabilityMap, shape: &Shape) -> Option<Placement> {
    let solo = pack_on_one_node(space, shape);
    let first = solo
        .as_ref()
        .and_then(|placement| placement.picks.first())
        .map(|&(node, _)| (rank(space, shape, node), node));
    let mut hosts: Vec<(Rank, Vec<NodeIx>)> = space
        .cluster
        .composite_hosts()
        .filter_map(|nodes| {
            let best = nodes.iter().map(|&ix| rank(space, shape, ix)).min()?;
            Some((best, nodes.iter().copied().collect()))
        })
        .collect();
    hosts.sort();
    let mut earlier = hosts
        .iter()
        .take_while(|(best, nodes)| first.is_none_or(|first| (*best, nodes[0]) < first));
    earlier
        .find_map(|(_, nodes)| spread(space, shape, Some(nodes)))
        .or(solo)
}

/// Places all chunks on the first node on which they fit, among the nodes that are the only node of
/// their host.
fn pack_on_one_node(space: &AvailabilityMap, shape: &Shape) -> Option<Placement> {
    // System-wide resources are not part of any node.
    let of_nodes = shape
        .total
        .iter()
        .copied()
        .enumerate()
        .take(space.cluster.catalog.pooled().start);
    let requested: Vec<(usize, i64)> = of_nodes.filter(|&(_, amount)| amount > 0).collect();
    let needs: Vec<_> = shape
        .chunks
        .iter()
        .flat_map(|chunk| chunk.needs.iter().cloned())
        .collect();
    let fitting = space.with_free(&requested).filter(|&place| {
        let head = space.head(place);
        let is_suitable =
            space.meets(head.kind, &needs) && filter::suits_kind(space, shape, head.kind);
        head.solo
            && admits_owner(space, &space.buckets()[place].key, shape.owner())
            && is_suitable
            && !shape.is_one_to_a_node(space.cluster.kind(head.kind))
    });
    let is_pinned = needs.iter().any(|need| need.is_pinned());
    let checks_nodes =
        is_pinned || filter::distinguishes_nodes(space, shape) || !ranks_kinds(space, shape);
    let node = if checks_nodes {
        space
            .merged(fitting.map(|place| (Rank::default(), place, 0)))
            .map(|(node, _)| node)
            .filter(|&ix| {
                space.cluster.node_meets(ix, &needs)
                    && filter::objection(space, shape, ix).is_none()
            })
            .min_by_key(|&ix| (rank(space, shape, ix), ix))?
    } else {
        fitting
            .filter_map(|place| Some((class_rank(space, shape, place), space.first_of(place)?)))
            .min()?
            .1
    };
    spread(space, shape, Some(&[node]))
}

/// Places the chunks on any nodes, or on the nodes `within`. With `scatter`, each chunk gets its
/// own host; with `vscatter`, its own node.
pub fn spread(
    space: &AvailabilityMap,
    shape: &Shape,
    within: Option<&[NodeIx]>,
) -> Option<Placement> {
    let as_requested: Vec<usize> = (0..shape.chunks.len()).collect();
    let first = place_in_order(space, shape, within, &as_requested);
    if first.is_some() || shape.chunks.len() < 2 {
        return first;
    }
    let mut demanding = as_requested;
    demanding.sort_by_key(|&chunk| {
        std::cmp::Reverse(
            shape.chunks[chunk]
                .asked
                .iter()
                .map(|a| a.1)
                .collect::<Vec<_>>(),
        )
    });
    place_in_order(space, shape, within, &demanding)
        .or_else(|| search::place(space, shape, within, &demanding))
}

fn place_in_order(
    space: &AvailabilityMap,
    shape: &Shape,
    within: Option<&[NodeIx]>,
    order: &[usize],
) -> Option<Placement> {
    let mut trial = TentativePlacement::new(space, shape);
    order
        .iter()
        .all(|&chunk| trial.place(chunk, within) == shape.chunks[chunk].count)
        .then(|| trial.placement())
}

/// The chunks placed so far, and the resources left on the nodes of these chunks.
#[derive(Clone)]
pub struct TentativePlacement<'a> {
    space: &'a AvailabilityMap<'a>,
    shape: &'a Shape,
    /// The remaining free amounts of the nodes with chunks.
    left: BTreeMap<NodeIx, Amounts>,
    hosts: BTreeSet<&'a str>,
    picks: Vec<(NodeIx, usize)>,
}

impl<'a> TentativePlacement<'a> {
    /// A placement without any chunk.
    pub fn new(space: &'a AvailabilityMap<'a>, shape: &'a Shape) -> TentativePlacement<'a> {
        TentativePlacement {
            space,
            shape,
            left: BTreeMap::new(),
            hosts: BTreeSet::new(),
            picks: Vec::new(),
        }
    }

    /// The nodes of the chunks, in the order of the request.
    pub fn placement(mut self) -> Placement {
        self.picks.sort_by_key(|&(_, chunk)| chunk);
        Placement { picks: self.picks }
    }

    /// Places the chunks of one kind on the first nodes on which they fit, distributed as the
    /// policy requires. Returns the number of placed chunks. Places no chunk and returns 0 if too
    /// few chunks fit on all candidates together.
    pub fn place(&mut self, chunk: usize, within: Option<&[NodeIx]>) -> u64 {
        let count = self.shape.chunks[chunk].count;
        let candidates = Candidates::of(self.space, self.shape, chunk, within);
        // Checked first, because the count can be in the billions.
        if candidates.supply() < count {
            return 0;
        }
        if self.shape.is_spread() {
            return self.spread(chunk, count, &candidates);
        }
        let nodes_of_chunks = {
            let trial = &*self;
            let nodes = candidates
                .nodes(self.space, self.shape)
                .map(|(node, _)| (node, trial.times(node, chunk)));
            distribute_chunks(
                self.space,
                self.shape,
                nodes.filter(|&(_, times)| times > 0),
                count,
            )
        };
        // Chunks on the same node are placed together.
        for run in nodes_of_chunks.chunk_by(|a, b| a == b) {
            self.add_chunks(run[0], chunk, run.len() as u64);
        }
        nodes_of_chunks.len() as u64
    }

    /// Places chunks with `scatter` or `vscatter`, node by node: each placed chunk excludes further
    /// chunks from its host or node. Returns the number of placed chunks.
    fn spread(&mut self, chunk: usize, count: u64, candidates: &Candidates) -> u64 {
        let mut wanted = count;
        for (node, _) in candidates.nodes(self.space, self.shape) {
            let take = self.times(node, chunk).min(wanted);
            self.add_chunks(node, chunk, take);
            wanted -= take;
            if wanted == 0 {
                break;
            }
        }
        count - wanted
    }

    /// How many more chunks of one part of the request fit on a node.
    pub fn times(&self, node: NodeIx, chunk: usize) -> u64 {
        if self.is_excluded(node) {
            return 0;
        }
        let (space, shape) = (self.space, self.shape);
        let chunk = &shape.chunks[chunk];
        let Some(left) = self.left.get(&node) else {
            return filter::times_on_node(space, shape, chunk, node);
        };
        if !space.admits(node, shape.owner()) || filter::takes_one(space, shape, chunk, node) {
            return 0;
        }
        chunk.times_in(left)
    }

    /// Whether the chunks placed so far exclude further chunks from a node.
    fn is_excluded(&self, node: NodeIx) -> bool {
        match self.shape.arrangement {
            Arrangement::Scatter => self
                .hosts
                .contains(self.space.cluster.node(node).host.as_str()),
            Arrangement::Vscatter => self.left.contains_key(&node),
            Arrangement::Free | Arrangement::Pack => {
                let chunks = &self.shape.chunks;
                chunks.iter().any(ChunkShape::needs_idle_hosts)
                    && self
                        .picks
                        .iter()
                        .any(|&(at, chunk)| at == node && chunks[chunk].needs_idle_hosts())
            }
        }
    }

    /// Places `times` chunks of one part of the request on a node.
    pub fn add_chunks(&mut self, node: NodeIx, chunk: usize, times: u64) {
        if times == 0 {
            return;
        }
        let space = self.space;
        let left = self
            .left
            .entry(node)
            .or_insert_with(|| space.room(node).free.clone());
        for &(index, amount) in &self.shape.chunks[chunk].asked {
            left[index] -= amount * times as i64;
        }
        self.hosts.insert(&space.cluster.node(node).host);
        self.picks.extend((0..times).map(|_| (node, chunk)));
    }

    /// Whether a chunk has been placed on this node.
    pub fn is_used(&self, node: NodeIx) -> bool {
        self.left.contains_key(&node)
    }

    /// The nodes on which chunks have been placed.
    pub fn used_nodes(&self) -> Vec<NodeIx> {
        self.left.keys().copied().collect()
    }
}

/// Distributes chunks to nodes, given the number of chunks that fit on each node (M9). Depending on
/// the request or the policy, fills one node after another, places one chunk on each node in turn,
/// or divides the chunks equally among the first nodes that together have space for all of them.
/// Returns the node of each placed chunk; fewer than `wanted` if not all chunks fit.
pub fn distribute_chunks(
    space: &AvailabilityMap,
    shape: &Shape,
    nodes: impl Iterator<Item = (NodeIx, u64)>,
    wanted: u64,
) -> Vec<NodeIx> {
    let distribution = shape.distribution.unwrap_or(space.guide().distribution);
    if distribution == Distribution::Pack || shape.is_spread() {
        return fill_nodes(nodes, wanted);
    }
    let chosen: Vec<(NodeIx, u64)> = match distribution {
        Distribution::Balanced => {
            let mut left = wanted;
            nodes
                .take_while(|&(_, times)| {
                    let before = left;
                    left = left.saturating_sub(times);
                    before > 0
                })
                .collect()
        }
        _ => nodes
            .take(usize::try_from(wanted).unwrap_or(usize::MAX))
            .collect(),
    };
    let mut nodes_of_chunks = round_robin(&chosen, wanted);
    if distribution == Distribution::Balanced {
        let place: BTreeMap<NodeIx, usize> = chosen
            .iter()
            .enumerate()
            .map(|(place, &(node, _))| (node, place))
            .collect();
        nodes_of_chunks.sort_by_key(|node| place[node]);
    }
    nodes_of_chunks
}

fn fill_nodes(nodes: impl Iterator<Item = (NodeIx, u64)>, wanted: u64) -> Vec<NodeIx> {
    let mut picks = Vec::with_capacity(wanted as usize);
    for (node, times) in nodes {
        let take = times.min(wanted - picks.len() as u64);
        picks.extend((0..take).map(|_| node));
        if picks.len() as u64 == wanted {
            break;
        }
    }
    picks
}

fn round_robin(nodes: &[(NodeIx, u64)], wanted: u64) -> Vec<NodeIx> {
    let mut nodes_of_chunks = Vec::new();
    let mut round = 0;
    while (nodes_of_chunks.len() as u64) < wanted {
        let before = nodes_of_chunks.len();
        let open = nodes
            .iter()
            .filter(|&&(_, times)| times > round)
            .map(|&(node, _)| node);
        nodes_of_chunks
            .extend(open.take(usize::try_from(wanted - before as u64).unwrap_or(usize::MAX)));
        if nodes_of_chunks.len() == before {
            break;
        }
        round += 1;
    }
    nodes_of_chunks
}

#[cfg(test)]
mod tests;
