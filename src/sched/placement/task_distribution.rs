//! Distribution: turns a placement into shares of nodes, one for each chunk, and numbers the tasks
//! (MPI ranks) of each share (M9). The node of the first share runs the job script. The node file
//! has a line for each task, in order of rank.

use super::place::Placement;
use crate::model::job::NodeShare;
use crate::model::request::placement_policy::Distribution;
use crate::model::resource::ResourceValue;
use crate::sched::amounts::counted;
use crate::sched::view::cluster::{Cluster, NodeIx};
use crate::sched::view::shape::{ChunkShape, Shape};
use std::collections::BTreeMap;

/// If a job without task geometry has more tasks than this, they are numbered in the order of the
/// shares, even if the policy is round robin.
const MAX_TASKS: u64 = 1 << 20;

/// Returns one share for each chunk, with the chunk's node. `extra` contains the amounts that each
/// share gets in addition to its request. CPU and GPU numbers are assigned at launch.
pub fn distribute(
    cluster: &Cluster,
    shape: &Shape,
    placement: &Placement,
    extra: &[BTreeMap<usize, i64>],
    distribution: Distribution,
) -> Vec<(NodeIx, NodeShare)> {
    let none = BTreeMap::new();
    let picks = placement.picks.iter().enumerate();
    let mut shares: Vec<(NodeIx, NodeShare)> = picks
        .map(|(at, &(node, chunk))| {
            let extra = extra.get(at).unwrap_or(&none);
            (node, share(cluster, node, &shape.chunks[chunk], extra))
        })
        .collect();
    let catalog = &cluster.catalog;
    let mut pooled: BTreeMap<NodeIx, Vec<(String, ResourceValue)>> = BTreeMap::new();
    for (ix, index, amount) in
        shape.pooled_amounts(cluster, placement.picks.iter().map(|&(ix, _)| ix))
    {
        let named = (catalog.names()[index].clone(), catalog.value(index, amount));
        pooled.entry(ix).or_default().push(named);
    }
    for (ix, share) in &mut shares {
        share.pooled = pooled.remove(ix).unwrap_or_default();
    }
    number_tasks(
        &mut shares,
        shape,
        shape.distribution.unwrap_or(distribution),
    );
    shares
}

/// Sets the ranks of the tasks of each share. Leaves them empty if tasks are numbered in the order
/// of the shares.
fn number_tasks(shares: &mut [(NodeIx, NodeShare)], shape: &Shape, distribution: Distribution) {
    if let Some(geometry) = &shape.geometry {
        let groups = shares.iter_mut().zip(geometry.groups());
        for ((_, share), group) in
            groups.filter(|((_, share), group)| share.mpiprocs as usize == group.len())
        {
            share.ranks.clone_from(group);
        }
        return;
    }
    let tasks: u64 = shares
        .iter()
        .map(|(_, share)| u64::from(share.mpiprocs))
        .sum();
    let is_plain = shares.iter().all(|(_, share)| share.mpiprocs == 1);
    if distribution != Distribution::RoundRobin || is_plain || tasks > MAX_TASKS {
        return;
    }
    let mut next = 0;
    for round in 0.. {
        let open = shares
            .iter_mut()
            .filter(|(_, share)| share.mpiprocs > round);
        let before = next;
        for (_, share) in open {
            share.ranks.push(next);
            next += 1;
        }
        if next == before {
            break;
        }
    }
}

