//! What everybody is owed, and has (Y1, Y20, Y21, Y26): the cluster is poured out down the tree of
//! pools to the operations, by the resource of which each wants the largest part.

use super::demand::{OperationDemand, PendingChanges, ResourceDemand, pool_of};
use super::groups::ROUNDING;
use super::time_below::StarvationStatus;
use crate::model::account::pool_terms::PoolMode;
use crate::model::account::starvation::{Cutoffs, Patience};
use crate::model::job_id::JobId;
use crate::model::limit::{Limit, LimitScope, LimitStage, Limits, Quantity, Selector};
use crate::model::policy::Policy;
use crate::model::resource::ResourceList;
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, Catalog, add, counted};
use crate::sched::share_tree::water_filling::{Demand, Drinker, MinAndMax, UNBOUNDED, pour};
use crate::sched::share_tree::{ClusterTotal, Tree};
use crate::sched::view::class::Class;
use crate::sched::view::operations::operation_of;
use crate::sched::view::shape::ClassId;
use crate::sched::view::snapshot::ClusterState;
use crate::sched::view::starvation::{
    FairSharePolicy, HeldShares, ShareParty, StarvationSubject, TimeBelow,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What somebody is owed, and has, as parts of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Entitled {
    /// The fair share.
    pub fair: f64,
    /// The usage share.
    pub used: f64,
}

/// How satisfied somebody is at most: who is owed nothing.
const MOST: f64 = 1e9;

impl Entitled {
    /// Whether it has less than it should, but for a tolerance (Y1).
    pub fn is_below(&self, tolerance: f64) -> bool {
        self.used < self.fair * tolerance - ROUNDING
    }

    /// What it has of what it is owed, as a part of that.
    pub fn satisfaction(&self) -> f64 {
        if self.fair > 0.0 {
            (self.used / self.fair).min(MOST)
        } else {
            MOST
        }
    }
}

impl HeldShares {
    /// Whether they still hold: nobody has come or gone, and nothing else has changed.
    fn holds(
        &self,
        demand: &ResourceDemand,
        policy: &Policy,
        whole: &ClusterTotal,
        now: Time,
    ) -> bool {
        let is_recent = now == self.at
            || (now > self.at && now.since(self.at) < policy.starvation.update_period);
        let is_same = self.whole == *whole
            && self.rule.fair_share == policy.fair_share
            && self.rule.limits == policy.limits;
        let numbers = demand
            .all
            .iter()
            .map(|operation| (operation.party, operation.number));
        is_recent
            && is_same
            && self
                .parties
                .iter()
                .map(|(party, number, _)| (*party, *number))
                .eq(numbers)
    }
}

/// Of somebody with a fair share of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperationShare {
    /// Who.
    pub party: ShareParty,
    /// What each of them is owed, and has.
    pub entitled: Entitled,
    /// Its pool, by place among [`FairShares::lines`].
    pub line: usize,
    /// Where it stands, if its pool is a line.
    place: Option<usize>,
}

/// A pool of somebody with a fair share of its own.
#[derive(Clone, Debug)]
pub struct PoolShare {
    /// With those above it behind it; of no pool an empty line.
    pub pools: Vec<String>,
    /// What holds in it.
    pub patience: Patience,
    /// The thresholds of its operations.
    pub cutoffs: Cutoffs,
    /// By resource: an operation with less of each is not preempted; empty for no such threshold.
    pub spared: Vec<(usize, i64)>,
    /// What those in it have, not those in pools below it.
    pub has: Amounts,
}

impl PoolShare {
    /// The pool; the empty name for none.
    pub fn pool(&self) -> &str {
        pool_of(&self.pools)
    }
}

/// What everybody is owed, and has.
#[derive(Clone, Debug)]
pub struct FairShares {
    /// By party.
    rows: Vec<OperationShare>,
    pools: BTreeMap<String, (Entitled, Patience, Cutoffs)>,
    /// The pools of all of them.
    pub lines: Vec<PoolShare>,
    /// All that there is.
    pub whole: ClusterTotal,
    /// As they were poured out.
    pub held: Arc<HeldShares>,
}

