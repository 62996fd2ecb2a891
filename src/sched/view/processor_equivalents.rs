//! Processor equivalents: what a job asks for, in processors (M15, M30).

use super::cluster::Cluster;
use super::shape::Shape;

/// The largest part of any resource that is asked for, times all processors: a quarter of the
/// processors and half of the memory of 128 are worth 64.
pub fn equivalents(shape: &Shape, cluster: &Cluster) -> f64 {
    of_amounts(&shape.total, cluster)
}

/// The same of amounts.
pub fn of_amounts(amounts: &[i64], cluster: &Cluster) -> f64 {
    let all = cluster
        .catalog
        .index("ncpus")
        .map_or(0, |index| cluster.capacity()[index]);
    amounts
        .iter()
        .zip(cluster.capacity())
        .map(|(asked, all)| *asked as f64 / (*all).max(1) as f64)
        .fold(0.0, f64::max)
        * all as f64
}

/// In thousandths, whole.
pub fn thousandths(amounts: &[i64], cluster: &Cluster) -> i64 {
    (of_amounts(amounts, cluster) * 1000.0) as i64
}
