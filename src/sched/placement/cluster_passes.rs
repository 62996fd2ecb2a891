//! Earlier passes over the queue, in which a job may use only nodes near its cluster (Q5, Q17).

use super::resolution::Resolved;
use crate::model::policy::{Policy, PriorityOrder};
use crate::model::request::cluster_path::{ClusterPath, distance};
use crate::sched::view::cluster::KindIx;
use crate::sched::view::shape::{ClassKey, Shape, ShapeId};
use crate::sched::view::snapshot::ClusterState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The resolved requests of each pass except the last, which admits all nodes. Empty unless the
/// policy orders jobs by cluster.
pub fn passes(state: &ClusterState, policy: &Policy, whole: &Resolved) -> Vec<Resolved> {
    if policy.precedence.order != PriorityOrder::Cluster {
        return Vec::new();
    }
    let labels = labels(state);
    let clusters: BTreeSet<ClusterPath> = state
        .classes
        .values()
        .map(|class| class.key.cluster())
        .collect();
    let mut distances: BTreeSet<usize> = BTreeSet::new();
    for cluster in &clusters {
        distances.extend(labels.keys().map(|label| distance(label, cluster)));
    }
    distances.pop_last();
    let near = distances.into_iter().map(|farthest| {
        // Most jobs of a long queue share their request with others.
        let mut known: BTreeMap<ShapeId, Arc<Shape>> = BTreeMap::new();
        whole.narrowed(state, |class| {
            let shape = known.entry(class.shape.id).or_insert_with(|| {
                let kinds = within(&labels, &class.cluster(), farthest);
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

/// The kinds of nodes by cluster.
fn labels(state: &ClusterState) -> BTreeMap<&ClusterPath, Vec<KindIx>> {
    let mut labels: BTreeMap<&ClusterPath, Vec<KindIx>> = BTreeMap::new();
    for (ix, kind) in state.cluster.kinds() {
        labels.entry(&kind.terms.cluster).or_default().push(ix);
    }
    labels
}

/// The kinds of nodes at most `farthest` away from a cluster.
fn within(
    labels: &BTreeMap<&ClusterPath, Vec<KindIx>>,
    cluster: &ClusterPath,
    farthest: usize,
) -> BTreeSet<KindIx> {
    let near = labels
        .iter()
        .filter(|(label, _)| distance(label, cluster) <= farthest);
    near.flat_map(|(_, kinds)| kinds.iter().copied()).collect()
}
