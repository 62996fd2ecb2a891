//! Placement of all chunks of a request within one group of nodes: a node set (M47), nodes with the
//! same value of a resource, adjacent nodes (M8g), or nodes of similar speed (M8h).

use super::{Placement, arrange, spread};
use crate::model::policy::{NodeSets, SetChoice};
use crate::model::request::placement_policy::NodeAllocation;
use crate::model::resource::ResourceValue;
use crate::sched::placement::availability_map::AvailabilityMap;
use crate::sched::placement::filter::admits_owner;
use crate::sched::placement::rank::Candidates;
use crate::sched::view::cluster::{KindIx, NodeIx, NodeKind};
use crate::sched::view::node_filter::AllowedSets;
use crate::sched::view::shape::Shape;
use std::collections::{BTreeMap, BTreeSet};

/// Places the chunks within one node set (M47). The choice `FirstOf` tries the sets in order, and
/// `OneOf` tries the sets with the fewest usable nodes first. With `AnyOf`, all sets together count
/// as one set. If the chunks fit in no set and the job may span sets, places them on any nodes.
pub fn within_sets(
    space: &AvailabilityMap,
    shape: &Shape,
    sets: &AllowedSets,
) -> Option<Placement> {
    let free = Shape {
        sets: None,
        ..shape.clone()
    };
    let within = |kinds: BTreeSet<KindIx>| arrange(space, &free.clone().on(kinds));
    let all = members(space, &sets.sets);
    let found = match sets.sets.choice {
        SetChoice::AnyOf => within(all.into_iter().flatten().collect()),
        SetChoice::FirstOf => all.into_iter().find_map(within),
        SetChoice::OneOf => {
            let mut sets: Vec<(u64, BTreeSet<KindIx>)> = all
                .into_iter()
                .map(|kinds| (usable_nodes(space, &free, &kinds), kinds))
                .collect();
            sets.sort_by_key(|(nodes, _)| *nodes);
            sets.into_iter().find_map(|(_, kinds)| within(kinds))
        }
    };
    if found.is_none() && sets.may_span {
        return arrange(space, &free);
    }
    found
}

/// For each set, the kinds of its nodes. The sets are in the configured order. If no values are
/// configured, each value of the resource is a set, and the sets are sorted by value.
fn members(space: &AvailabilityMap, sets: &NodeSets) -> Vec<BTreeSet<KindIx>> {
    let cluster = space.cluster;
    let value = |kind: &NodeKind| kind.attributes.get(&sets.by).map(ToString::to_string);
    let mut names = sets.values.clone();
    if names.is_empty() {
        let all: BTreeSet<String> = cluster
            .kinds()
            .filter_map(|(_, kind)| value(kind))
            .collect();
        names.extend(all);
    }
    let has = |kind: &NodeKind, name: &String| match sets.by.as_str() {
        "feature" => kind.attributes.get(name) == Some(&ResourceValue::Boolean(true)),
        _ => value(kind).as_ref() == Some(name),
    };
    let mut members = Vec::new();
    for name in &names {
        let kinds = cluster.kinds().filter(|(_, kind)| has(kind, name));
        members.push(kinds.map(|(ix, _)| ix).collect());
    }
    members
}

/// The number of nodes of these kinds on which access policies allow the job.
fn usable_nodes(space: &AvailabilityMap, shape: &Shape, kinds: &BTreeSet<KindIx>) -> u64 {
    let places = 0..space.buckets().len();
    let joined = places.filter(|&place| {
        let head = space.head(place);
        kinds.contains(&head.kind)
            && head.nodes > 0
            && admits_owner(space, &space.buckets()[place].key, shape.owner())
    });
    joined.map(|place| space.head(place).nodes).sum()
}

/// Places the chunks on nodes with the same value of a resource. Uses the first value with which
/// the chunks fit.
pub fn with_common_value(
    space: &AvailabilityMap,
    shape: &Shape,
    resource: &str,
) -> Option<Placement> {
    group_values(space, resource)
        .iter()
        .find_map(|value| arrange(space, &shape.narrowed(resource, value)))
}

/// The different values of a resource on the nodes, sorted by their text.
fn group_values(space: &AvailabilityMap, resource: &str) -> Vec<ResourceValue> {
    let mut values = BTreeMap::new();
    for node in space.cluster.present() {
        if let Some(value) = space.cluster.value(node, resource) {
            values.insert(value.to_string(), value);
        }
    }
    values.into_values().collect()
}