/// The share of a node that one chunk gets.
fn share(
    cluster: &Cluster,
    node: NodeIx,
    chunk: &ChunkShape,
    extra: &BTreeMap<usize, i64>,
) -> NodeShare {
    let catalog = &cluster.catalog;
    let taken = chunk.given.iter().map(|(index, value)| {
        let amount = counted(value).unwrap_or(0) + extra.get(index).copied().unwrap_or(0);
        (
            catalog.names()[*index].clone(),
            catalog.value(*index, amount),
        )
    });
    let node = cluster.node(node);
    NodeShare {
        node: node.name.clone(),
        host: node.host.clone(),
        taken: taken.collect(),
        cpus: Vec::new(),
        gpus: Vec::new(),
        mpiprocs: chunk.mpiprocs,
        pooled: Vec::new(),
        ranks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::model::request::placement_policy::Distribution;
    use crate::sched::fixture::cluster;

    #[test]
    fn a_chunk_with_cpus_has_one_mpi_process_by_default() {
        let request =
            "select=1:ncpus=1+1:ncpus=0:mem=1gb+1:ncpus=1:mpiprocs=0+1:ncpus=0:mpiprocs=2:mem=1gb";
        let plan = cluster("1 x ncpus=3:mem=4gb").queued(1, request).plan();
        let lines: Vec<u32> = plan.starts[0]
            .shares
            .iter()
            .map(|share| share.mpiprocs)
            .collect();
        assert_eq!(lines, [1, 0, 0, 2]);
    }

    #[test]
    fn shares_follow_the_request() {
        let request = "select=1:mem=1gb:ncpus=2:mpiprocs=2+2:ncpus=1:big=false";
        let plan = cluster("2 x ncpus=3:mem=4gb").queued(1, request).plan();
        let shown = |share: &crate::model::job::NodeShare| {
            let taken = share
                .taken
                .iter()
                .map(|(name, value)| format!(":{name}={value}"))
                .collect::<String>();
            format!("{}{taken} {}", share.node, share.mpiprocs)
        };
        let shares: Vec<String> = plan.starts[0].shares.iter().map(shown).collect();
        assert_eq!(
            shares,
            ["n1:mem=1048576kb:ncpus=2 2", "n1:ncpus=1 1", "n2:ncpus=1 1"]
        );
    }

    /// The node numbers in the lines of the node file.
    fn lines(fixture: &crate::sched::fixture::TestCluster, request: &str) -> String {
        let plan = fixture.clone().queued(1, request).plan();
        let file = crate::model::job::task::node_file(&plan.starts[0].shares);
        file.lines()
            .map(|line| &line[1..])
            .collect::<Vec<_>>()
            .join(",")
    }

    /// M9.
    #[test]
    fn the_policy_distributes_tasks() {
        let fixture = |distribution| {
            let mut fixture = cluster("3 x ncpus=4");
            fixture.policy.placement.distribution = distribution;
            fixture
        };
        let six = "select=6:ncpus=1";
        assert_eq!(
            lines(&fixture(Distribution::RoundRobin), six),
            "1,2,3,1,2,3"
        );
        assert_eq!(lines(&fixture(Distribution::Pack), six), "1,1,1,1,2,2");
        assert_eq!(lines(&fixture(Distribution::Balanced), six), "1,1,1,2,2,2");
        assert_eq!(
            lines(
                &fixture(Distribution::Pack),
                "select=6:ncpus=1 distribution=roundrobin"
            ),
            "1,2,3,1,2,3"
        );
        let two_each = "select=3:ncpus=2:mpiprocs=2 place=scatter";
        assert_eq!(lines(&fixture(Distribution::Pack), two_each), "1,1,2,2,3,3");
        assert_eq!(
            lines(&fixture(Distribution::Balanced), two_each),
            "1,1,2,2,3,3"
        );
        assert_eq!(
            lines(&fixture(Distribution::RoundRobin), two_each),
            "1,2,3,1,2,3"
        );
    }

    /// M9: the number of tasks per node differs by at most one, if the nodes are large enough.
    #[test]
    fn balanced_tasks_are_divided_equally_among_nodes() {
        let fixture = cluster("4 x ncpus=3");
        assert_eq!(
            lines(&fixture, "select=10:ncpus=1 distribution=balanced"),
            "1,1,1,2,2,2,3,3,4,4"
        );
        assert_eq!(
            lines(
                &cluster("3 x ncpus=2"),
                "select=6:ncpus=1 distribution=balanced"
            ),
            "1,1,2,2,3,3"
        );
        let uneven = cluster("1 x ncpus=1, 2 x ncpus=4");
        assert_eq!(
            lines(&uneven, "select=7:ncpus=1 distribution=balanced"),
            "1,2,2,2,3,3,3"
        );
    }

    /// M9.
    #[test]
    fn a_geometry_groups_tasks() {
        let fixture = cluster("2 x ncpus=4");
        assert_eq!(
            lines(&fixture, "select=4:ncpus=1 geometry={(0,3)(1,2)}"),
            "1,2,2,1"
        );
        let plan = fixture
            .queued(1, "select=4:ncpus=2 geometry={(0,3)(1,2)}")
            .plan();
        let taken: Vec<String> = plan.starts[0]
            .shares
            .iter()
            .map(|share| share.taken[0].1.to_string())
            .collect();
        assert_eq!(taken, ["4", "4"]);
        assert_eq!(
            cluster("1 x ncpus=8")
                .queued(1, "select=4:ncpus=1 geometry={(0,3)(1,2)}")
                .starts(),
            ""
        );
    }

    /// M9: each share in turn gets the next rank, until all its tasks have a rank.
    #[test]
    fn round_robin_skips_shares_without_tasks_left() {
        let uneven = "select=1:ncpus=3:mpiprocs=3+1:ncpus=1:mpiprocs=1 place=scatter distribution=roundrobin";
        assert_eq!(lines(&cluster("2 x ncpus=4"), uneven), "1,2,1,1");
    }
}
