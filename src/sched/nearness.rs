//! Jobs go first where they belong (Q5, Q17): in one pass after the other they may use nodes farther away
//! from their clusters, so that no node takes a job while one that is nearer, or as near and better, fits
//! there. That is each host taking its best (X20), with the walk of all other orders.

use super::cluster::KindIx;
use super::cycle;
use super::ledger::Ledger;
use super::priority::Ranking;
use super::resolution::Resolved;
use super::shape::{ClassKey, Shape};
use super::snapshot::State;
use crate::model::cluster_path::{ClusterPath, distance};
use crate::model::policy::{Order, Policy};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the policy makes of requests in each pass but the last, which takes jobs anywhere. None unless the
/// order goes by clusters.
pub fn passes(state: &State, policy: &Policy, whole: &Resolved) -> Vec<Resolved> {
    if policy.precedence.order != Order::Cluster {
        return Vec::new();
    }
    let labels = labels(state);
    let clusters: BTreeSet<ClusterPath> = state.classes.values().map(|class| cluster_of(&class.key)).collect();
    let apart = |cluster: &ClusterPath| labels.keys().map(|label| distance(label, cluster)).collect::<Vec<_>>();
    let mut distances: BTreeSet<usize> = clusters.iter().flat_map(apart).collect();
    distances.pop_last();
    let near = |farthest: usize| {
        let labels = &labels;
        move |class: &ClassKey| {
            let shape = Shape::clone(&class.shape).on(within(labels, &cluster_of(class), farthest));
            ClassKey { shape: Arc::new(shape.renamed(&("near", farthest))), ..class.clone() }
        }
    };
    distances.into_iter().map(|farthest| whole.narrowed(state, near(farthest))).collect()
}

/// Starts what fits in a pass; of what does not nothing is said yet.
pub fn start_near<'s>(mut ranking: Ranking<'s>, ledger: &mut Ledger<'s>) {
    while let Some(job) = ranking.next() {
        if ledger.has_started(job.job) {
            ranking.follow(job);
            continue;
        }
        ledger.consider();
        match cycle::place(job, ledger) {
            Ok((start, claim)) => {
                ledger.start(job, start, claim);
                ranking.follow(job);
            }
            Err(_) => ranking.pass(job),
        }
    }
    ledger.begin_again();
}

/// The kinds of nodes by cluster.
fn labels(state: &State) -> BTreeMap<&ClusterPath, Vec<KindIx>> {
    let mut labels: BTreeMap<&ClusterPath, Vec<KindIx>> = BTreeMap::new();
    for (ix, kind) in state.cluster.kinds() {
        labels.entry(&kind.terms.cluster).or_default().push(ix);
    }
    labels
}

fn within(labels: &BTreeMap<&ClusterPath, Vec<KindIx>>, cluster: &ClusterPath, farthest: usize) -> BTreeSet<KindIx> {
    let near = labels.iter().filter(|(label, _)| distance(label, cluster) <= farthest);
    near.flat_map(|(_, kinds)| kinds.iter().copied()).collect()
}

/// Where the jobs of a class stand in the tree of clusters.
fn cluster_of(class: &ClassKey) -> ClusterPath {
    class.shape.screen.as_ref().map_or_else(ClusterPath::root, |screen| screen.cluster.clone())
}