/// Places the chunks on the first range of adjacent nodes on which they fit.
pub fn contiguous(space: &AvailabilityMap, shape: &Shape) -> Option<Placement> {
    let places = positions(space);
    let suitable: BTreeSet<usize> = (0..shape.chunks.len())
        .flat_map(|chunk| {
            Candidates::of(space, shape, chunk, None)
                .nodes(space, shape)
                .map(|(ix, _)| places[&ix])
                .collect::<Vec<_>>()
        })
        .collect();
    let nodes: Vec<NodeIx> = places.keys().copied().collect();
    ranges(&suitable).into_iter().find_map(|(first, last)| {
        (first..=last).find_map(|from| {
            let placement = spread(space, shape, Some(&nodes[from..=last]))?;
            let used: BTreeSet<usize> = placement.picks.iter().map(|(ix, _)| places[ix]).collect();
            let (low, high) = (*used.first()?, *used.last()?);
            (high - low + 1 == used.len()).then_some(placement)
        })
    })
}

/// The position of each present node.
fn positions(space: &AvailabilityMap) -> BTreeMap<NodeIx, usize> {
    let present = space
        .cluster
        .indices()
        .filter(|&ix| space.cluster.node(ix).kind.is_some());
    present.enumerate().map(|(place, ix)| (ix, place)).collect()
}

/// The first and last number of each range of consecutive numbers.
fn ranges(places: &BTreeSet<usize>) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &place in places {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == place => *last = place,
            _ => ranges.push((place, place)),
        }
    }
    ranges
}

