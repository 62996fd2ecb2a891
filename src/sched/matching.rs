//! Where would it fit? Finds nodes for all chunks of a request, and takes nothing.
//!
//! A chunk is held against buckets, and only the nodes that are chosen are looked at, in the order
//! of the nodes. Requests of one kind of chunk are decided exactly; for several kinds the order
//! asked is tried, then the most demanding first, then a bounded search (see [`search`]).

use super::amounts::Amounts;
use super::cluster::NodeIx;
use super::search;
use super::shape::{ChunkShape, Shape, Tenancy};
use super::space::{Space, may_join};
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
    let placement = match &shape.group {
        None => arrange(space, shape),
        Some(resource) => {
            let values = group_values(space, resource);
            values.iter().find_map(|value| arrange(space, &shape.narrowed(resource, value)))
        }
    };
    placement.ok_or(Misfit::Arrangement)
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
    match &shape.chunks[..] {
        [chunk] if is_anywhere && shape.tenancy != Tenancy::Hosts && shape.group.is_none() => {
            Some(chunk).filter(|chunk| !chunk.needs.iter().any(|need| need.is_pinned()))
        }
        _ => None,
    }
}

/// Chunks of one kind on the first nodes with room. So many chunks need at most so many buckets,
/// those whose first nodes come first; the others are only counted.
fn place_alike(space: &Space, shape: &Shape, chunk: &ChunkShape) -> Result<Placement, Misfit> {
    let (mut supply, mut nearest) = (0_u64, BinaryHeap::new());
    for bucket in fitting_buckets(space, shape, chunk) {
        supply = supply.saturating_add(bucket.supply());
        if (nearest.len() as u64) < chunk.count {
            nearest.push(bucket);
        } else if let Some(mut farthest) = nearest.peek_mut().filter(|farthest| bucket < **farthest) {
            *farthest = bucket;
        }
    }
    if supply < chunk.count {
        return Err(Misfit::Places { fitting: supply, needed: chunk.count });
    }
    let nearest = Candidates::Buckets(nearest.into_vec());
    let mut picks = Vec::with_capacity(chunk.count as usize);
    for (node, times) in nearest.nodes(space) {
        let take = times.min(chunk.count - picks.len() as u64);
        picks.extend((0..take).map(|_| (node, 0)));
        if picks.len() as u64 == chunk.count {
            break;
        }
    }
    Ok(Placement { picks })
}

/// The buckets with room for a kind of chunk, host and node names left aside.
fn fitting_buckets<'a>(
    space: &'a Space,
    shape: &'a Shape,
    chunk: &'a ChunkShape,
) -> impl Iterator<Item = FittingBucket> + 'a {
    let times = |place| match (shape.is_spread(), chunk.count) {
        (true, _) | (_, 1) => 1,
        _ => space.times(place, &chunk.asked).unwrap_or(ChunkShape::MOST_EMPTY_ON_A_NODE),
    };
    space.with_free(&chunk.asked).filter_map(move |place| {
        let head = space.head(place);
        let suits = may_join(head.condition, shape.tenancy) && space.meets(head.kind, &chunk.needs);
        let first = head.first.filter(|_| suits)?;
        Some(FittingBucket { first, place, nodes: head.nodes, times: times(place) })
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

fn arrange(space: &Space, shape: &Shape) -> Option<Placement> {
    match shape.arrangement {
        Arrangement::Pack => pack(space, shape),
        Arrangement::Free | Arrangement::Scatter | Arrangement::Vscatter => spread(space, shape, None),
    }
}

/// All chunks on one host: the first that takes them.
fn pack(space: &Space, shape: &Shape) -> Option<Placement> {
    let solo = pack_on_one_node(space, shape);
    let first = solo.as_ref().and_then(|placement| placement.picks.first()).map(|&(node, _)| node);
    let mut hosts: Vec<Vec<NodeIx>> =
        space.cluster.composite_hosts().map(|nodes| nodes.iter().copied().collect()).collect();
    hosts.sort();
    let earlier = hosts.iter().take_while(|nodes| first.is_none_or(|first| nodes[0] < first));
    earlier.into_iter().find_map(|nodes| spread(space, shape, Some(nodes))).or(solo)
}

/// The same among hosts of one node each, which are alike by bucket.
fn pack_on_one_node(space: &Space, shape: &Shape) -> Option<Placement> {
    let asked: Vec<(usize, i64)> = shape.total.iter().copied().enumerate().filter(|&(_, amount)| amount > 0).collect();
    let needs: Vec<_> = shape.chunks.iter().flat_map(|chunk| chunk.needs.iter().cloned()).collect();
    let fitting = space.with_free(&asked).filter(|&place| {
        let head = space.head(place);
        head.solo && may_join(head.condition, shape.tenancy) && space.meets(head.kind, &needs)
    });
    let is_pinned = needs.iter().any(|need| need.is_pinned());
    let node = match is_pinned {
        false => fitting.filter_map(|place| space.head(place).first).min()?,
        true => {
            let mut nodes = space.merged(fitting.map(|place| (place, 0))).map(|(node, _)| node);
            nodes.find(|&ix| space.cluster.node_meets(ix, &needs))?
        }
    };
    spread(space, shape, Some(&[node]))
}

/// The chunks on any of the nodes, or of these only, each on a node or host of its own if so asked.
fn spread(space: &Space, shape: &Shape, within: Option<&[NodeIx]>) -> Option<Placement> {
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
        if !self.space.admits(node, self.shape.tenancy) || self.is_reserved(node) {
            return 0;
        }
        let free = self.left.get(&node).unwrap_or(&self.space.room(node).free);
        let times = self.shape.chunks[chunk].times_in(free);
        if self.shape.is_spread() { times.min(1) } else { times }
    }

    /// Whether another chunk is there that wants the node, or its host, for itself.
    fn is_reserved(&self, node: NodeIx) -> bool {
        match self.shape.arrangement {
            Arrangement::Scatter => self.hosts.contains(self.space.cluster.node(node).host.as_str()),
            Arrangement::Vscatter => self.left.contains_key(&node),
            Arrangement::Free | Arrangement::Pack => false,
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

/// A bucket with room; those whose first node comes first are first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FittingBucket {
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
                None => Candidates::Buckets(fitting_buckets(space, shape, chunk).collect()),
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
            space.is_open(*ix) && space.admits(*ix, shape.tenancy) && space.cluster.node_meets(*ix, &chunk.needs)
        };
        let times = |ix: NodeIx| {
            let times = chunk.times_in(&space.room(ix).free);
            (ix, if shape.is_spread() { times.min(1) } else { times })
        };
        Candidates::Listed(nodes.filter(fits).map(times).filter(|&(_, times)| times > 0).collect())
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
                let merged = space.merged(fitting.iter().enumerate().map(|(i, bucket)| (bucket.place, i)));
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
        assert_eq!(scene.plan().starts[0].exclusive, crate::sched::snapshot::Tenancy::Hosts);
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
