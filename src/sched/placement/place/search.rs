//! A search for a placement of requests with several kinds of chunks. It is used if placing one
//! kind after another on the first nodes that fit (first fit) fails.
//!
//! Packing chunks of several sizes is hard in general, so the search is bounded. It is not run for
//! more than [`MAX_CHUNKS`] chunks, and gives up after [`MAX_VISITS`] tries. A job can therefore
//! wait although a placement exists.

use super::{Placement, TentativePlacement};
use crate::sched::placement::availability_map::AvailabilityMap;
use crate::sched::placement::filter::FittingClass;
use crate::sched::placement::guide::Rank;
use crate::sched::placement::rank::Candidates;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::shape::Shape;

/// The maximum number of chunks of a request for which the search is run.
const MAX_CHUNKS: u64 = 16;

/// The maximum number of (chunk, node) pairs that one search tries.
const MAX_VISITS: usize = 20_000;

/// Searches for nodes for all chunks, kind by kind in the given order.
pub fn place(
    space: &AvailabilityMap,
    shape: &Shape,
    within: Option<&[NodeIx]>,
    order: &[usize],
) -> Option<Placement> {
    if shape.instances > MAX_CHUNKS {
        return None;
    }
    let chunks = order
        .iter()
        .flat_map(|&chunk| (0..shape.chunks[chunk].count).map(move |_| chunk))
        .collect();
    let candidates: Vec<Candidates> = (0..shape.chunks.len())
        .map(|chunk| Candidates::of(space, shape, chunk, within))
        .collect();
    let mut supplies = candidates.iter().zip(&shape.chunks);
    if supplies.any(|(candidates, chunk)| candidates.supply() < chunk.count) {
        return None;
    }
    let mut search = PlacementSearch {
        space,
        candidates,
        chunks,
        visits: MAX_VISITS,
    };
    search
        .extend(TentativePlacement::new(space, shape), 0)
        .map(TentativePlacement::placement)
}

/// The state of a search.
struct PlacementSearch<'a> {
    space: &'a AvailabilityMap<'a>,
    candidates: Vec<Candidates>,
    /// The kind of each chunk, in the order of placement.
    chunks: Vec<usize>,
    /// The number of (chunk, node) pairs that may still be tried.
    visits: usize,
}

impl<'a> PlacementSearch<'a> {
    /// Places the chunks from index `next` on, trying each possible node in turn. None if they do
    /// not fit or the search has reached its limit.
    fn extend(
        &mut self,
        trial: TentativePlacement<'a>,
        next: usize,
    ) -> Option<TentativePlacement<'a>> {
        let Some(&chunk) = self.chunks.get(next) else {
            return Some(trial);
        };
        for node in self.options(&trial, chunk) {
            self.visits = self.visits.checked_sub(1)?;
            if trial.times(node, chunk) == 0 {
                continue;
            }
            let mut further = trial.clone();
            further.add_chunks(node, chunk, 1);
            if let Some(found) = self.extend(further, next + 1) {
                return Some(found);
            }
        }
        None
    }

    /// The nodes to try for a chunk. If the candidates are classes, one unused node of each class
    /// is tried, because the unused nodes of a class are interchangeable. The nodes that already
    /// have chunks of this request are tried, too.
    fn options(&self, trial: &TentativePlacement<'a>, chunk: usize) -> Vec<NodeIx> {
        match &self.candidates[chunk] {
            Candidates::Listed(nodes) => nodes.iter().map(|&(node, _)| node).collect(),
            Candidates::Classes(fitting) => {
                let in_use = trial
                    .used_nodes()
                    .into_iter()
                    .filter(|&node| self.suits(node, fitting));
                let fresh = fitting.iter().filter_map(|bucket| {
                    self.space
                        .merged(std::iter::once((Rank::default(), bucket.place, 0)))
                        .map(|(node, _)| node)
                        .find(|&node| !trial.is_used(node) && trial.times(node, chunk) > 0)
                });
                let mut options: Vec<NodeIx> = in_use.chain(fresh).collect();
                // Sort, so that the result does not depend on the order of classes: equal states
                // must give equal results.
                options.sort_unstable();
                options
            }
        }
    }

    /// Whether a node is of the same kind as a fitting class. Free amounts are checked later.
    fn suits(&self, node: NodeIx, fitting: &[FittingClass]) -> bool {
        let kind = self.space.cluster.node(node).kind;
        fitting
            .iter()
            .any(|bucket| Some(self.space.head(bucket.place).kind) == kind)
    }
}

#[cfg(test)]
mod tests {
    use crate::model::request::placement_policy::NodeAllocation;
    use crate::sched::fixture::cluster;

    /// First fit cannot place the first two requests, whichever kind of chunk comes first. It puts
    /// as many chunks of this kind as possible on one node; one chunk of the other kind then fits
    /// nowhere.
    #[test]
    fn the_search_places_what_first_fit_does_not() {
        let starts = |allocation, nodes: &str, select: &str| {
            let mut fixture = cluster(nodes).queued(1, &format!("select={select}"));
            fixture.policy.placement.allocation = allocation;
            fixture.starts()
        };
        for allocation in [
            NodeAllocation::FirstAvailable,
            NodeAllocation::MinResource,
            NodeAllocation::CpuLoad,
        ] {
            let halves = starts(allocation, "2 x ncpus=10", "2:ncpus=4+4:ncpus=3");
            assert_eq!(halves, "1 on n1,n2,n1,n1,n2,n2", "{allocation:?}");
            let others = starts(
                allocation,
                "1 x ncpus=2, 1 x ncpus=10, 1 x ncpus=10:big=true",
                "2:ncpus=4+4:ncpus=3",
            );
            assert_eq!(others, "1 on n2,n3,n2,n2,n3,n3", "{allocation:?}");
            assert_eq!(
                starts(allocation, "2 x ncpus=10", "2:ncpus=4+5:ncpus=3"),
                "",
                "{allocation:?}"
            );
        }
    }

    /// The search is run for 16 chunks, but not for 17.
    #[test]
    fn only_small_requests_are_searched() {
        let starts = |ones: u32| {
            let select = format!("select=2:ncpus=4+4:ncpus=3+{ones}:ncpus=1");
            cluster("2 x ncpus=10, 20 x ncpus=1")
                .queued(1, &select)
                .starts()
        };
        assert!(!starts(10).is_empty());
        assert_eq!(starts(11), "");
    }

    #[test]
    fn a_request_of_which_too_few_chunks_fit_is_refused() {
        assert_eq!(
            cluster("2 x ncpus=6")
                .queued(1, "select=2:ncpus=3+3:ncpus=3")
                .starts(),
            ""
        );
    }
}