/// Places the chunks on nodes with the smallest possible difference between their speeds.
pub fn balanced(space: &AvailabilityMap, shape: &Shape) -> Option<Placement> {
    let mut kinds: BTreeMap<i64, BTreeSet<KindIx>> = BTreeMap::new();
    for (kind, _) in space.cluster.kinds() {
        kinds
            .entry(space.guide().speed(kind))
            .or_default()
            .insert(kind);
    }
    let speeds: Vec<i64> = kinds.keys().copied().collect();
    let mut spans: Vec<(i64, usize, usize)> = (0..speeds.len())
        .flat_map(|low| (low..speeds.len()).map(move |high| (low, high)))
        .map(|(low, high)| (speeds[high] - speeds[low], low, high))
        .collect();
    spans.sort_unstable();
    spans.into_iter().find_map(|(_, low, high)| {
        let members = speeds[low..=high]
            .iter()
            .flat_map(|speed| kinds[speed].iter().copied())
            .collect();
        let allocation = Some(NodeAllocation::FirstAvailable);
        arrange(
            space,
            &Shape {
                allocation,
                ..shape.clone().on(members)
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::model::policy::{NodeSets, SetChoice};
    use crate::model::request::placement_policy::NodeAllocation;
    use crate::model::time::Span;
    use crate::sched::fixture::{TestCluster, cluster};

    fn fixture(choice: SetChoice, delay: Option<i64>) -> TestCluster {
        let mut fixture = cluster("3 x ncpus=1:color=a, 4 x ncpus=1:color=b").running(
            9,
            "select=1:ncpus=1",
            "n7",
            3600,
        );
        let delay = delay.map(Span::seconds);
        let values = vec!["a".to_string(), "b".to_string()];
        fixture.policy.placement.sets = Some(NodeSets {
            choice,
            by: "color".to_string(),
            values,
            delay,
        });
        fixture
    }

    /// M47: each set has three free nodes.
    #[test]
    fn a_job_waits_for_a_large_enough_set_or_spans_sets() {
        let four = |delay| fixture(SetChoice::OneOf, delay).queued(1, "select=4:ncpus=1");
        assert_eq!(four(Some(0)).starts(), "1 on n1,n2,n3,n4");
        assert_eq!(four(Some(600)).starts(), "");
        assert_eq!(
            four(Some(600)).plan().next,
            Some(crate::model::time::Time(600_000))
        );
        assert_eq!(four(Some(600)).at(600).starts(), "1 on n1,n2,n3,n4");
        assert_eq!(four(None).at(600).starts(), "");
        assert_eq!(four(None).booked(), "1 at 3600 on n4,n5,n6,n7");
    }

    #[test]
    fn one_of_first_of_and_any_of_choose_sets() {
        let starts = |choice, request: &str| fixture(choice, None).queued(1, request).starts();
        assert_eq!(
            starts(SetChoice::OneOf, "select=3:ncpus=1"),
            "1 on n1,n2,n3"
        );
        assert_eq!(
            starts(SetChoice::FirstOf, "select=3:ncpus=1"),
            "1 on n1,n2,n3"
        );
        assert_eq!(
            starts(SetChoice::AnyOf, "select=5:ncpus=1"),
            "1 on n1,n2,n3,n4,n5"
        );
        let first = fixture(SetChoice::FirstOf, None).running(8, "select=1:ncpus=1", "n1", 60);
        assert_eq!(
            first.queued(1, "select=3:ncpus=1").starts(),
            "1 on n4,n5,n6"
        );
    }

    /// M47: large sets are left for large jobs.
    #[test]
    fn one_of_uses_the_set_with_the_fewest_usable_nodes() {
        let mut fixture = cluster("4 x ncpus=1:color=a, 2 x ncpus=1:color=b");
        let (sets, delay) = (vec!["a".to_string(), "b".to_string()], Some(Span(0)));
        let choice = SetChoice::OneOf;
        fixture.policy.placement.sets = Some(NodeSets {
            choice,
            by: "color".to_string(),
            values: sets,
            delay,
        });
        let one = fixture.clone().queued(1, "select=1:ncpus=1");
        assert_eq!(one.starts(), "1 on n5");
        let busy = fixture
            .clone()
            .running(8, "select=3:ncpus=0 place=excl", "n1,n2,n3", 60);
        assert_eq!(
            busy.queued(1, "select=1:ncpus=1").starts(),
            "1 on n4",
            "nodes that exclude the job do not count"
        );
        let owned = fixture
            .owned("bob")
            .running(8, "select=3:ncpus=0 naccess=singleuser", "n1,n2,n3", 60)
            .owned("ann");
        assert_eq!(owned.queued(1, "select=1:ncpus=1").starts(), "1 on n4");
    }

    /// M47: a feature is a Boolean resource of nodes.
    #[test]
    fn a_set_may_be_the_nodes_with_a_feature() {
        let mut fixture = cluster("1 x ncpus=1:big=false, 1 x ncpus=1, 2 x ncpus=1:big=true");
        let values = vec!["big".to_string()];
        let sets = NodeSets {
            choice: SetChoice::FirstOf,
            by: "feature".to_string(),
            values,
            delay: None,
        };
        fixture.policy.placement.sets = Some(sets);
        assert_eq!(
            fixture.clone().queued(1, "select=2:ncpus=1").starts(),
            "1 on n3,n4"
        );
        assert_eq!(fixture.queued(1, "select=3:ncpus=1").starts(), "");
    }

    fn under(policy: NodeAllocation, nodes: &str, busy: &str) -> TestCluster {
        let mut fixture = cluster(nodes);
        fixture.policy.placement.allocation = policy;
        busy.split(',')
            .zip(90..)
            .fold(fixture, |fixture, (node, job)| {
                fixture.running(job, "select=1:ncpus=4", node, 600)
            })
    }

    #[test]
    fn m8g_contiguous_uses_adjacent_nodes() {
        let starts = |nodes: &str, busy: &str, request: &str| {
            under(NodeAllocation::Contiguous, nodes, busy)
                .queued(1, request)
                .starts()
        };
        assert_eq!(
            starts("4 x ncpus=4", "n2", "select=2:ncpus=4"),
            "1 on n3,n4"
        );
        assert_eq!(starts("3 x ncpus=4", "n2", "select=2:ncpus=4"), "");
        assert_eq!(
            starts("4 x ncpus=4", "n2", "select=1:ncpus=4+1:ncpus=2"),
            "1 on n3,n4"
        );
        let fixture =
            under(NodeAllocation::Contiguous, "3 x ncpus=4", "n2").queued(1, "select=2:ncpus=4");
        assert_eq!(
            [fixture.reason(1).unwrap().code().into(), fixture.booked()],
            ["contiguity", "1 at 600 on n1,n2"]
        );
    }

    #[test]
    fn m8h_maxbalance_uses_nodes_of_similar_speed() {
        let starts = |nodes: &str, busy: &str| {
            under(NodeAllocation::MaxBalance, nodes, busy)
                .queued(1, "select=2:ncpus=4")
                .starts()
        };
        let equal = "2 x ncpus=4:speed=1, 2 x ncpus=4:speed=2";
        assert_eq!(starts(equal, "n2"), "1 on n3,n4");
        let unequal = "2 x ncpus=4:speed=1, 2 x ncpus=4:speed=2, 1 x ncpus=4:speed=1.4";
        assert_eq!(starts(unequal, "n2,n4"), "1 on n1,n5");
    }

    #[test]
    fn m8g_nodes_with_a_gap_are_not_contiguous() {
        let starts = |busy: &str, request: &str| {
            under(NodeAllocation::Contiguous, "5 x ncpus=4", busy)
                .queued(1, request)
                .starts()
        };
        assert_eq!(starts("n2,n4", "select=2:ncpus=4"), "");
        assert_eq!(starts("n2", "select=4:ncpus=4"), "");
        assert_eq!(starts("n2", "select=3:ncpus=4"), "1 on n3,n4,n5");
        assert_eq!(starts("n1,n3", "select=2:ncpus=4"), "1 on n4,n5");
    }

    /// M8h: the difference between the speeds counts, not their ratio.
    #[test]
    fn m8h_maxbalance_uses_the_smallest_difference_of_speeds() {
        let nodes =
            "1 x ncpus=4:speed=1, 1 x ncpus=4:speed=2, 1 x ncpus=4:speed=10, 1 x ncpus=4:speed=12";
        assert_eq!(
            under(NodeAllocation::MaxBalance, nodes, "nosuch")
                .queued(1, "select=2:ncpus=4")
                .starts(),
            "1 on n1,n2"
        );
    }
}
