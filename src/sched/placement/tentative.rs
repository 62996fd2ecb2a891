//! Chunks put on nodes for a try: what is left of the nodes meanwhile, and what else goes there.

use super::availability_map::Space;
use super::candidates::Candidates;
use super::chunk_distribution::deal;
use super::matching::Placement;
use crate::model::request::select::Arrangement;
use crate::sched::amounts::Amounts;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::shape::{ChunkShape, Shape};
use std::collections::{BTreeMap, BTreeSet};

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
        Trial {
            space,
            shape,
            left: BTreeMap::new(),
            hosts: BTreeSet::new(),
            picks: Vec::new(),
        }
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
        if self.shape.is_spread() {
            return self.spread(chunk, count, &candidates);
        }
        let dealt = {
            let trial = &*self;
            let nodes = candidates
                .nodes(self.space, self.shape)
                .map(|(node, _)| (node, trial.times(node, chunk)));
            deal(
                self.space,
                self.shape,
                nodes.filter(|&(_, times)| times > 0),
                count,
            )
        };
        // Runs of one node are put there at once.
        for run in dealt.chunk_by(|a, b| a == b) {
            self.put(run[0], chunk, run.len() as u64);
        }
        dealt.len() as u64
    }

    /// The same where each chunk stands in the way of the next.
    fn spread(&mut self, chunk: usize, count: u64, candidates: &Candidates) -> u64 {
        let mut wanted = count;
        for (node, _) in candidates.nodes(self.space, self.shape) {
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
        let room = self.space.room(node);
        if !self.space.admits(node, self.shape.tenant()) || self.is_reserved(node) {
            return 0;
        }
        let chunk = &self.shape.chunks[chunk];
        let is_single = self.space.cluster.node(node).kind.is_some_and(|kind| {
            self.shape.is_one_to_a_node(self.space.cluster.kind(kind)) || chunk.wants_idle()
        });
        let is_in_use = self.left.contains_key(&node);
        if is_single && is_in_use || chunk.wants_idle() && room.tenants > 0 {
            return 0;
        }
        let times = chunk.times_in(self.left.get(&node).unwrap_or(&room.free));
        if is_single { times.min(1) } else { times }
    }

    /// Whether another chunk is there that wants the node, or its host, for itself.
    fn is_reserved(&self, node: NodeIx) -> bool {
        match self.shape.arrangement {
            Arrangement::Scatter => self
                .hosts
                .contains(self.space.cluster.node(node).host.as_str()),
            Arrangement::Vscatter => self.left.contains_key(&node),
            Arrangement::Free | Arrangement::Pack => {
                let has_whole = |&(at, chunk): &(NodeIx, usize)| {
                    at == node && self.shape.chunks[chunk].wants_idle()
                };
                self.shape.chunks.iter().any(ChunkShape::wants_idle)
                    && self.picks.iter().any(has_whole)
            }
        }
    }

    /// Puts so many chunks of a kind on a node.
    pub fn put(&mut self, node: NodeIx, chunk: usize, times: u64) {
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

    /// Whether something is on this node.
    pub fn is_touched(&self, node: NodeIx) -> bool {
        self.left.contains_key(&node)
    }

    /// The nodes something is on.
    pub fn touched(&self) -> Vec<NodeIx> {
        self.left.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::sched::fixture::cluster;

    /// Q22: a chunk that wants a host for itself has it for itself, also beside others of its job.
    #[test]
    fn a_chunk_that_wants_a_whole_host_shares_it_with_no_other_chunk() {
        let starts = |busy: bool, select: &str| {
            let scene = cluster("3 x ncpus=4");
            let scene = if busy {
                scene.running(9, "select=1:ncpus=1", "n1", 60)
            } else {
                scene
            };
            scene.queued(1, &format!("select={select}")).starts()
        };
        assert_eq!(starts(false, "1:ncpus=1*+1:ncpus=1"), "1 on n1,n2");
        assert_eq!(
            starts(false, "1:ncpus=1+1:ncpus=1*"),
            starts(false, "1:ncpus=1+1:ncpus=1*")
        );
        assert_eq!(starts(true, "1:ncpus=1*+1:ncpus=1"), "1 on n2,n1");
        assert_eq!(starts(true, "2:ncpus=1*"), "1 on n2,n3");
        assert_eq!(starts(true, "3:ncpus=1*"), "");
        assert_eq!(starts(true, "2:ncpus=1*+2:ncpus=1"), "1 on n2,n3,n1,n1");
    }
}
