//! Which chunk goes on which node: in the order of the request, and within a kind of chunk in the
//! order of the nodes. The first share's node runs the script.

use super::amounts::counted;
use super::cluster::{Cluster, NodeIx};
use super::matching::Placement;
use super::shape::{ChunkShape, Shape};
use crate::model::job::Share;

/// One share for each chunk, with its node; numbers of processors and GPUs are given at launch.
pub fn lay_out(cluster: &Cluster, shape: &Shape, placement: &Placement) -> Vec<(NodeIx, Share)> {
    placement.picks.iter().map(|&(node, chunk)| (node, share(cluster, node, &shape.chunks[chunk]))).collect()
}

fn share(cluster: &Cluster, node: NodeIx, chunk: &ChunkShape) -> Share {
    let catalog = &cluster.catalog;
    let taken = chunk.given.iter().map(|(index, value)| {
        let amount = counted(value).unwrap_or(0);
        (catalog.names()[*index].clone(), catalog.value(*index, amount))
    });
    let node = cluster.node(node);
    Share {
        node: node.name.clone(),
        host: node.host.clone(),
        taken: taken.collect(),
        cpus: Vec::new(),
        gpus: Vec::new(),
        mpiprocs: chunk.mpiprocs,
    }
}

#[cfg(test)]
mod tests {
    use crate::sched::fixture::cluster;

    #[test]
    fn a_chunk_has_one_mpi_process_unless_it_says_how_many_or_has_no_processors() {
        let request = "select=1:ncpus=1+1:ncpus=0:mem=1gb+1:ncpus=1:mpiprocs=0+1:ncpus=0:mpiprocs=2:mem=1gb";
        let plan = cluster("1 x ncpus=3:mem=4gb").queued(1, request).plan();
        let lines: Vec<u32> = plan.starts[0].shares.iter().map(|share| share.mpiprocs).collect();
        assert_eq!(lines, [1, 0, 0, 2]);
    }

    #[test]
    fn shares_follow_the_request() {
        let request = "select=1:mem=1gb:ncpus=2:mpiprocs=2+2:ncpus=1:big=false";
        let plan = cluster("2 x ncpus=3:mem=4gb").queued(1, request).plan();
        let shown = |share: &crate::model::job::Share| {
            let taken = share.taken.iter().map(|(name, value)| format!(":{name}={value}")).collect::<String>();
            format!("{}{taken} {}", share.node, share.mpiprocs)
        };
        let shares: Vec<String> = plan.starts[0].shares.iter().map(shown).collect();
        assert_eq!(shares, ["n1:mem=1048576kb:ncpus=2 2", "n1:ncpus=1 1", "n2:ncpus=1 1"]);
    }
}
