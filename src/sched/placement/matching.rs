//! Where would it fit? Finds nodes for all chunks of a request, and takes nothing.
//!
//! A chunk is held against buckets, and only the nodes that are chosen are looked at, in the order
//! of the nodes. Requests of one kind of chunk are decided exactly; for several kinds the order
//! asked is tried, then the most demanding first, then a bounded search (see [`search`]).

use super::availability_map::Space;
use super::candidates::{
    Candidates, bucket_rank, fitting_buckets, fitting_nodes, rank, ranks_kinds, welcomes,
};
use super::chunk_distribution::deal;
use super::rank::Rank;
use super::tentative::Trial;
use super::{neighborhood, node_filter, node_sets, search, shared_hosts};
use crate::model::request::placement_policy::NodeAllocation;
use crate::model::request::select::Arrangement;
use crate::model::resource::Value;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::node_access::Tenancy;
use crate::sched::view::shape::{ChunkShape, Shape};
use std::collections::BTreeMap;

/// The node of each chunk, in the order of the request: (node, which kind of chunk).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// One for each chunk.
    pub picks: Vec<(NodeIx, usize)>,
}

impl Placement {
    /// That on these nodes, one for each chunk; None if some of them are unknown, or there are more
    /// or fewer.
    pub fn on(space: &Space, shape: &Shape, nodes: &[String]) -> Option<Placement> {
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
        (Some(sets), _) => node_sets::place(space, shape, sets),
        (None, None) => arrange(space, shape),
        (None, Some(resource)) => {
            let values = group_values(space, resource);
            values
                .iter()
                .find_map(|value| arrange(space, &shape.narrowed(resource, value)))
        }
    };
    let placement = placement.filter(|placement| suffices(space, shape, placement));
    let beside =
        || shared_hosts::place(space, shape).filter(|placement| suffices(space, shape, placement));
    placement.or_else(beside).ok_or(Misfit::Arrangement)
}

/// Whether there is enough of what is counted once for each host.
fn suffices(space: &Space, shape: &Shape, placement: &Placement) -> bool {
    let nodes = placement.picks.iter().map(|&(ix, _)| ix);
    let free = space.free(Tenancy::Shared);
    space
        .pooled(shape, nodes)
        .into_iter()
        .all(|(index, amount)| amount <= free[index])
}

/// How a request does not fit, if it does not: as [`fit`], but where counting tells, no node is
/// chosen.
pub fn misfit(space: &Space, shape: &Shape) -> Option<Misfit> {
    if !is_enough_free(space, shape) {
        return Some(Misfit::Amounts);
    }
    match counted_alone(space, shape) {
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
pub fn fits(space: &Space, shape: &Shape) -> bool {
    misfit(space, shape).is_none()
}

/// Whether counting alone decides a request.
pub fn is_counted(space: &Space, shape: &Shape) -> bool {
    counted_alone(space, shape).is_some()
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
        matches!(
            policy,
            NodeAllocation::Contiguous | NodeAllocation::MaxBalance
        ) || shape.sets.is_some()
            || shape.group.is_some()
            || shape.pooled.iter().any(|&(index, _)| {
                space
                    .cluster
                    .pools
                    .get(index)
                    .is_some_and(|pool| pool.per_host)
            })
            || node_filter::asks_nodes(space, shape)
            || space.cluster.gives_whole_hosts(shape.tenant())
    };
    match &shape.chunks[..] {
        [chunk]
            if is_anywhere
                && !chunk.needs.iter().any(|need| need.is_pinned())
                && !is_one_by_one() =>
        {
            Some(chunk)
        }
        _ => None,
    }
}

/// Chunks of one kind on the first nodes with room.
fn place_alike(space: &Space, shape: &Shape, chunk: &ChunkShape) -> Result<Placement, Misfit> {
    let fitting = supply(space, shape, chunk);
    if fitting < chunk.count {
        return Err(Misfit::Places {
            fitting,
            needed: chunk.count,
        });
    }
    let guide = space.guide();
    let is_as_usual = guide.policy(space, shape) == guide.usual(space);
    let picks = match is_as_usual && ranks_kinds(space, shape) {
        true => deal(
            space,
            shape,
            fitting_nodes(space, shape, chunk),
            chunk.count,
        ),
        false => deal(
            space,
            shape,
            Candidates::of(space, shape, 0, None).nodes(space, shape),
            chunk.count,
        ),
    };
    Ok(Placement {
        picks: picks.into_iter().map(|node| (node, 0)).collect(),
    })
}

/// How many chunks have a place, counted no further than needed.
fn supply(space: &Space, shape: &Shape, chunk: &ChunkShape) -> u64 {
    let mut supply = 0_u64;
    for bucket in fitting_buckets(space, shape, chunk) {
        supply = supply.saturating_add(bucket.supply());
        if supply >= chunk.count {
            break;
        }
    }
    supply
}

/// Whether the sums suffice; most refusals are found here.
pub fn is_enough_free(space: &Space, shape: &Shape) -> bool {
    let is_enough = |shape: &Shape| {
        let mut sums = shape.total.iter().zip(space.free(shape.tenancy));
        sums.all(|(asked, free)| *asked == 0 || asked <= free)
    };
    is_enough(shape) || shared_hosts::eased(space, shape).is_some_and(|eased| is_enough(&eased))
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
        (_, NodeAllocation::Contiguous) => neighborhood::contiguous(space, shape),
        (_, NodeAllocation::MaxBalance) => neighborhood::balanced(space, shape),
        (Arrangement::Free | Arrangement::Scatter | Arrangement::Vscatter, _) => {
            spread(space, shape, None)
        }
    }
}

