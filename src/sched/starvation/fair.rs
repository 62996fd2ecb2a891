//! What everybody is owed, and has (Y1, Y20, Y21, Y26): the cluster is poured out down the tree of pools to the
//! operations, by the resource of which each wants the largest part.

use super::fasting::{Fasting, Hunger, Subject};
use super::groups::ROUNDING;
use super::operations::operation_of;
use super::wishes::{Ahead, Wish, Wishes, pool_of};
use crate::model::job::JobId;
use crate::model::limit::{Limits, Quantity, Scope, Selector, Stage};
use crate::model::policy::pool::Mode;
use crate::model::policy::starvation::Patience;
use crate::model::policy::{FairShare, Policy};
use crate::model::resource::ResourceList;
use crate::model::time::Time;
use crate::sched::amounts::{Amounts, Catalog, add, counted, multiple};
use crate::sched::class::Class;
use crate::sched::shape::ClassId;
use crate::sched::shares::pouring::{Bounds, Claim, Drinker, Poured, UNBOUNDED, pour};
use crate::sched::shares::{Tree, Whole};
use crate::sched::snapshot::State;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Who has a fair share of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// An operation.
    Operation(JobId),
    /// Each of the jobs of a class that wait, none of them an array.
    Alike(ClassId),
}

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
        if self.fair > 0.0 { (self.used / self.fair).min(MOST) } else { MOST }
    }
}

/// What follows from what everybody wants, and from the policy.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    fair_share: FairShare,
    limits: Limits,
}

/// Fair shares as they were poured out, to be held still for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    at: Time,
    rule: Arc<Rule>,
    whole: Whole,
    /// How many alike there are, and what each is owed.
    parties: BTreeMap<Party, (u64, f64)>,
    pools: BTreeMap<String, f64>,
}

impl Held {
    /// Whether they still hold: nobody has come or gone, and nothing else has changed.
    fn holds(&self, wishes: &Wishes, policy: &Policy, whole: &Whole, now: Time) -> bool {
        let is_recent = now == self.at || (now > self.at && now.since(self.at) < policy.starvation.update_period);
        let is_same = self.whole == *whole
            && self.rule.fair_share == policy.fair_share
            && self.rule.limits == policy.limits
            && self.parties.len() == wishes.all.len();
        let is_there = |wish: &Wish| self.parties.get(&wish.party).is_some_and(|(number, _)| *number == wish.number);
        is_recent && is_same && wishes.all.iter().all(is_there)
    }
}

/// Of somebody with a fair share of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    entitled: Entitled,
    line: usize,
    /// Where it stands, if its pool is a line.
    place: Option<usize>,
}

/// What everybody is owed, and has.
#[derive(Clone, Debug)]
pub struct FairShares {
    parties: BTreeMap<Party, Row>,
    pools: BTreeMap<String, Entitled>,
    lines: Vec<Vec<String>>,
    /// What holds in the pool of each line.
    patience: Vec<Patience>,
    of_pools: BTreeMap<String, Patience>,
    /// All that there is.
    pub whole: Whole,
    /// As they were poured out.
    pub held: Arc<Held>,
}

impl FairShares {
    /// Those of a state at a moment, of which some things are as good as happened.
    pub fn of(state: &State, policy: &Policy, ahead: &Ahead, now: Time) -> FairShares {
        FairShares::after(state.starvation.held.as_ref(), state, policy, ahead, now)
    }

    /// The same where they were poured out so before.
    pub(in crate::sched) fn after(
        before: Option<&Arc<Held>>,
        state: &State,
        policy: &Policy,
        ahead: &Ahead,
        now: Time,
    ) -> FairShares {
        FairShares::among(before, state, state.classes.values().map(|class| &**class), policy, ahead, now)
    }

