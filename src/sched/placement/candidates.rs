//! Where a kind of chunk could go: buckets of nodes with room for it, or nodes one by one where
//! something tells nodes of a bucket apart.

use super::availability_map::Space;
use super::node_filter;
use super::rank::Rank;
use super::tentative::Trial;
use crate::model::request::placement_policy::NodeAllocation;
use crate::sched::view::cluster::{Condition, Key, NodeIx};
use crate::sched::view::node_access::Tenant;
use crate::sched::view::shape::{ChunkShape, Shape};

/// Where a kind of chunk could go, as far as buckets tell, and how many chunks go on one node.
pub enum Candidates {
    /// Nodes of these buckets.
    Buckets(Vec<FittingBucket>),
    /// These nodes.
    Listed(Vec<(NodeIx, u64)>),
}

/// A bucket with room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FittingBucket {
    /// Its place in the space.
    pub place: usize,
    /// Its nodes.
    pub nodes: u64,
    /// How many chunks go on each.
    pub times: u64,
}

impl FittingBucket {
    /// How many chunks go on all of its nodes.
    pub fn supply(self) -> u64 {
        self.nodes.saturating_mul(self.times)
    }
}

impl Candidates {
    /// The candidates for one kind of chunk, on all nodes or within some.
    pub fn of(space: &Space, shape: &Shape, chunk: usize, within: Option<&[NodeIx]>) -> Candidates {
        let asked = &shape.chunks[chunk];
        match within {
            Some(nodes) => Candidates::listed(space, shape, chunk, nodes.iter().copied()),
            None => match Candidates::named(space, asked) {
                Some(nodes) => Candidates::listed(space, shape, chunk, nodes.into_iter()),
                None => {
                    let fitting: Vec<FittingBucket> =
                        fitting_buckets(space, shape, asked).collect();
                    if ranks_kinds(space, shape) && !node_filter::asks_nodes(space, shape) {
                        return Candidates::Buckets(fitting);
                    }
                    let nodes = space.merged(
                        fitting
                            .iter()
                            .map(|bucket| (Rank::default(), bucket.place, 0)),
                    );
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

    fn listed(
        space: &Space,
        shape: &Shape,
        chunk: usize,
        nodes: impl Iterator<Item = NodeIx>,
    ) -> Candidates {
        let needs = &shape.chunks[chunk].needs;
        let fits = |ix: &NodeIx| {
            space.is_open(*ix)
                && space.admits(*ix, shape.tenant())
                && space.cluster.node_meets(*ix, needs)
                && node_filter::suits(space, shape, *ix)
        };
        let trial = Trial::new(space, shape);
        let times = |ix: NodeIx| (ix, trial.times(ix, chunk));
        let mut listed: Vec<(NodeIx, u64)> = nodes
            .filter(fits)
            .map(times)
            .filter(|&(_, times)| times > 0)
            .collect();
        listed.sort_by_cached_key(|&(ix, _)| (rank(space, shape, ix), ix));
        Candidates::Listed(listed)
    }

    /// How many chunks could go there, at most.
    pub fn supply(&self) -> u64 {
        match self {
            Candidates::Buckets(fitting) => fitting
                .iter()
                .map(|bucket| bucket.supply())
                .fold(0, u64::saturating_add),
            Candidates::Listed(nodes) => nodes
                .iter()
                .map(|&(_, times)| times)
                .fold(0, u64::saturating_add),
        }
    }

    /// The nodes, in order, with how many chunks go on each.
    pub fn nodes<'a>(
        &'a self,
        space: &'a Space,
        shape: &Shape,
    ) -> Box<dyn Iterator<Item = (NodeIx, u64)> + 'a> {
        match self {
            Candidates::Buckets(fitting) => {
                let ranked = fitting
                    .iter()
                    .enumerate()
                    .map(|(i, bucket)| (bucket_rank(space, shape, bucket.place), bucket.place, i));
                let merged = space.merged(ranked);
                Box::new(merged.map(|(node, i)| (node, fitting[i].times)))
            }
            Candidates::Listed(nodes) => Box::new(nodes.iter().copied()),
        }
    }
}

/// The buckets with room for a kind of chunk, host and node names left aside.
pub fn fitting_buckets<'a>(
    space: &'a Space,
    shape: &'a Shape,
    chunk: &'a ChunkShape,
) -> impl Iterator<Item = FittingBucket> + 'a {
    space
        .with_free(&chunk.asked)
        .filter_map(move |place| fitting_bucket(space, shape, chunk, place))
}

