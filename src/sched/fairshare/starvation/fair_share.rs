//! The fair share and the usage of all parties (Y1, Y20, Y21, Y26). A *party* is an operation (a
//! job, or an array with all its subjobs), or each job of a group of similar waiting jobs. The
//! cluster is divided down the tree of pools (accounts) to the parties. Each party is measured by
//! its dominant resource, the one of which it requests the largest part of the cluster. A *line* is
//! a pool followed by the pools above it.

use super::demand::{OperationDemand, PendingChanges, ResourceDemand, pool_of};
use super::groups::ROUNDING;
use super::time_below::StarvationStatus;
use crate::model::account::pool_terms::PoolMode;
use crate::model::account::starvation::{PreemptionThresholds, StarvationConditions};
use crate::model::job_id::JobId;
use crate::model::limit::{Limit, LimitScope, LimitStage, Limits, Quantity, Selector};
use crate::model::policy::Policy;
use crate::model::resource::ResourceList;
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, Catalog, add, counted};
use crate::sched::share_tree::water_filling::{Demand, MinAndMax, PoolClaim, UNBOUNDED, divide};
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

/// The fair share and the usage of a party or pool, as fractions of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Entitled {
    /// The fair share.
    pub fair: f64,
    /// The usage.
    pub used: f64,
}

/// The maximum satisfaction (usage divided by fair share). A party or pool with a fair share of 0
/// also has this satisfaction.
const MOST: f64 = 1e9;

impl Entitled {
    /// Whether the usage is less than the fair share multiplied by the tolerance (Y1).
    pub fn is_below(&self, tolerance: f64) -> bool {
        self.used < self.fair * tolerance - ROUNDING
    }

    /// The usage divided by the fair share, at most 1e9. With a fair share of 0, it is 1e9.
    pub fn satisfaction(&self) -> f64 {
        if self.fair > 0.0 {
            (self.used / self.fair).min(MOST)
        } else {
            MOST
        }
    }
}

impl HeldShares {
    /// Whether the fair shares are still valid: the update period has not ended, and the parties,
    /// the total resources, and the settings for fair share and limits have not changed.
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

/// The fair share of one party.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperationShare {
    /// The party.
    pub party: ShareParty,
    /// The fair share and the usage of the operation, or of each similar job.
    pub entitled: Entitled,
    /// The pool with the pools above it, as an index into [`FairShares::lines`].
    pub line: usize,
    /// In a FIFO pool, the position of the operation. The operations of all FIFO pools are numbered
    /// together: pool by pool, in the order of each pool. None if the pool is not FIFO.
    place: Option<usize>,
}

/// A line: a pool with the pools above it, and the settings for the operations of the pool.
#[derive(Clone, Debug)]
pub struct PoolShare {
    /// The pool and the pools above it; empty for operations without account.
    pub pools: Vec<String>,
    /// The tolerance and the timeouts of starvation.
    pub patience: StarvationConditions,
    /// The preemption thresholds of the operations.
    pub cutoffs: PreemptionThresholds,
    /// Thresholds: (resource index, amount). An operation that uses less than the amount of each of
    /// these resources is not preempted. Empty for no such thresholds.
    pub spared: Vec<(usize, i64)>,
    /// The usage of the operations of the pool, without the pools below it.
    pub has: Amounts,
}

impl PoolShare {
    /// The name of the pool; empty for operations without account.
    pub fn pool(&self) -> &str {
        pool_of(&self.pools)
    }
}

/// The fair share and the usage of all parties.
#[derive(Clone, Debug)]
pub struct FairShares {
    /// The fair shares of all parties, sorted by party.
    rows: Vec<OperationShare>,
    pools: BTreeMap<String, (Entitled, StarvationConditions, PreemptionThresholds)>,
    /// The pools of the parties, each with the pools above it.
    pub lines: Vec<PoolShare>,
    /// The total resources of the cluster.
    pub whole: ClusterTotal,
    /// The computed fair shares, for reuse by later cycles.
    pub held: Arc<HeldShares>,
}

impl FairShares {
    /// The fair shares of a state at `now`, after the changes `ahead`. Reuses the fair shares of
    /// the last cycle if they are still valid.
    pub fn of(
        state: &ClusterState,
        policy: &Policy,
        ahead: &PendingChanges,
        now: Time,
    ) -> FairShares {
        FairShares::after(state.starvation.held.as_ref(), state, policy, ahead, now)
    }

    /// The fair shares of a state at `now`, after the changes `ahead`. Reuses the fair shares
    /// `before` if they are still valid.
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