    /// The same where these classes wait.
    pub(in crate::sched) fn among<'s>(
        before: Option<&Arc<Held>>,
        state: &'s State,
        classes: impl Iterator<Item = &'s Class>,
        policy: &'s Policy,
        ahead: &Ahead,
        now: Time,
    ) -> FairShares {
        let wishes = Wishes::of(state, classes, &policy.fair_share, ahead, now);
        let whole = Whole::new(state.cluster.capacity());
        let held = before.filter(|held| held.holds(&wishes, policy, &whole, now)).cloned();
        let held = held.unwrap_or_else(|| Arc::new(poured(&wishes, state, policy, &whole, now)));
        let used = used(&wishes, &state.cluster.catalog);
        let of = |fair: &BTreeMap<String, f64>, pool: &String| fair.get(pool).copied().unwrap_or(0.0);
        let pools = used
            .iter()
            .map(|(pool, used)| (pool.clone(), Entitled { fair: of(&held.pools, pool), used: whole.part(used) }));
        let row = |(place, wish): (usize, &Wish)| {
            let place = Some(place).filter(|_| wishes.is_in_line(wish));
            let fair = held.parties.get(&wish.party).map_or(0.0, |(_, fair)| *fair);
            (wish.party, Row { entitled: Entitled { fair, used: whole.part(&wish.has) }, line: wish.line, place })
        };
        let patience = |pool: &str| policy.starvation.patience_of(pool, &policy.fair_share.accounts);
        FairShares {
            parties: wishes.all.iter().enumerate().map(row).collect(),
            of_pools: used.keys().map(|pool| (pool.clone(), patience(pool))).collect(),
            pools: pools.collect(),
            patience: wishes.lines.iter().map(|line| patience(pool_of(line))).collect(),
            lines: wishes.lines,
            whole,
            held,
        }
    }

    /// Under which a job has its fair share; None for one that wants nothing.
    pub fn party(&self, job: JobId, class: Option<ClassId>) -> Option<Party> {
        let parties = [Some(Party::Operation(operation_of(job))), class.map(Party::Alike)];
        parties.into_iter().flatten().find(|party| self.parties.contains_key(party))
    }

    /// What somebody is owed, and has.
    pub fn entitled(&self, party: Party) -> Option<Entitled> {
        Some(self.parties.get(&party)?.entitled)
    }

    /// All that have a fair share of their own, with how many alike each are.
    pub fn rows(&self) -> impl Iterator<Item = (Party, u64)> {
        let number = |party: &Party| self.held.parties.get(party).map_or(1, |(number, _)| *number);
        self.parties.keys().map(move |party| (*party, number(party)))
    }

    /// Its place among the operations of its pool, the lowest first: its satisfaction (Y22), or where it stands in
    /// line (Y23).
    pub fn turn(&self, party: Party) -> f64 {
        let of = |row: &Row| row.place.map_or(row.entitled.satisfaction(), |place| place as f64);
        self.parties.get(&party).map_or(MOST, of)
    }

    /// What a pool is owed; None for one of which nothing is known.
    pub fn fair(&self, pool: &str) -> Option<f64> {
        self.held.pools.get(pool).copied()
    }

    /// What a pool is owed, and has.
    pub fn of_pool(&self, pool: &str) -> Option<Entitled> {
        self.pools.get(pool).copied()
    }

    /// The pools, by name.
    pub fn pools(&self) -> impl Iterator<Item = (&str, Entitled)> {
        self.pools.iter().map(|(name, entitled)| (name.as_str(), *entitled))
    }

    /// Its pool, and those above it.
    pub fn line(&self, party: Party) -> &[String] {
        self.parties.get(&party).map_or(&[], |row| &self.lines[row.line])
    }

    /// What holds for somebody.
    pub fn patience(&self, party: Party) -> Patience {
        self.parties.get(&party).map_or(Patience::default(), |row| self.patience[row.line])
    }

    /// What holds for a pool itself.
    pub fn patience_of_pool(&self, pool: &str) -> Patience {
        self.of_pools.get(pool).copied().unwrap_or_default()
    }

    /// What holds for whom.
    pub fn patience_of(&self, subject: &Subject) -> Patience {
        match subject {
            Subject::Party(party) => self.patience(*party),
            Subject::Pool(pool) => self.patience_of_pool(pool),
        }
    }

    /// All that have less than they should, pools included (Y1).
    pub fn below(&self) -> impl Iterator<Item = Subject> + '_ {
        let parties = self.parties.iter().filter(|(_, row)| row.entitled.is_below(self.patience[row.line].tolerance));
        let pools = self.pools.iter().filter(|(name, it)| it.is_below(self.patience_of_pool(name).tolerance));
        let parties = parties.map(|(party, _)| Subject::Party(*party));
        parties.chain(pools.map(|(name, _)| Subject::Pool(name.clone())))
    }

    /// What having less has made of somebody.
    pub fn hunger(&self, subject: &Subject, fasting: &Fasting, now: Time) -> Hunger {
        Hunger::of(fasting.since(subject), &self.patience_of(subject), now)
    }
}

/// What each pool has, with all below it.
fn used(wishes: &Wishes, catalog: &Catalog) -> BTreeMap<String, Amounts> {
    let mut used: BTreeMap<String, Amounts> = BTreeMap::new();
    for wish in &wishes.all {
        for pool in &wishes.lines[wish.line] {
            match used.get_mut(pool) {
                Some(used) => add(used, &multiple(&wish.has, wish.number)),
                None => drop(used.insert(pool.clone(), add_up(catalog, &wish.has, wish.number))),
            }
        }
    }
    used
}