impl FairShares {
    /// Those of a state at a moment, of which some things are as good as happened.
    pub fn of(
        state: &ClusterState,
        policy: &Policy,
        ahead: &PendingChanges,
        now: Time,
    ) -> FairShares {
        FairShares::after(state.starvation.held.as_ref(), state, policy, ahead, now)
    }

    /// The same where they were poured out so before.
    pub(in crate::sched) fn after(
        before: Option<&Arc<HeldShares>>,
        state: &ClusterState,
        policy: &Policy,
        ahead: &PendingChanges,
        now: Time,
    ) -> FairShares {
        FairShares::among(
            before,
            state,
            state.classes.values().map(|class| &**class),
            policy,
            ahead,
            now,
        )
    }

    /// The same where these classes wait.
    pub(in crate::sched) fn among<'s>(
        before: Option<&Arc<HeldShares>>,
        state: &'s ClusterState,
        classes: impl Iterator<Item = &'s Class>,
        policy: &'s Policy,
        ahead: &PendingChanges,
        now: Time,
    ) -> FairShares {
        let demand = ResourceDemand::of(state, classes, &policy.fair_share, ahead, now);
        let whole = ClusterTotal::new(state.cluster.capacity());
        let held = before
            .filter(|held| held.holds(&demand, policy, &whole, now))
            .cloned();
        let held = held.unwrap_or_else(|| Arc::new(poured(&demand, state, policy, &whole, now)));
        debug_assert!(
            demand
                .all
                .is_sorted_by(|one, other| one.party < other.party)
        );
        // Both lists have the same parties, in the same order.
        let rows = demand.all.iter().zip(&held.parties);
        let rows = rows
            .map(|(operation, (_, _, fair))| OperationShare {
                party: operation.party,
                entitled: Entitled {
                    fair: *fair,
                    used: whole.part(&operation.has),
                },
                line: operation.line,
                place: operation.place,
            })
            .collect();
        let catalog = &state.cluster.catalog;
        let accounts = &policy.fair_share.accounts;
        let had = demand.by_line(&catalog.nothing(), |operation| &operation.has);
        let mut pools = BTreeMap::new();
        for (pool, used) in by_pool(&demand, &had) {
            let entitled = Entitled {
                fair: held.pools.get(&pool).copied().unwrap_or(0.0),
                used: whole.part(&used),
            };
            let terms = policy.starvation.terms_of(&pool, accounts);
            pools.insert(pool, (entitled, terms.patience, terms.cutoffs));
        }
        let mut lines = Vec::new();
        for (line, has) in demand.lines.into_iter().zip(had) {
            let terms = policy.starvation.terms_of(pool_of(&line.pools), accounts);
            let spared = amounts_of(terms.non_preemptible, catalog);
            let spared = spared.iter().copied().enumerate();
            lines.push(PoolShare {
                pools: line.pools,
                patience: terms.patience,
                cutoffs: terms.cutoffs,
                spared: spared.filter(|(_, amount)| *amount > 0).collect(),
                has,
            });
        }
        FairShares {
            rows,
            pools,
            lines,
            whole,
            held,
        }
    }

    /// Under which a job has its fair share; None for one that wants nothing.
    pub fn party(&self, job: JobId, class: Option<ClassId>) -> Option<ShareParty> {
        let parties = [
            Some(ShareParty::Operation(operation_of(job))),
            class.map(ShareParty::Alike),
        ];
        parties
            .into_iter()
            .flatten()
            .find(|party| self.row(*party).is_some())
    }

    /// What is known of somebody.
    pub fn row(&self, party: ShareParty) -> Option<&OperationShare> {
        self.rows
            .binary_search_by_key(&party, |row| row.party)
            .ok()
            .map(|place| &self.rows[place])
    }

    /// What somebody is owed, and has.
    pub fn entitled(&self, party: ShareParty) -> Option<Entitled> {
        Some(self.row(party)?.entitled)
    }

    /// All that have a fair share of their own, with how many alike each are.
    pub fn rows(&self) -> impl Iterator<Item = (ShareParty, u64)> {
        self.held
            .parties
            .iter()
            .map(|(party, number, _)| (*party, *number))
    }

    /// Its position among the operations of its pool, the lowest first: its satisfaction (Y22), or
    /// its place in a pool that is a line (Y23).
    pub fn turn(&self, party: ShareParty) -> f64 {
        let Some(row) = self.row(party) else {
            return MOST;
        };
        row.place
            .map_or(row.entitled.satisfaction(), |place| place as f64)
    }

    /// What a pool is owed; None for one of which nothing is known.
    pub fn fair(&self, pool: &str) -> Option<f64> {
        self.held.pools.get(pool).copied()
    }

    /// What a pool is owed, and has.
    pub fn of_pool(&self, pool: &str) -> Option<Entitled> {
        Some(self.pools.get(pool)?.0)
    }

    /// The pools, by name.
    pub fn pools(&self) -> impl Iterator<Item = (&str, Entitled)> {
        self.pools
            .iter()
            .map(|(name, (entitled, ..))| (name.as_str(), *entitled))
    }

    /// Its pool, and those above it.
    pub fn line(&self, party: ShareParty) -> &[String] {
        self.row(party)
            .map_or(&[], |row| &self.lines[row.line].pools)
    }

    /// What holds for somebody.
    pub fn patience(&self, party: ShareParty) -> Patience {
        self.row(party)
            .map_or(Patience::default(), |row| self.lines[row.line].patience)
    }

    /// What holds for whom.
    pub fn patience_of(&self, subject: &StarvationSubject) -> Patience {
        match subject {
            StarvationSubject::Party(party) => self.patience(*party),
            StarvationSubject::Pool(pool) => self
                .pools
                .get(pool)
                .map_or(Patience::default(), |(_, patience, _)| *patience),
        }
    }

    /// The thresholds of an operation or a pool; None for one of which nothing is known.
    pub fn cutoffs_of(&self, subject: &StarvationSubject) -> Option<Cutoffs> {
        match subject {
            StarvationSubject::Party(party) => Some(self.lines[self.row(*party)?.line].cutoffs),
            StarvationSubject::Pool(pool) => Some(self.pools.get(pool)?.2),
        }
    }

    /// All that have less than they should, pools included (Y1).
    pub fn below(&self) -> impl Iterator<Item = StarvationSubject> + '_ {
        let rows = self.rows.iter().filter(|row| {
            row.entitled
                .is_below(self.lines[row.line].patience.tolerance)
        });
        let pools = self
            .pools
            .iter()
            .filter(|(_, (entitled, patience, _))| entitled.is_below(patience.tolerance));
        let parties = rows.map(|row| StarvationSubject::Party(row.party));
        parties.chain(pools.map(|(name, _)| StarvationSubject::Pool(name.clone())))
    }

    /// What having less has made of somebody.
    pub fn starvation(
        &self,
        subject: &StarvationSubject,
        time_below: &TimeBelow,
        now: Time,
    ) -> StarvationStatus {
        StarvationStatus::of(time_below.since(subject), &self.patience_of(subject), now)
    }
}