/// All chunks on one host: the first that takes them.
fn pack(space: &Space, shape: &Shape) -> Option<Placement> {
    let solo = pack_on_one_node(space, shape);
    let rank_of = |ix: NodeIx| (rank(space, shape, ix), ix);
    let first = solo
        .as_ref()
        .and_then(|placement| placement.picks.first())
        .map(|&(node, _)| rank_of(node));
    let mut hosts: Vec<(Rank, Vec<NodeIx>)> = space
        .cluster
        .composite_hosts()
        .filter_map(|nodes| {
            let best = nodes.iter().map(|&ix| rank(space, shape, ix)).min()?;
            Some((best, nodes.iter().copied().collect()))
        })
        .collect();
    hosts.sort();
    let earlier = hosts
        .iter()
        .take_while(|(best, nodes)| first.is_none_or(|first| (*best, nodes[0]) < first));
    earlier
        .into_iter()
        .find_map(|(_, nodes)| spread(space, shape, Some(nodes)))
        .or(solo)
}

/// The same among hosts of one node each, which are alike by bucket.
fn pack_on_one_node(space: &Space, shape: &Shape) -> Option<Placement> {
    // What the whole system has is in no node's room.
    let of_nodes = shape
        .total
        .iter()
        .copied()
        .enumerate()
        .take(space.cluster.catalog.pooled().start);
    let asked: Vec<(usize, i64)> = of_nodes.filter(|&(_, amount)| amount > 0).collect();
    let needs: Vec<_> = shape
        .chunks
        .iter()
        .flat_map(|chunk| chunk.needs.iter().cloned())
        .collect();
    let fitting = space.with_free(&asked).filter(|&place| {
        let head = space.head(place);
        let is_suitable =
            space.meets(head.kind, &needs) && node_filter::suits_kind(space, shape, head.kind);
        head.solo
            && welcomes(space, &space.buckets()[place].key, shape.tenant())
            && is_suitable
            && !shape.is_one_to_a_node(space.cluster.kind(head.kind))
    });
    let is_pinned = needs.iter().any(|need| need.is_pinned());
    let node =
        match is_pinned || node_filter::asks_nodes(space, shape) || !ranks_kinds(space, shape) {
            false => {
                let first =
                    |place| Some((bucket_rank(space, shape, place), space.first_of(place)?));
                fitting.filter_map(first).min()?.1
            }
            true => {
                let nodes = space
                    .merged(fitting.map(|place| (Rank::default(), place, 0)))
                    .map(|(node, _)| node);
                let suits = |ix: &NodeIx| {
                    space.cluster.node_meets(*ix, &needs)
                        && node_filter::objection(space, shape, *ix).is_none()
                };
                nodes
                    .filter(suits)
                    .min_by_key(|&ix| (rank(space, shape, ix), ix))?
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
    demanding.sort_by_key(|&chunk| {
        std::cmp::Reverse(
            shape.chunks[chunk]
                .asked
                .iter()
                .map(|a| a.1)
                .collect::<Vec<_>>(),
        )
    });
    in_order(space, shape, within, &demanding)
        .or_else(|| search::place(space, shape, within, &demanding))
}

fn in_order(
    space: &Space,
    shape: &Shape,
    within: Option<&[NodeIx]>,
    order: &[usize],
) -> Option<Placement> {
    let mut trial = Trial::new(space, shape);
    order
        .iter()
        .all(|&chunk| trial.place(chunk, within) == shape.chunks[chunk].count)
        .then(|| trial.placement())
}

#[cfg(test)]
mod tests {
    use crate::model::node::Terms;
    use crate::model::request::placement_policy::{NodeAccess, NodeAllocation};
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
        assert_eq!(
            starts("2 x ncpus=4, 1 x ncpus=8", "select=2:ncpus=4 place=pack"),
            "1 on n3,n3"
        );
        let vnodes = cluster("1 x ncpus=2").on_host("h", "3 x ncpus=2");
        assert_eq!(
            vnodes.queued(1, "select=3:ncpus=2 place=pack").starts(),
            "1 on n2,n3,n4"
        );
    }

    #[test]
    fn scattered_chunks_have_a_host_each() {
        assert_eq!(
            starts("3 x ncpus=8", "select=3:ncpus=1 place=scatter"),
            "1 on n1,n2,n3"
        );
        let vnodes = cluster("1 x ncpus=2").on_host("h", "3 x ncpus=2");
        assert_eq!(
            vnodes
                .clone()
                .queued(1, "select=2:ncpus=1 place=scatter")
                .starts(),
            "1 on n1,n2"
        );
        assert_eq!(
            vnodes
                .clone()
                .queued(1, "select=3:ncpus=1 place=scatter")
                .starts(),
            ""
        );
        assert_eq!(
            vnodes.queued(1, "select=4:ncpus=1 place=vscatter").starts(),
            "1 on n1,n2,n3,n4"
        );
    }

    #[test]
    fn an_exclusive_job_wants_empty_nodes_and_keeps_them() {
        let busy = cluster("2 x ncpus=8").running(1, "select=1:ncpus=1", "n1", 100);
        let alone = busy
            .queued(2, "select=1:ncpus=1 place=excl")
            .queued(3, "select=1:ncpus=7")
            .queued(4, "select=1:ncpus=1");
        assert_eq!(alone.starts(), "2 on n2; 3 on n1");
    }

    #[test]
    fn an_exclusive_host_is_barred_as_a_whole() {
        let hosts = cluster("")
            .on_host("a", "2 x ncpus=2")
            .on_host("b", "2 x ncpus=2");
        let scene = hosts.running(9, "select=1:ncpus=1", "n1", 100);
        let scene = scene
            .queued(1, "select=1:ncpus=1 place=exclhost")
            .queued(2, "select=3:ncpus=1")
            .queued(3, "select=1:ncpus=1");
        assert_eq!(scene.starts(), "1 on n3; 2 on n1,n2,n2");
        assert_eq!(
            scene.plan().starts[0].exclusive.tenancy,
            crate::sched::view::snapshot::Tenancy::Hosts
        );
    }

    #[test]
    fn values_that_are_compared_choose_the_nodes() {
        let nodes = "1 x ncpus=8, 1 x ncpus=8:big=True:color=red:speed=3";
        assert_eq!(starts(nodes, "select=1:ncpus=1:big=True"), "1 on n2");
        assert_eq!(starts(nodes, "select=1:ncpus=1:big=False"), "1 on n1");
        assert_eq!(starts(nodes, "select=1:ncpus=1:color=red"), "1 on n2");
        assert_eq!(starts(nodes, "select=1:ncpus=1:speed=2"), "1 on n2");
        assert_eq!(starts(nodes, "select=1:ncpus=1:host=n2"), "1 on n2");
        assert_eq!(
            starts(nodes, "select=1:ncpus=2+1:ncpus=1:vnode=n1"),
            "1 on n1,n1"
        );
        assert_eq!(
            starts(nodes, "select=2:ncpus=4 place=group=color"),
            "1 on n2,n2"
        );
    }

    #[test]
    fn custom_consumables_run_out() {
        let scene = cluster("2 x ncpus=8:lic=1")
            .queued(1, "select=1:lic=1")
            .queued(2, "select=1:lic=1")
            .queued(3, "select=1:lic=1");
        assert_eq!(scene.starts(), "1 on n1; 2 on n2");
        assert_eq!(
            scene.why(3),
            "Not Running: Insufficient amount of resource: lic (R: 1 A: 0 T: 2)"
        );
    }

    #[test]
    fn kinds_of_chunks_are_not_in_each_others_way() {
        assert_eq!(
            starts("1 x ncpus=4, 1 x ncpus=2", "select=1:ncpus=2+1:ncpus=4"),
            "1 on n2,n1"
        );
        assert_eq!(
            starts("2 x ncpus=6", "select=2:ncpus=3+3:ncpus=2"),
            "1 on n1,n1,n2,n2,n2"
        );
        assert_eq!(
            starts("2 x ncpus=4", "select=1:ncpus=1+1:ncpus=4"),
            "1 on n1,n2",
            "as asked where that works"
        );
        assert_eq!(
            starts(
                "1 x ncpus=5, 1 x ncpus=7",
                "select=1:ncpus=4+1:ncpus=3+1:ncpus=5"
            ),
            "1 on n2,n2,n1"
        );
    }

    #[test]
    fn chunks_may_ask_for_nothing() {
        assert_eq!(starts("1 x ncpus=1", "select=2:ncpus=0"), "1 on n1,n1");
    }

    #[test]
    fn billions_of_chunks_are_refused_at_once() {
        for request in [
            "select=4000000000:ncpus=1",
            "select=4000000000:ncpus=0",
            "select=4000000000:ncpus=1 place=scatter",
        ] {
            assert!(
                cluster("3 x ncpus=8")
                    .queued(1, request)
                    .reason(1)
                    .unwrap()
                    .is_never(),
                "{request}"
            );
        }
    }

    #[test]
    fn nodes_that_are_down_or_gone_get_nothing() {
        let mut scene: Scene = cluster("2 x ncpus=8").node("n1", "ncpus=8", false);
        assert_eq!(
            scene.clone().queued(2, "select=1:ncpus=1:host=n1").starts(),
            ""
        );
        assert_eq!(
            scene.clone().queued(2, "select=1:ncpus=0").starts(),
            "2 on n2"
        );
        scene = scene.queued(1, "select=1:ncpus=8");
        assert_eq!(scene.starts(), "1 on n2");
        scene.state.remove_node("n2");
        assert_eq!(scene.starts(), "");
        assert_eq!(scene.node("n1", "ncpus=8", true).starts(), "1 on n1");
    }

    /// The first host that suits, whatever stands before it.
    #[test]
    fn packed_chunks_pass_over_nodes_that_do_not_suit() {
        let red = "1 x ncpus=4:color=red, 2 x ncpus=4:color=blue";
        assert_eq!(
            starts(red, "select=2:ncpus=2:color=blue place=pack"),
            "1 on n2,n2"
        );
        assert_eq!(
            starts(
                red,
                "select=1:ncpus=2:color=blue+1:ncpus=1:vnode=n3 place=pack"
            ),
            "1 on n3,n3"
        );
        assert_eq!(
            starts(red, "select=2:ncpus=2:color=blue place=pack omit_hosts=n2"),
            "1 on n3,n3"
        );
        assert_eq!(
            starts(
                red,
                "select=2:ncpus=2 place=pack requirements=host.color==\"blue\""
            ),
            "1 on n2,n2"
        );
        assert_eq!(
            starts(red, "select=2:ncpus=1:vnode=n1 place=pack omit_hosts=n1"),
            ""
        );
        assert_eq!(
            starts("1 x ncpus=8, 1 x ncpus=4", "select=2:ncpus=2 place=pack"),
            "1 on n2,n2",
            "the least"
        );
        assert_eq!(
            starts("1 x ncpus=4, 1 x ncpus=8", "select=2:ncpus=2 place=pack"),
            "1 on n1,n1"
        );
    }

    /// M46: a node that is somebody's is not open to others, though it has room.
    #[test]
    fn packed_chunks_pass_over_nodes_that_are_somebody_elses() {
        let scene = cluster("2 x ncpus=4").owned("bob").running(
            9,
            "select=1:ncpus=1 naccess=singleuser",
            "n1",
            60,
        );
        let packed = "select=2:ncpus=1 place=pack";
        assert_eq!(scene.clone().queued(1, packed).starts(), "1 on n1,n1");
        assert_eq!(scene.owned("ann").queued(1, packed).starts(), "1 on n2,n2");
    }

    /// Hosts of one node and of several stand in one order.
    #[test]
    fn packed_chunks_go_on_the_first_host_of_whatever_parts() {
        let packed = "select=2:ncpus=2 place=pack";
        let parts_first = cluster("")
            .on_host("h", "2 x ncpus=2")
            .on_host("n3", "1 x ncpus=4");
        assert_eq!(parts_first.queued(1, packed).starts(), "1 on n1,n2");
        let mut parts_last = cluster("1 x ncpus=4")
            .on_host("h", "2 x ncpus=2")
            .queued(1, packed);
        assert_eq!(
            parts_last.starts(),
            "1 on n2,n3",
            "nodes that have the least come first"
        );
        parts_last.policy.placement.allocation = NodeAllocation::FirstAvailable;
        assert_eq!(parts_last.starts(), "1 on n1,n1");
    }
    /// M46: a node that takes one task is passed over for one that will do.
    #[test]
    fn packed_chunks_pass_over_nodes_that_take_one_only() {
        let alone = Terms {
            access: NodeAccess::SingleTask,
            ..Terms::default()
        };
        let scene = cluster("2 x ncpus=4").terms("n1", "ncpus=4", alone);
        assert_eq!(
            scene.queued(1, "select=2:ncpus=1 place=pack").starts(),
            "1 on n2,n2"
        );
    }

    /// Q22: what wants a host for itself is not packed with others.
    #[test]
    fn chunks_of_which_one_wants_a_whole_host_are_not_packed() {
        for request in [
            "select=1:ncpus=1*+1:ncpus=0",
            "select=1:ncpus=0+1:ncpus=1*",
            "select=2:ncpus=1*",
        ] {
            assert!(
                cluster("3 x ncpus=4")
                    .queued(1, request)
                    .starts()
                    .starts_with("1 on"),
                "{request}"
            );
            let scene = cluster("3 x ncpus=4").running(9, "select=1:ncpus=1", "n1", 60);
            assert_eq!(
                scene.queued(1, &format!("{request} place=pack")).starts(),
                "",
                "{request}"
            );
        }
    }

    /// M8: where nodes are ranked one by one, or looked at one by one.
    #[test]
    fn packed_chunks_go_on_the_node_that_ranks_first() {
        let packed = "select=2:ncpus=1 place=pack";
        let mut scene = cluster("")
            .measured("n1", "ncpus=4", "", 3000)
            .measured("n2", "ncpus=4", "", 0);
        assert_eq!(scene.clone().queued(1, packed).starts(), "1 on n1,n1");
        scene.policy.placement.allocation = NodeAllocation::CpuLoad;
        assert_eq!(scene.queued(1, packed).starts(), "1 on n2,n2");
        assert_eq!(
            starts("4 x ncpus=4", &format!("{packed} omit_hosts=n1")),
            "1 on n2,n2"
        );
        let mut hosts = cluster("")
            .on_host("h", "1 x ncpus=8, 1 x ncpus=2")
            .on_host("i", "2 x ncpus=4");
        assert_eq!(hosts.clone().queued(1, packed).starts(), "1 on n2,n2");
        hosts.policy.placement.allocation = NodeAllocation::Fastest;
        let fast = hosts.on_host("j", "1 x ncpus=1:speed=1, 1 x ncpus=1:speed=3");
        assert_eq!(fast.queued(1, packed).starts(), "1 on n6,n5");
    }

    #[test]
    fn a_chunk_that_names_its_host_goes_there_whatever_else_it_asks_for() {
        let nodes = "3 x ncpus=8:color=red";
        assert_eq!(
            starts(nodes, "select=1:ncpus=1:color=red:host=n2"),
            "1 on n2"
        );
        assert_eq!(
            starts(nodes, "select=2:ncpus=1:vnode=n3:color=red"),
            "1 on n3,n3"
        );
    }
}
