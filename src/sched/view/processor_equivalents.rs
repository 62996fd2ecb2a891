//! Processor equivalents: the size of a request in CPUs (M15, M30).

use super::cluster::Cluster;
use super::shape::Shape;

/// The processor equivalents of a shape (the part of a request that decides where a job fits): the
/// largest fraction that it requests of any resource of the cluster, multiplied by the number of
/// CPUs of the cluster. Example: a request for a quarter of the CPUs and half of the memory of a
/// cluster with 128 CPUs counts as 64.
pub fn equivalents(shape: &Shape, cluster: &Cluster) -> f64 {
    of_amounts(&shape.total, cluster)
}

/// The processor equivalents of these amounts.
pub fn of_amounts(amounts: &[i64], cluster: &Cluster) -> f64 {
    let all = cluster
        .catalog
        .index("ncpus")
        .map_or(0, |index| cluster.capacity()[index]);
    amounts
        .iter()
        .zip(cluster.capacity())
        .map(|(requested, all)| *requested as f64 / (*all).max(1) as f64)
        .fold(0.0, f64::max)
        * all as f64
}

/// The processor equivalents in thousandths, truncated.
pub fn thousandths(amounts: &[i64], cluster: &Cluster) -> i64 {
    (of_amounts(amounts, cluster) * 1000.0) as i64
}