/// What those in each pool come to together, with all below it, of what those of each line do.
fn by_pool(demand: &ResourceDemand, by_line: &[Amounts]) -> BTreeMap<String, Amounts> {
    let mut sums: BTreeMap<String, Amounts> = BTreeMap::new();
    for (line, amounts) in demand.lines.iter().zip(by_line) {
        for pool in &line.pools {
            match sums.get_mut(pool) {
                Some(sum) => add(sum, amounts),
                None => drop(sums.insert(pool.clone(), amounts.clone())),
            }
        }
    }
    sums
}

/// Pours the cluster out.
fn poured(
    demand: &ResourceDemand,
    state: &ClusterState,
    policy: &Policy,
    whole: &ClusterTotal,
    now: Time,
) -> HeldShares {
    let tree = Tree::of(&policy.fair_share.accounts);
    let mut order: Vec<&OperationDemand> = demand.all.iter().collect();
    order.sort_by_key(|operation| operation.place);
    let drinkers: Vec<Drinker> = order
        .iter()
        .map(|operation| Drinker {
            pool: operation.line,
            demand: Demand::wanting(whole.part(&operation.wants)).times(operation.number),
        })
        .collect();
    let pools: Vec<&str> = demand
        .lines
        .iter()
        .map(|line| pool_of(&line.pools))
        .collect();
    let bounds = bounds(demand, state, policy, whole);
    let in_line: BTreeSet<&str> = policy
        .fair_share
        .accounts
        .iter()
        .filter(|account| account.pool.mode == PoolMode::Fifo)
        .map(|account| account.name.as_str())
        .collect();
    let poured = pour(
        &tree,
        (&pools, &drinkers),
        |pool| bounds.get(pool).copied().unwrap_or(UNBOUNDED),
        |pool| in_line.contains(pool),
    );
    let mut parties: Vec<(ShareParty, u64, f64)> = order
        .into_iter()
        .zip(poured.drinkers)
        .map(|(operation, part)| {
            (
                operation.party,
                operation.number,
                part / operation.number as f64,
            )
        })
        .collect();
    parties.sort_by_key(|(party, ..)| *party);
    let rule = FairSharePolicy {
        fair_share: policy.fair_share.clone(),
        limits: policy.limits.clone(),
    };
    let rule = match &state.starvation.held {
        Some(held) if *held.rule == rule => held.rule.clone(),
        _ => Arc::new(rule),
    };
    HeldShares {
        at: now,
        rule,
        whole: whole.clone(),
        parties,
        pools: poured.pools,
    }
}