fn fitting_bucket(
    space: &Space,
    shape: &Shape,
    chunk: &ChunkShape,
    place: usize,
) -> Option<FittingBucket> {
    let times = times_on(space, shape, chunk, &space.buckets()[place].key);
    (times > 0).then(|| FittingBucket {
        place,
        nodes: space.head(place).nodes,
        times,
    })
}

/// How many chunks of a kind go on a node that is as its bucket's key says, so far as that tells
/// and as there are chunks.
pub fn times_on(space: &Space, shape: &Shape, chunk: &ChunkShape, key: &Key) -> u64 {
    let times = chunk.times_in(&key.free).min(chunk.count);
    let suits = || {
        welcomes(space, key, shape.tenant())
            && space.meets(key.kind, &chunk.needs)
            && node_filter::suits_kind(space, shape, key.kind)
            && (!chunk.wants_idle() || key.condition == Condition::Idle)
    };
    let is_single = || shape.is_one_to_a_node(space.cluster.kind(key.kind)) || chunk.wants_idle();
    match times {
        0 => 0,
        _ if !suits() => 0,
        _ if is_single() => 1,
        times => times,
    }
}

/// Whether a job may join the nodes of a bucket, as far as they are alike in that.
pub fn welcomes(space: &Space, key: &Key, tenant: Tenant) -> bool {
    let tenancy = tenant.on(space.cluster.kind(key.kind).empty.bounds);
    !key.barred.contains(&tenant.user) && key.condition.admits(tenancy, tenant.user)
}

/// The nodes with room for a kind of chunk as the guide prefers them, with how many chunks go on
/// each; not for jobs that want whole hosts.
pub fn fitting_nodes<'a>(
    space: &'a Space,
    shape: &'a Shape,
    chunk: &'a ChunkShape,
) -> impl Iterator<Item = (NodeIx, u64)> + 'a {
    space.nodes_with_free(&chunk.asked).filter_map(move |ix| {
        let (room, kind) = (space.room(ix), space.cluster.node(ix).kind?);
        // A node that takes no jobs has too little of everything, but not of nothing.
        let suits = space.is_open(ix)
            && room.admits(shape.tenant())
            && space.meets(kind, &chunk.needs)
            && node_filter::suits_kind(space, shape, kind)
            && (!chunk.wants_idle() || room.condition() == Condition::Idle);
        let is_single = shape.is_one_to_a_node(space.cluster.kind(kind)) || chunk.wants_idle();
        suits.then(|| {
            (
                ix,
                if is_single {
                    1
                } else {
                    chunk.times_in(&room.free)
                },
            )
        })
    })
}

/// Whether nodes are ranked by what they are.
pub fn ranks_kinds(space: &Space, shape: &Shape) -> bool {
    !matches!(
        space.guide().policy(space, shape),
        NodeAllocation::LastAvailable | NodeAllocation::CpuLoad | NodeAllocation::Priority
    ) && shape.answer.is_none()
}

/// The rank of a bucket's nodes for a job, where that is the same for all.
pub fn bucket_rank(space: &Space, shape: &Shape, place: usize) -> Rank {
    let guide = space.guide();
    guide
        .of_kind(guide.policy(space, shape), space.head(place).kind)
        .unwrap_or_default()
}

/// A node's rank for a job.
pub fn rank(space: &Space, shape: &Shape, ix: NodeIx) -> Rank {
    if let Some(answer) = &shape.answer {
        return Rank::at(answer.get(&space.cluster.node(ix).name).copied());
    }
    space
        .guide()
        .of_node(space.guide().policy(space, shape), space, shape, ix)
}
