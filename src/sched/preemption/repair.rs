//! Jobs make way where a node has less than its jobs have (Y8, G1): for nobody, until it has enough again.

use super::eviction::Stage;
use super::victims::{self, Exposed};
use crate::model::preemption::{Action, Cause};
use crate::sched::cluster::NodeIx;
use crate::sched::ledger::Ledger;
use crate::sched::plan::Preemption;

/// Has those leave that came last, of each node with too little.
pub fn run<'s>(stage: &mut Stage<'s>, ledger: &mut Ledger<'s>) {
    let state = ledger.state;
    let short = state.cluster.buckets().filter(|(key, _)| key.free.iter().any(|free| *free < 0));
    let nodes: Vec<NodeIx> = short.flat_map(|(_, nodes)| nodes.iter().copied()).collect();
    if nodes.is_empty() {
        return;
    }
    let exposed = victims::exposed(state, ledger.policy(), ledger.now);
    for ix in nodes {
        relieve(ix, &exposed, stage, ledger);
    }
}

/// Nobody is asked to leave who takes nothing of what there is too little of.
fn relieve<'s>(ix: NodeIx, exposed: &[Exposed<'s>], stage: &mut Stage<'s>, ledger: &mut Ledger<'s>) {
    for one in exposed.iter().filter(|one| one.running.nodes.contains(&ix)) {
        let Some(missing) = stage.missing(ix) else { return };
        let hold = ledger.state.cluster.node(ix).tenants.get(&one.job);
        if !hold.is_some_and(|hold| missing.iter().any(|&index| hold.taken[index] > 0)) {
            continue;
        }
        // Whoever is only stopped keeps most of what it has.
        let action = one.actions(ledger.policy(), ledger.now).find(|action| *action != Action::Suspend);
        if let Some(action) = action.filter(|_| !ledger.is_preempted(one.job)) {
            stage.leaves(one.job, action);
            ledger.preempt([Preemption { job: one.job, by: None, cause: Cause::Overcommit, action }]);
        }
    }
}