/// What is guaranteed to pools, and how much they may have, where somebody said so.
fn bounds(
    demand: &ResourceDemand,
    state: &ClusterState,
    policy: &Policy,
    whole: &ClusterTotal,
) -> BTreeMap<String, MinAndMax> {
    let catalog = &state.cluster.catalog;
    let mut bounds: BTreeMap<String, MinAndMax> = BTreeMap::new();
    for account in &policy.fair_share.accounts {
        let least = whole.part(&amounts_of(&account.pool.guarantee, catalog));
        let most = account.pool.max_share.unwrap_or(1.0);
        bounds.insert(account.name.clone(), (least, most));
    }
    if limits_of_pools(&policy.limits).next().is_some() {
        for (pool, wanted) in by_pool(
            demand,
            &demand.by_line(&catalog.nothing(), |operation| &operation.wants),
        ) {
            let cap = cap(&pool, &wanted, &policy.limits, catalog) * whole.part(&wanted);
            let (_, most) = bounds.entry(pool).or_insert(UNBOUNDED);
            *most = most.min(cap);
        }
    }
    bounds
}

/// Whether a limit is one on pools.
pub fn is_of_pools(scope: &LimitScope) -> bool {
    scope.account != Selector::All
        && LimitScope {
            account: Selector::All,
            ..scope.clone()
        } == LimitScope::default()
}

/// The part of its demand that a pool may have under the limits on what it runs: the smallest part
/// that any of them allows.
fn cap(pool: &str, wanted: &[i64], limits: &Limits, catalog: &Catalog) -> f64 {
    let mut cap = 1.0_f64;
    for limit in limits_of_pools(limits) {
        let applies = match &limit.scope.account {
            Selector::Named(name) => name == pool,
            Selector::Each => !is_replaced(limit, pool, limits),
            Selector::All => false,
        };
        let (true, Quantity::Resource(name), Some(hard)) = (applies, &limit.quantity, limit.hard)
        else {
            continue;
        };
        if let Some(index) = catalog.index(name)
            && wanted[index] > 0
        {
            cap = cap.min(hard as f64 / wanted[index] as f64);
        }
    }
    cap
}

/// The limits on what pools run.
fn limits_of_pools(limits: &Limits) -> impl Iterator<Item = &Limit> {
    limits
        .all
        .iter()
        .filter(|limit| limit.stage == LimitStage::Running && is_of_pools(&limit.scope))
}

/// Whether a limit for this pool replaces a generic limit on each pool.
fn is_replaced(generic: &Limit, pool: &str, limits: &Limits) -> bool {
    limits_of_pools(limits).any(|limit| {
        matches!(&limit.scope.account, Selector::Named(name) if name == pool)
            && limit.quantity == generic.quantity
            && limit.hard.is_some()
    })
}

/// Resources as they are counted.
pub fn amounts_of(list: &ResourceList, catalog: &Catalog) -> Amounts {
    let mut amounts = catalog.nothing();
    for (name, value) in list {
        if let Some((index, amount)) = catalog.index(name).zip(counted(value)) {
            amounts[index] = amount;
        }
    }
    amounts
}
