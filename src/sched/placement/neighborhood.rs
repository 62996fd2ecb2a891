//! Nodes that belong together: neighbours (M8g), and nodes of like speed (M8h).

use super::availability_map::Space;
use super::candidates::Candidates;
use super::matching::{Placement, arrange, spread};
use crate::model::request::placement_policy::NodeAllocation;
use crate::sched::view::cluster::{KindIx, NodeIx};
use crate::sched::view::shape::Shape;
use std::collections::{BTreeMap, BTreeSet};

/// Places on nodes that follow each other, the first such stretch.
pub fn contiguous(space: &Space, shape: &Shape) -> Option<Placement> {
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
    stretches(&suitable).into_iter().find_map(|(first, last)| {
        (first..=last).find_map(|from| {
            let placement = spread(space, shape, Some(&nodes[from..=last]))?;
            let used: BTreeSet<usize> = placement.picks.iter().map(|(ix, _)| places[ix]).collect();
            let (low, high) = (*used.first()?, *used.last()?);
            (high - low + 1 == used.len()).then_some(placement)
        })
    })
}

/// The nodes there are, numbered.
fn positions(space: &Space) -> BTreeMap<NodeIx, usize> {
    let present = space
        .cluster
        .indices()
        .filter(|&ix| space.cluster.node(ix).kind.is_some());
    present.enumerate().map(|(place, ix)| (ix, place)).collect()
}

/// The stretches without a gap: (first, last).
fn stretches(places: &BTreeSet<usize>) -> Vec<(usize, usize)> {
    let mut stretches: Vec<(usize, usize)> = Vec::new();
    for &place in places {
        match stretches.last_mut() {
            Some((_, last)) if *last + 1 == place => *last = place,
            _ => stretches.push((place, place)),
        }
    }
    stretches
}

/// Places on nodes of equal speed, else on those whose speeds lie closest together.
pub fn balanced(space: &Space, shape: &Shape) -> Option<Placement> {
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
    use crate::model::request::placement_policy::NodeAllocation;
    use crate::sched::fixture::{Scene, cluster};

    fn under(policy: NodeAllocation, nodes: &str, busy: &str) -> Scene {
        let mut scene = cluster(nodes);
        scene.policy.placement.allocation = policy;
        busy.split(',').zip(90..).fold(scene, |scene, (node, job)| {
            scene.running(job, "select=1:ncpus=4", node, 600)
        })
    }

    #[test]
    fn m8g_contiguous_takes_neighbours() {
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
        let scene =
            under(NodeAllocation::Contiguous, "3 x ncpus=4", "n2").queued(1, "select=2:ncpus=4");
        assert_eq!(
            [scene.reason(1).unwrap().code().into(), scene.booked()],
            ["contiguity", "1 at 600 on n1,n2"]
        );
    }

    #[test]
    fn m8h_maxbalance_takes_nodes_of_like_speed() {
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
    fn m8g_what_has_a_gap_in_it_is_not_contiguous() {
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

    /// The difference counts, not the ratio.
    #[test]
    fn m8h_maxbalance_takes_the_smallest_span_of_speeds() {
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