    /// The fair shares if only these waiting classes have a demand, in addition to running jobs.
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
        let held =
            held.unwrap_or_else(|| Arc::new(divide_cluster(&demand, state, policy, &whole, now)));
        debug_assert!(
            demand
                .all
                .is_sorted_by(|one, other| one.party < other.party)
        );
        // `demand.all` and `held.parties` have the same parties, in the same order.
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
        let used_by_line = demand.by_line(&catalog.nothing(), |operation| &operation.has);
        let mut pools = BTreeMap::new();
        for (pool, used) in by_pool(&demand, &used_by_line) {
            let entitled = Entitled {
                fair: held.pools.get(&pool).copied().unwrap_or(0.0),
                used: whole.part(&used),
            };
            let terms = policy.starvation.terms_of(&pool, accounts);
            pools.insert(pool, (entitled, terms.patience, terms.cutoffs));
        }
        let mut lines = Vec::new();
        for (line, has) in demand.lines.into_iter().zip(used_by_line) {
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

    /// The party of a job (of class `class` if the job waits); None if the job has no demand.
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

    /// The row of a party; None if the party has no demand.
    pub fn row(&self, party: ShareParty) -> Option<&OperationShare> {
        self.rows
            .binary_search_by_key(&party, |row| row.party)
            .ok()
            .map(|place| &self.rows[place])
    }

    /// The fair share and the usage of a party; None if the party has no demand.
    pub fn entitled(&self, party: ShareParty) -> Option<Entitled> {
        Some(self.row(party)?.entitled)
    }

    /// All parties, each with the number of similar jobs (1 for an operation).
    pub fn rows(&self) -> impl Iterator<Item = (ShareParty, u64)> {
        self.held
            .parties
            .iter()
            .map(|(party, number, _)| (*party, *number))
    }

    /// The sort key of a party in its pool, lowest first: the satisfaction of the party (Y22) or,
    /// in a FIFO pool, its position (Y23). A party without demand has the maximum satisfaction.
    pub fn turn(&self, party: ShareParty) -> f64 {
        let Some(row) = self.row(party) else {
            return MOST;
        };
        row.place
            .map_or(row.entitled.satisfaction(), |place| place as f64)
    }

    /// The fair share of a pool; None if the pool is unknown.
    pub fn fair(&self, pool: &str) -> Option<f64> {
        self.held.pools.get(pool).copied()
    }

    /// The fair share and the usage of a pool; None if no party is in the pool.
    pub fn of_pool(&self, pool: &str) -> Option<Entitled> {
        Some(self.pools.get(pool)?.0)
    }

    /// The pools with parties, by name, each with its fair share and its usage.
    pub fn pools(&self) -> impl Iterator<Item = (&str, Entitled)> {
        self.pools
            .iter()
            .map(|(name, (entitled, ..))| (name.as_str(), *entitled))
    }

    /// The pool of a party, followed by the pools above it. Empty for a party without demand, and
    /// for operations without account.
    pub fn line(&self, party: ShareParty) -> &[String] {
        self.row(party)
            .map_or(&[], |row| &self.lines[row.line].pools)
    }

    /// The tolerance and the timeouts of a party; the defaults for a party without demand.
    pub fn patience(&self, party: ShareParty) -> StarvationConditions {
        self.row(party)
            .map_or(StarvationConditions::default(), |row| {
                self.lines[row.line].patience
            })
    }

    /// The tolerance and the timeouts of a party or pool; the defaults if it has no demand.
    pub fn patience_of(&self, subject: &StarvationSubject) -> StarvationConditions {
        match subject {
            StarvationSubject::Party(party) => self.patience(*party),
            StarvationSubject::Pool(pool) => self
                .pools
                .get(pool)
                .map_or(StarvationConditions::default(), |(_, patience, _)| {
                    *patience
                }),
        }
    }

    /// The preemption thresholds of a party or pool; None if the party or pool is unknown.
    pub fn cutoffs_of(&self, subject: &StarvationSubject) -> Option<PreemptionThresholds> {
        match subject {
            StarvationSubject::Party(party) => Some(self.lines[self.row(*party)?.line].cutoffs),
            StarvationSubject::Pool(pool) => Some(self.pools.get(pool)?.2),
        }
    }

    /// All parties and pools below their fair share (Y1).
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

    /// The starvation status of a party or pool.
    pub fn starvation(
        &self,
        subject: &StarvationSubject,
        time_below: &TimeBelow,
        now: Time,
    ) -> StarvationStatus {
        StarvationStatus::of(time_below.since(subject), &self.patience_of(subject), now)
    }
}

/// The sums of each pool, including all pools below it, from the sums of each line.
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

/// Divides the cluster among the pools, and the part of each pool among its operations.
fn divide_cluster(
    demand: &ResourceDemand,
    state: &ClusterState,
    policy: &Policy,
    whole: &ClusterTotal,
    now: Time,
) -> HeldShares {
    let tree = Tree::of(&policy.fair_share.accounts);
    let mut order: Vec<&OperationDemand> = demand.all.iter().collect();
    order.sort_by_key(|operation| operation.place);
    let claims: Vec<PoolClaim> = order
        .iter()
        .map(|operation| PoolClaim {
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
    let fifo_pools: BTreeSet<&str> = policy
        .fair_share
        .accounts
        .iter()
        .filter(|account| account.pool.mode == PoolMode::Fifo)
        .map(|account| account.name.as_str())
        .collect();
    let division = divide(
        &tree,
        (&pools, &claims),
        |pool| bounds.get(pool).copied().unwrap_or(UNBOUNDED),
        |pool| fifo_pools.contains(pool),
    );
    let mut parties: Vec<(ShareParty, u64, f64)> = order
        .into_iter()
        .zip(division.claims)
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
        pools: division.pools,
    }
}

/// The guaranteed and the maximum fraction of the cluster for each pool.
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

/// Whether the scope of a limit is a pool or each pool, without further conditions.
pub fn is_of_pools(scope: &LimitScope) -> bool {
    scope.account != Selector::All
        && LimitScope {
            account: Selector::All,
            ..scope.clone()
        } == LimitScope::default()
}

/// The fraction of its demand that a pool may use under the strictest hard limit on a resource of
/// its running jobs; 1 without such limits.
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

/// The limits on running jobs that apply to a pool or to each pool.
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

/// The amounts of the resources in a list, by resource index.
pub fn amounts_of(list: &ResourceList, catalog: &Catalog) -> Amounts {
    let mut amounts = catalog.nothing();
    for (name, value) in list {
        if let Some((index, amount)) = catalog.index(name).zip(counted(value)) {
            amounts[index] = amount;
        }
    }
    amounts
}
