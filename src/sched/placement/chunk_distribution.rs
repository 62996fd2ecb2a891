//! How many chunks go on which of the nodes that would do (M9).

use super::availability_map::Space;
use crate::model::request::placement_policy::Distribution;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::shape::Shape;
use std::collections::BTreeMap;

/// Deals chunks to nodes, each with how many go on it (M9): so that nodes are filled one after the
/// other, or get one each in turn, or as few nodes as suffice get the same number each.
pub fn deal(
    space: &Space,
    shape: &Shape,
    nodes: impl Iterator<Item = (NodeIx, u64)>,
    wanted: u64,
) -> Vec<NodeIx> {
    let distribution = shape.distribution.unwrap_or(space.guide().distribution);
    if distribution == Distribution::Pack || shape.is_spread() {
        return fill(nodes, wanted);
    }
    let chosen: Vec<(NodeIx, u64)> = match distribution {
        Distribution::Balanced => {
            let mut left = wanted;
            let is_needed = |&(_, times): &(NodeIx, u64)| {
                let before = left;
                left = left.saturating_sub(times);
                before > 0
            };
            nodes.take_while(is_needed).collect()
        }
        _ => nodes
            .take(usize::try_from(wanted).unwrap_or(usize::MAX))
            .collect(),
    };
    let mut dealt = in_turn(&chosen, wanted);
    if distribution == Distribution::Balanced {
        let place: BTreeMap<NodeIx, usize> = chosen
            .iter()
            .enumerate()
            .map(|(place, &(node, _))| (node, place))
            .collect();
        dealt.sort_by_key(|node| place[node]);
    }
    dealt
}

fn fill(nodes: impl Iterator<Item = (NodeIx, u64)>, wanted: u64) -> Vec<NodeIx> {
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

fn in_turn(nodes: &[(NodeIx, u64)], wanted: u64) -> Vec<NodeIx> {
    let mut dealt = Vec::new();
    let mut round = 0;
    while (dealt.len() as u64) < wanted {
        let before = dealt.len();
        let open = nodes
            .iter()
            .filter(|&&(_, times)| times > round)
            .map(|&(node, _)| node);
        dealt.extend(open.take(usize::try_from(wanted - before as u64).unwrap_or(usize::MAX)));
        if dealt.len() == before {
            break;
        }
        round += 1;
    }
    dealt
}
