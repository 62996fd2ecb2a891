//! The size of a job in nodes (F6, F18).

use super::cluster::Cluster;
use super::shape::{ChunkShape, Shape};

/// A lower bound of the number of nodes that a request needs on an idle cluster, computed without a
/// search. If the cluster is found too small for the request, the result is the number of chunks.
pub fn fewest_nodes(shape: &Shape, cluster: &Cluster) -> u64 {
    if shape.instances <= 1 || shape.is_spread() || shape.is_single_task {
        return shape.instances;
    }
    let for_chunks = shape
        .chunks
        .iter()
        .map(|chunk| for_chunk(shape, chunk, cluster));
    let named = shape
        .chunks
        .iter()
        .flat_map(|chunk| chunk.asked.iter().map(|&(index, _)| index));
    let for_amounts = named.map(|index| for_amount(shape, index, cluster));
    let fewest: Option<u64> = for_chunks
        .chain(for_amounts)
        .try_fold(1, |most, count| Some(most.max(count?)));
    fewest.unwrap_or(shape.instances).min(shape.instances)
}

/// The minimum number of nodes for the equal chunks of one part of a request. None if the cluster
/// cannot hold them.
fn for_chunk(shape: &Shape, chunk: &ChunkShape, cluster: &Cluster) -> Option<u64> {
    let mut sizes = Vec::new();
    for (_, kind) in cluster.kinds() {
        // Needs for a host or node name are ignored, because they are no properties of a kind.
        let mut needs = chunk.needs.iter().filter(|need| !need.is_pinned());
        if !needs.all(|need| need.is_met_by(kind.attributes.get(&need.resource))) {
            continue;
        }
        let mut times = chunk.times_in(&kind.empty.free);
        if shape.is_one_to_a_node(kind) {
            times = times.min(1);
        }
        sizes.push((times, kind.nodes as u64));
    }
    largest_first(sizes, chunk.count)
}

/// The minimum number of nodes that together have enough of a resource for all chunks. None if the
/// cluster does not have enough.
fn for_amount(shape: &Shape, index: usize, cluster: &Cluster) -> Option<u64> {
    let sizes = cluster
        .kinds()
        .map(|(_, kind)| {
            let size = kind.empty.free[index].max(0).unsigned_abs();
            (size, kind.nodes as u64)
        })
        .collect();
    largest_first(sizes, shape.total[index].max(0).unsigned_abs())
}

/// The number of nodes that together hold the amount `needed`, if the largest nodes are used first.
/// `sizes` are pairs of (size, number of nodes). None if all nodes together are too small.
fn largest_first(mut sizes: Vec<(u64, u64)>, needed: u64) -> Option<u64> {
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let (mut left, mut count) = (needed, 0);
    for (size, nodes) in sizes.into_iter().filter(|&(size, _)| size > 0) {
        let taken = left.div_ceil(size).min(nodes);
        count += taken;
        left = left.saturating_sub(taken.saturating_mul(size));
    }
    (left == 0).then_some(count)
}

#[cfg(test)]
mod tests {
    use crate::model::job_id::JobId;
    use crate::sched::fixture::cluster;

    fn nodes(nodes: &str, request: &str) -> u64 {
        let fixture = cluster(nodes).queued(1, request);
        let class = fixture.state.waiting_class(JobId::job(1)).unwrap();
        super::fewest_nodes(&class.shape, &fixture.state.cluster)
    }

    #[test]
    fn a_request_counts_as_the_minimum_number_of_nodes_that_hold_its_chunks() {
        assert_eq!(nodes("4 x ncpus=4", "select=4:ncpus=1"), 1);
        assert_eq!(nodes("4 x ncpus=4", "select=5:ncpus=1"), 2);
        assert_eq!(
            nodes("4 x ncpus=4", "select=3:ncpus=3"),
            3,
            "each node holds only one chunk"
        );
        assert_eq!(nodes("4 x ncpus=4", "select=1:ncpus=4+1:ncpus=4"), 2);
        assert_eq!(nodes("4 x ncpus=4", "select=1:ncpus=1+2:ncpus=1"), 1);
    }

    #[test]
    fn scattered_chunks_count_as_one_node_each() {
        assert_eq!(nodes("4 x ncpus=4", "select=4:ncpus=1 place=scatter"), 4);
        assert_eq!(nodes("4 x ncpus=4", "select=4:ncpus=1 place=vscatter"), 4);
        assert_eq!(nodes("4 x ncpus=4", "select=4:ncpus=1 place=pack"), 1);
    }

    #[test]
    fn a_request_that_does_not_fit_counts_as_many_nodes_as_chunks() {
        assert_eq!(nodes("2 x ncpus=2", "select=6:ncpus=1"), 6);
    }
}
