//! Take it: adds up what a placement takes of each node. Nothing after this can fail.

use super::cluster::{Cluster, NodeIx};
use super::matching::Placement;
use super::shape::{Shape, Tenancy};
use super::space::Claim;
use std::collections::{BTreeMap, BTreeSet};

/// What the job takes of each node; a job that wants whole hosts also holds their other nodes.
pub fn claim(cluster: &Cluster, shape: &Shape, placement: &Placement) -> Claim {
    let mut holds = BTreeMap::new();
    for &(node, chunk) in &placement.picks {
        let taken = holds.entry(node).or_insert_with(|| cluster.catalog.nothing());
        for &(index, amount) in &shape.chunks[chunk].asked {
            taken[index] += amount;
        }
    }
    if shape.tenancy == Tenancy::Hosts {
        for neighbour in neighbours(cluster, holds.keys()) {
            holds.entry(neighbour).or_insert_with(|| cluster.catalog.nothing());
        }
    }
    Claim { holds, alone: shape.tenancy.is_exclusive() }
}

/// All nodes of the hosts of some.
pub fn neighbours<'a>(cluster: &Cluster, nodes: impl Iterator<Item = &'a NodeIx>) -> Vec<NodeIx> {
    let hosts: BTreeSet<&str> = nodes.map(|&ix| cluster.node(ix).host.as_str()).collect();
    hosts.into_iter().flat_map(|host| cluster.nodes_of_host(host)).collect()
}
