//! The satisfaction of pools (accounts, in the sense of YTsaurus) and of operations (jobs, or
//! arrays with all their subjobs): the usage divided by the fair share (Y22).

use crate::model::job_id::JobId;
use crate::model::policy::Policy;
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, add, multiple};
use crate::sched::fairshare::starvation::{FairShares, PendingChanges};
use crate::sched::share_tree::Tree;
use crate::sched::view::class::{Class, WaitingJob};
use crate::sched::view::shape::ClassKey;
use crate::sched::view::snapshot::ClusterState;
use std::collections::BTreeMap;

/// The maximum satisfaction. A pool with a fair share of 0 also has this satisfaction.
const MOST: f64 = 1e9;

/// The pools, as needed to select the pool that has the next turn. At each turn, one waiting job of
/// a pool comes next in the order of the jobs.
pub struct PoolTurns {
    tree: Tree,
    /// For each pool, without the pools below it: its usage plus the requests of its jobs that have
    /// had their turn.
    served: BTreeMap<String, Amounts>,
    shares: FairShares,
}

impl PoolTurns {
    /// The pools with their current usage, before the first turn.
    pub fn new<'c>(
        state: &'c ClusterState,
        policy: &'c Policy,
        classes: impl Iterator<Item = &'c Class> + Clone,
        now: Time,
    ) -> PoolTurns {
        let shares = FairShares::among(
            state.starvation.held.as_ref(),
            state,
            classes.clone(),
            policy,
            &PendingChanges::default(),
            now,
        );
        let tree = Tree::of(&policy.fair_share.accounts);
        let mut pools = PoolTurns {
            tree,
            served: BTreeMap::new(),
            shares,
        };
        let nothing = || state.cluster.catalog.nothing();
        for share in &pools.shares.lines {
            add(
                pools
                    .served
                    .entry(share.pool().to_string())
                    .or_insert_with(nothing),
                &share.has,
            );
        }
        for class in classes {
            pools
                .served
                .entry(pools.pool_of(&class.key))
                .or_insert_with(nothing);
        }
        pools
    }

    /// The sort key of the operation of a waiting job within its pool, lowest first. In a FIFO pool
    /// this is the position of the operation (Y23), otherwise its satisfaction (Y22). An unknown
    /// operation has the maximum satisfaction.
    pub fn key_in_pool(&self, job: JobId, class: &ClassKey) -> f64 {
        self.shares
            .party(job, Some(class.id))
            .map_or(MOST, |party| self.shares.turn(party))
    }

    /// The pool of the jobs of a class (a set of interchangeable jobs).
    pub fn pool_of(&self, class: &ClassKey) -> String {
        self.tree
            .member(&class.who.user, class.who.account.as_deref())
            .account
    }

    /// Returns the satisfaction of a pool before the turn of a job. Also adds the request of the
    /// job to the usage of the pool, for an array the requests of all its waiting subjobs.
    pub fn serve(&mut self, pool: &str, class: &ClassKey, job: &WaitingJob) -> f64 {
        let Some(served) = self.served.get(pool) else {
            return MOST;
        };
        let satisfaction = match self.shares.fair(pool) {
            Some(fair) if fair > 0.0 => (self.shares.whole.part(served) / fair).min(MOST),
            // A pool without a fair share comes last (F10).
            _ => MOST,
        };
        let taken = multiple(&class.shape.total, job.count());
        if let Some(served) = self.served.get_mut(pool) {
            add(served, &taken);
        }
        satisfaction
    }
}
