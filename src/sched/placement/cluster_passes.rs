//! The requests of waiting jobs in passes by distance (Q5, Q17): in each pass, a job may use only
//! nodes up to a certain distance from its cluster (a label, as in Qube!).

use super::resolution::Resolved;
use crate::model::policy::{Policy, PriorityOrder};
use crate::model::request::cluster_path::{ClusterPath, distance};
use crate::sched::view::cluster::KindIx;
use crate::sched::view::shape::{ClassKey, Shape, ShapeId};
use crate::sched::view::snapshot::ClusterState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The requests of each pass, nearest first. The last pass, which allows all nodes, is omitted.
/// Empty unless the policy orders jobs by cluster.
pub fn passes(state: &ClusterState, policy: &Policy, whole: &Resolved) -> Vec<Resolved> {
    if policy.precedence.order != PriorityOrder::Cluster {
        return Vec::new();
    }
    let kinds_by_cluster = kinds_by_cluster(state);
    let clusters: BTreeSet<ClusterPath> = state
        .classes
        .values()
        .map(|class| class.key.cluster())
        .collect();
    let mut distances: BTreeSet<usize> = BTreeSet::new();
    for cluster in &clusters {
        distances.extend(
            kinds_by_cluster
                .keys()
                .map(|label| distance(label, cluster)),
        );
    }
    distances.pop_last();
    let near = distances.into_iter().map(|farthest| {
        // Each shape is changed only once, because most requests occur in many classes.
        let mut known: BTreeMap<ShapeId, Arc<Shape>> = BTreeMap::new();
        whole.narrowed(state, |class| {
            let shape = known.entry(class.shape.id).or_insert_with(|| {
                let kinds = within(&kinds_by_cluster, &class.cluster(), farthest);
                let shape = Shape::clone(&class.shape).on(kinds);
                Arc::new(shape.renamed(&("near", farthest)))
            });
            ClassKey {
                shape: shape.clone(),
                ..class.clone()
            }
        })
    });
    near.collect()
}

/// The kinds of nodes of each cluster.
fn kinds_by_cluster(state: &ClusterState) -> BTreeMap<&ClusterPath, Vec<KindIx>> {
    let mut kinds_by_cluster: BTreeMap<&ClusterPath, Vec<KindIx>> = BTreeMap::new();
    for (ix, kind) in state.cluster.kinds() {
        kinds_by_cluster
            .entry(&kind.terms.cluster)
            .or_default()
            .push(ix);
    }
    kinds_by_cluster
}

/// The kinds of nodes at most `farthest` away from a cluster.
fn within(
    kinds_by_cluster: &BTreeMap<&ClusterPath, Vec<KindIx>>,
    cluster: &ClusterPath,
    farthest: usize,
) -> BTreeSet<KindIx> {
    let near = kinds_by_cluster
        .iter()
        .filter(|(label, _)| distance(label, cluster) <= farthest);
    near.flat_map(|(_, kinds)| kinds.iter().copied()).collect()
}
