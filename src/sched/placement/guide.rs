//! Ranks of nodes, as far as they depend only on the policy and on the kind of the node.

use crate::model::expression::Expression;
use crate::model::node::NodeTerms;
use crate::model::policy::{Availability, PlacementPolicy};
use crate::model::request::placement_policy::{Distribution, NodeAccess, NodeAllocation};
use crate::model::resource::ResourceValue;
use crate::sched::amounts::{MAX_NODE_AMOUNT, counted};
use crate::sched::view::cluster::{Cluster, KindIx, NodeKind};
use crate::sched::view::shape::Shape;
use crate::sched::view::sort_key::highest_first;

/// The rank of a node among the nodes that fit. Nodes with the lowest rank are used first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(pub(super) i64);

impl Rank {
    /// The rank by a position in a list; None comes last.
    pub fn at(place: Option<usize>) -> Rank {
        Rank(place.map_or(i64::MAX, |place| place as i64))
    }

    /// The rank by a score: the highest score has the lowest rank.
    pub fn highest(score: f64) -> Rank {
        Rank(highest_first(score))
    }
}

/// The site's policy for choosing nodes, with the ranks of the kinds of nodes in a cluster.
#[derive(Clone, Debug, Default)]
pub struct Guide {
    /// The policy by which nodes are chosen.
    pub allocation: NodeAllocation,
    /// The distribution of tasks to nodes.
    pub distribution: Distribution,
    /// The site's expression for the score of a node (M8f).
    pub(super) expression: Option<Expression>,
    /// The rank by size of each kind of node (M8c).
    size: Vec<Rank>,
    /// The speed of each kind of node, in thousandths.
    speed: Vec<i64>,
    is_interchangeable: bool,
}

impl Guide {
    /// The guide for this policy and the nodes of this cluster.
    pub fn new(placement: &PlacementPolicy, cluster: &Cluster) -> Guide {
        let mut guide = Guide {
            allocation: placement.allocation,
            distribution: placement.distribution,
            expression: placement.rank.clone(),
            is_interchangeable: is_interchangeable(placement, cluster),
            ..Guide::default()
        };
        let most = largest_amounts(cluster);
        for (ix, kind) in cluster.kinds() {
            let place = ix.0 as usize;
            guide.size.resize(guide.size.len().max(place + 1), Rank(0));
            guide.speed.resize(guide.size.len(), 1000);
            guide.size[place] = size(kind, &most);
            guide.speed[place] = speed(kind);
        }
        guide
    }

    /// Whether there is a condition on the nodes of a request together: they must be in one node
    /// set, be adjacent, or have similar speeds.
    pub fn restricts_combination(&self, shape: &Shape) -> bool {
        let policy = shape.allocation.unwrap_or(self.allocation);
        shape.sets.is_some()
            || matches!(
                policy,
                NodeAllocation::Contiguous | NodeAllocation::MaxBalance
            )
    }

    /// Whether a node can be replaced by any other node with enough free resources, as far as the
    /// policy and the terms of nodes are concerned. Running jobs and requests are not checked.
    pub fn is_interchangeable(&self) -> bool {
        self.is_interchangeable
    }

    /// The speed of a kind of node in thousandths, from its resource `speed`; 1000 by default.
    pub fn speed(&self, kind: KindIx) -> i64 {
        self.speed.get(kind.0 as usize).copied().unwrap_or(1000)
    }

    /// The rank of a kind of node; None if nodes of one kind can have different ranks.
    pub fn of_kind(&self, policy: NodeAllocation, kind: KindIx) -> Option<Rank> {
        match policy {
            NodeAllocation::FirstAvailable
            | NodeAllocation::Contiguous
            | NodeAllocation::MaxBalance => Some(Rank(0)),
            NodeAllocation::MinResource | NodeAllocation::Site => {
                self.size.get(kind.0 as usize).copied()
            }
            NodeAllocation::Fastest => Some(Rank(-self.speed(kind))),
            NodeAllocation::LastAvailable | NodeAllocation::CpuLoad | NodeAllocation::Priority => {
                None
            }
        }
    }
}

fn is_interchangeable(placement: &PlacementPolicy, cluster: &Cluster) -> bool {
    let restricts_combination = matches!(
        placement.allocation,
        NodeAllocation::Contiguous | NodeAllocation::MaxBalance | NodeAllocation::Site
    );
    let mut availabilities = placement.availabilities.values();
    !restricts_combination
        && placement.access == NodeAccess::Shared
        && placement.sets.is_none()
        && placement.veto.is_none()
        && placement.availability == Availability::Dedicated
        && availabilities.all(|how| *how == Availability::Dedicated)
        && cluster
            .kinds()
            .all(|(_, kind)| kind.terms == NodeTerms::default())
}

/// For each resource, the largest amount on a node.
fn largest_amounts(cluster: &Cluster) -> Vec<i64> {
    let mut most = cluster.catalog.node_zeros().to_vec();
    for (_, kind) in cluster.kinds() {
        for (most, has) in most.iter_mut().zip(&kind.empty.free) {
            *most = (*most).max(*has);
        }
    }
    most
}

/// M8c: the rank by size. For each resource, the node's amount is divided by the largest amount on
/// any node, in millionths; the rank is the sum. Unbounded resources do not count.
fn size(kind: &NodeKind, most: &[i64]) -> Rank {
    let shares = kind.empty.free.iter().zip(most);
    let shares = shares.map(|(has, most)| match most {
        1..MAX_NODE_AMOUNT => {
            i64::try_from(i128::from(*has) * 1_000_000 / i128::from(*most)).unwrap_or(0)
        }
        _ => 0,
    });
    Rank(shares.sum())
}

fn speed(kind: &NodeKind) -> i64 {
    match kind.attributes.get("speed") {
        Some(ResourceValue::Float(speed)) => (speed * 1000.0) as i64,
        Some(value) => counted(value).map_or(1000, |speed| speed.saturating_mul(1000)),
        None => 1000,
    }
}
