//! The rank of nodes as far as it follows from the policy and from the kinds of nodes.

use crate::model::expression::Expression;
use crate::model::node::NodeTerms;
use crate::model::policy::{Availability, PlacementPolicy};
use crate::model::request::placement_policy::{Distribution, NodeAccess, NodeAllocation};
use crate::model::resource::ResourceValue;
use crate::sched::amounts::{MOST_OF_A_NODE, counted};
use crate::sched::view::cluster::{Cluster, KindIx, NodeKind};
use crate::sched::view::shape::Shape;
use crate::sched::view::sort_key::highest_first;

/// The place of a node among those that fit: the lowest rank first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(pub(super) i64);

impl Rank {
    /// In the order of these places; what has none comes last.
    pub fn at(place: Option<usize>) -> Rank {
        Rank(place.map_or(i64::MAX, |place| place as i64))
    }

    /// Highest score first.
    pub fn highest(score: f64) -> Rank {
        Rank(highest_first(score))
    }
}

/// The placement policy for jobs that do not request one, on the nodes of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Guide {
    /// Which of the nodes that fit.
    pub allocation: NodeAllocation,
    /// The distribution of tasks to nodes.
    pub distribution: Distribution,
    pub(super) expression: Option<Expression>,
    /// How much each kind of node has.
    wealth: Vec<Rank>,
    /// The speed of each kind of node, in thousandths.
    speed: Vec<i64>,
    is_indifferent: bool,
}

impl Guide {
    /// The guide of a policy on these nodes.
    pub fn new(placement: &PlacementPolicy, cluster: &Cluster) -> Guide {
        let mut guide = Guide {
            allocation: placement.allocation,
            distribution: placement.distribution,
            expression: placement.rank.clone(),
            is_indifferent: is_indifferent(placement, cluster),
            ..Guide::default()
        };
        let most = most_of_each(cluster);
        for (ix, kind) in cluster.kinds() {
            let place = ix.0 as usize;
            guide
                .wealth
                .resize(guide.wealth.len().max(place + 1), Rank(0));
            guide.speed.resize(guide.wealth.len(), 1000);
            guide.wealth[place] = wealth(kind, &most);
            guide.speed[place] = speed(kind);
        }
        guide
    }

    /// Whether it matters which places a request gets together, beyond what its chunks say.
    pub fn is_choosy(&self, shape: &Shape) -> bool {
        let policy = shape.allocation.unwrap_or(self.allocation);
        shape.sets.is_some()
            || matches!(
                policy,
                NodeAllocation::Contiguous | NodeAllocation::MaxBalance
            )
    }

    /// Whether any place on a node is as good as any other, as far as nodes and the policy say.
    pub fn is_indifferent(&self) -> bool {
        self.is_indifferent
    }

    /// The speed of a kind of node, in thousandths: its resource `speed`, else 1.
    pub fn speed(&self, kind: KindIx) -> i64 {
        self.speed.get(kind.0 as usize).copied().unwrap_or(1000)
    }

    /// The rank of a kind of node. None where each node of the kind has a rank of its own.
    pub fn of_kind(&self, policy: NodeAllocation, kind: KindIx) -> Option<Rank> {
        match policy {
            NodeAllocation::FirstAvailable
            | NodeAllocation::Contiguous
            | NodeAllocation::MaxBalance => Some(Rank(0)),
            NodeAllocation::MinResource | NodeAllocation::Site => {
                self.wealth.get(kind.0 as usize).copied()
            }
            NodeAllocation::Fastest => Some(Rank(-self.speed(kind))),
            NodeAllocation::LastAvailable | NodeAllocation::CpuLoad | NodeAllocation::Priority => {
                None
            }
        }
    }
}

fn is_indifferent(placement: &PlacementPolicy, cluster: &Cluster) -> bool {
    let is_choosy = matches!(
        placement.allocation,
        NodeAllocation::Contiguous | NodeAllocation::MaxBalance | NodeAllocation::Site
    );
    let mut availabilities = placement.availabilities.values();
    !is_choosy
        && placement.access == NodeAccess::Shared
        && placement.sets.is_none()
        && placement.veto.is_none()
        && placement.availability == Availability::Dedicated
        && availabilities.all(|how| *how == Availability::Dedicated)
        && cluster
            .kinds()
            .all(|(_, kind)| kind.terms == NodeTerms::default())
}

/// The most that any node has of each resource.
fn most_of_each(cluster: &Cluster) -> Vec<i64> {
    let mut most = cluster.catalog.no_room().to_vec();
    for (_, kind) in cluster.kinds() {
        for (most, has) in most.iter_mut().zip(&kind.empty.free) {
            *most = (*most).max(*has);
        }
    }
    most
}

/// M8c: the sum of its shares of the most there is, in millionths. What has no bound counts
/// nothing.
fn wealth(kind: &NodeKind, most: &[i64]) -> Rank {
    let shares = kind.empty.free.iter().zip(most);
    let shares = shares.map(|(has, most)| match most {
        1..MOST_OF_A_NODE => {
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
