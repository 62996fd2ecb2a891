//! Where a kind of chunk could go: buckets of nodes with room for it, or nodes one by one where
//! something tells nodes of a bucket apart.

use super::cluster::{Condition, NodeIx};
use super::preference::Rank;
use super::screen;
use super::shape::{ChunkShape, Shape};
use super::space::Space;
use super::trial::Trial;
use crate::model::policy::Allocation;

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
    /// The first of them.
    pub first: NodeIx,
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
                    let fitting: Vec<FittingBucket> = fitting_buckets(space, shape, asked).collect();
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

    fn listed(space: &Space, shape: &Shape, chunk: usize, nodes: impl Iterator<Item = NodeIx>) -> Candidates {
        let needs = &shape.chunks[chunk].needs;
        let fits = |ix: &NodeIx| {
            space.is_open(*ix)
                && space.admits(*ix, shape.tenant())
                && space.cluster.node_meets(*ix, needs)
                && screen::suits(space, shape, *ix)
        };
        let trial = Trial::new(space, shape);
        let times = |ix: NodeIx| (ix, trial.times(ix, chunk));
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

/// The buckets with room for a kind of chunk, host and node names left aside.
pub fn fitting_buckets<'a>(
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

/// Whether nodes are ranked by what they are.
pub fn ranks_kinds(space: &Space, shape: &Shape) -> bool {
    !matches!(
        space.guide().policy(space, shape),
        Allocation::LastAvailable | Allocation::CpuLoad | Allocation::Priority
    ) && shape.answer.is_none()
}

/// A node's rank for a job.
pub fn rank(space: &Space, shape: &Shape, ix: NodeIx) -> Rank {
    if let Some(answer) = &shape.answer {
        return Rank::at(answer.get(&space.cluster.node(ix).name).copied());
    }
    space.guide().of_node(space.guide().policy(space, shape), space, shape, ix)
}