fn add_up(catalog: &Catalog, amounts: &[i64], number: u64) -> Amounts {
    let mut sum = catalog.nothing();
    add(&mut sum, &multiple(amounts, number));
    sum
}

/// Pours the cluster out.
fn poured(wishes: &Wishes, state: &State, policy: &Policy, whole: &Whole, now: Time) -> Held {
    let tree = Tree::of(&policy.fair_share.accounts);
    let drinker = |wish: &Wish| Drinker {
        pool: pool_of(&wishes.lines[wish.line]).to_string(),
        claim: Claim::wanting(whole.part(&wish.wants)).times(wish.number),
    };
    let drinkers: Vec<Drinker> = wishes.all.iter().map(drinker).collect();
    let bounds = bounds(wishes, state, policy, whole);
    let mode =
        |pool: &str| policy.fair_share.accounts.iter().find(|account| account.name == pool).map(|it| it.pool.mode);
    let bounds = |pool: &str| bounds.get(pool).copied().unwrap_or(UNBOUNDED);
    let Poured { pools, drinkers } = pour(&tree, &drinkers, bounds, |pool| mode(pool) == Some(Mode::Fifo));
    let parties =
        wishes.all.iter().zip(drinkers).map(|(wish, part)| (wish.party, (wish.number, part / wish.number as f64)));
    let rule = Rule { fair_share: policy.fair_share.clone(), limits: policy.limits.clone() };
    let known = state.starvation.held.as_ref().map(|held| held.rule.clone()).filter(|known| **known == rule);
    let rule = known.unwrap_or_else(|| Arc::new(rule));
    Held { at: now, rule, whole: whole.clone(), parties: parties.collect(), pools }
}

/// What is guaranteed to pools, and how much they may have, where somebody said so.
fn bounds(wishes: &Wishes, state: &State, policy: &Policy, whole: &Whole) -> BTreeMap<String, Bounds> {
    let catalog = &state.cluster.catalog;
    let mut bounds: BTreeMap<String, Bounds> = BTreeMap::new();
    for account in &policy.fair_share.accounts {
        let least = whole.part(&amounts_of(&account.pool.guarantee, catalog));
        let most = account.pool.max_share.unwrap_or(1.0);
        bounds.insert(account.name.clone(), (least, most));
    }
    if policy.limits.all.iter().any(|limit| limit.stage == Stage::Running && is_of_pools(&limit.scope)) {
        for (pool, wanted) in wanted(wishes, catalog) {
            let cap = cap(&pool, &wanted, &policy.limits, catalog) * whole.part(&wanted);
            let (_, most) = bounds.entry(pool).or_insert(UNBOUNDED);
            *most = most.min(cap);
        }
    }
    bounds
}

/// Whether a limit is one on pools.
pub fn is_of_pools(scope: &Scope) -> bool {
    scope.account != Selector::All && Scope { account: Selector::All, ..scope.clone() } == Scope::default()
}

/// What each pool wants, with all below it.
fn wanted(wishes: &Wishes, catalog: &Catalog) -> BTreeMap<String, Amounts> {
    let mut wanted: BTreeMap<String, Amounts> = BTreeMap::new();
    for wish in &wishes.all {
        for pool in &wishes.lines[wish.line] {
            add(wanted.entry(pool.clone()).or_insert_with(|| catalog.nothing()), &multiple(&wish.wants, wish.number));
        }
    }
    wanted
}

/// How much of all it wants a pool may have under the limits on what it runs: as much as the tightest of them
/// allows of everything.
fn cap(pool: &str, wanted: &[i64], limits: &Limits, catalog: &Catalog) -> f64 {
    let own = limits.all.iter().filter(|limit| limit.stage == Stage::Running && is_of_pools(&limit.scope));
    let is_named = |selector: &Selector| matches!(selector, Selector::Named(name) if name == pool);
    let parts = own.clone().filter_map(|limit| {
        let Quantity::Resource(name) = &limit.quantity else { return None };
        let replaced = |other: &crate::model::limit::Limit| {
            is_named(&other.scope.account) && other.quantity == limit.quantity && other.hard.is_some()
        };
        let is_meant = match &limit.scope.account {
            Selector::Named(name) => name == pool,
            Selector::Each => !own.clone().any(replaced),
            Selector::All => false,
        };
        let index = catalog.index(name).filter(|index| is_meant && wanted[*index] > 0)?;
        Some(limit.hard? as f64 / wanted[index] as f64)
    });
    parts.fold(1.0, f64::min)
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
