//! How well pools are served (YTsaurus): each has a fair share of the cluster, found by pouring it out
//! among those that want some, and is satisfied by what its jobs have of that.

use super::amounts::{Amounts, add, multiple};
use super::class::{Class, Waiting};
use super::shape::ClassKey;
use super::shares::Tree;
use super::shares::pouring::pour;
use super::snapshot::State;
use crate::model::member::Member;
use crate::model::policy::FairShare;
use std::collections::BTreeMap;

/// How satisfied a pool can be: that of one that is owed nothing.
const MOST: f64 = 1e9;

/// The pools, as jobs are dealt their turns.
pub struct PoolTurns {
    tree: Tree,
    capacity: Amounts,
    /// By pool: what it has and was dealt so far.
    served: BTreeMap<String, Amounts>,
    /// By pool: its fair share, of 1.
    fair: BTreeMap<String, f64>,
}

impl PoolTurns {
    /// As they stand, with what runs and what waits.
    pub fn new<'c>(state: &State, policy: &FairShare, classes: impl Iterator<Item = &'c Class>) -> PoolTurns {
        let capacity: Amounts = state.cluster.capacity().into();
        let (tree, served, fair) = (Tree::of(&policy.accounts), BTreeMap::new(), BTreeMap::new());
        let mut pools = PoolTurns { tree, capacity, served, fair };
        let nothing = || state.cluster.catalog.nothing();
        for (job, running) in &state.running {
            let Some(charge) = state.usage().open(*job) else { continue };
            let pool = pools.tree.named(&charge.member).account;
            add(pools.served.entry(pool).or_insert_with(nothing), &running.taken);
        }
        let mut wanted: BTreeMap<String, Amounts> = pools.served.clone();
        for class in classes {
            let wanted = wanted.entry(pools.pool_of(&class.key)).or_insert_with(nothing);
            let jobs = class.jobs().map(|(_, waiting)| waiting.count()).sum();
            add(wanted, &multiple(&class.key.shape.total, jobs));
        }
        let demands: BTreeMap<Member, f64> =
            wanted.iter().map(|(pool, wanted)| (Member::new(pool, ""), pools.dominant(wanted))).collect();
        pools.fair = pour(&pools.tree, &demands);
        for pool in wanted.into_keys() {
            pools.served.entry(pool).or_insert_with(nothing);
        }
        pools
    }

    /// The pool of a class's jobs.
    pub fn pool_of(&self, class: &ClassKey) -> String {
        self.tree.member(&class.who.user, class.who.account.as_deref()).account
    }

    /// The largest part of any resource.
    fn dominant(&self, amounts: &[i64]) -> f64 {
        let part = |(amount, all): (&i64, &i64)| *amount as f64 / (*all).max(1) as f64;
        amounts.iter().zip(&*self.capacity).map(part).fold(0.0, f64::max)
    }

    /// How far a pool has come to its fair share before a job of a class is served too, an array with all its
    /// elements.
    pub fn serve(&mut self, pool: &str, class: &ClassKey, job: &Waiting) -> f64 {
        let Some(served) = self.served.get(pool) else { return MOST };
        let satisfaction = match self.fair.get(pool) {
            Some(&fair) if fair > 0.0 => (self.dominant(served) / fair).min(MOST),
            // Who is owed nothing has had enough as it is (F10).
            _ => MOST,
        };
        let taken = multiple(&class.shape.total, job.count());
        self.served.get_mut(pool).into_iter().for_each(|served| add(served, &taken));
        satisfaction
    }
}
