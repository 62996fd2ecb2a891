//! A search over placements, for requests with several kinds of chunks that first fit does not
//! place.
//!
//! Packing several sizes is hard in general, so the search is bounded: small requests are decided
//! exactly; larger ones may wait although a placement exists.

use super::{Placement, TentativePlacement};
use crate::sched::placement::availability_map::AvailabilityMap;
use crate::sched::placement::filter::FittingClass;
use crate::sched::placement::guide::Rank;
use crate::sched::placement::rank::Candidates;
use crate::sched::view::cluster::NodeIx;
use crate::sched::view::shape::Shape;

/// The maximum number of chunks to search for.
const MAX_CHUNKS: u64 = 16;

/// The maximum number of (chunk, node) pairs to try.
const MAX_VISITS: usize = 20_000;

/// Searches for nodes for the chunks, in the given order of kinds.
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

struct PlacementSearch<'a> {
    space: &'a AvailabilityMap<'a>,
    candidates: Vec<Candidates>,
    /// The kind of each chunk, in the order of placement.
    chunks: Vec<usize>,
    visits: usize,
}

impl<'a> PlacementSearch<'a> {
    /// Places the chunks from `next` on, trying each option in turn.
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
            further.put(node, chunk, 1);
            if let Some(found) = self.extend(further, next + 1) {
                return Some(found);
            }
        }
        None
    }

    /// The nodes that already have chunks, and one other node of each class: the rest of the class
    /// equals it.
    fn options(&self, trial: &TentativePlacement<'a>, chunk: usize) -> Vec<NodeIx> {
        match &self.candidates[chunk] {
            Candidates::Listed(nodes) => nodes.iter().map(|&(node, _)| node).collect(),
            Candidates::Classes(fitting) => {
                let in_use = trial
                    .touched()
                    .into_iter()
                    .filter(|&node| self.suits(node, fitting));
                let fresh = fitting.iter().filter_map(|bucket| {
                    self.space
                        .merged(std::iter::once((Rank::default(), bucket.place, 0)))
                        .map(|(node, _)| node)
                        .find(|&node| !trial.is_touched(node) && trial.times(node, chunk) > 0)
                });
                let mut options: Vec<NodeIx> = in_use.chain(fresh).collect();
                // Independent of the order of classes: equal states must give equal results.
                options.sort_unstable();
                options
            }
        }
    }

    /// Whether a node is of a suitable kind; its amounts are checked later.
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

    /// Neither order of first fit places these: both put the large chunks together.
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

    /// The search covers sixteen chunks but not seventeen.
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
    fn a_request_with_a_chunk_that_fits_nowhere_is_not_searched() {
        assert_eq!(
            cluster("2 x ncpus=6")
                .queued(1, "select=2:ncpus=3+3:ncpus=3")
                .starts(),
            ""
        );
    }
}
