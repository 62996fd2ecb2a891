//! The books of limits of one cycle: what of each limit is used, by those who run and by those that
//! the cycle starts (M5, M21 to M26, I19).
//!
//! They cost as many steps as there are people that have something, times the limits; whom a limit
//! concerns is found out once for each of those people, and then for those who wait as they come.

use crate::model::account::lineage::Lineages;
use crate::model::credentials::Credentials;
use crate::model::job_id::JobId;
use crate::model::limit::directory::Directory;
use crate::model::limit::excess::LimitExcess;
use crate::model::limit::usage::LimitUse;
use crate::model::limit::{Concern, Limit, LimitKey, LimitStage, LimitValues};
use crate::model::policy::Policy;
use crate::model::reason::Reason;
use crate::model::time::{Span, Time};
use crate::sched::view::counting::QuantityKind;
use crate::sched::view::holdings::{Holding, Pledge};
use crate::sched::view::shape::{ClassId, ClassKey};
use crate::sched::view::snapshot::ClusterState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What of the limits on one stage is used.
#[derive(Clone)]
pub(in crate::sched) struct LimitCounters<'s> {
    state: &'s ClusterState,
    policy: &'s Policy,
    now: Time,
    lineages: Lineages<'s>,
    directory: Directory,
    /// Of each limit, by its place.
    counts: Vec<QuantityKind>,
    accounts: Vec<LimitCounter<'s>>,
    places: BTreeMap<(usize, LimitKey), usize>,
    /// Whose jobs count where.
    concerned: BTreeMap<Arc<Credentials>, Arc<[usize]>>,
    over_soft: BTreeSet<ClassId>,
    /// What was said of an account to who would add so much, since it changed last.
    said: BTreeMap<(usize, i64, bool), Arc<Reason>>,
}

/// What a job would exceed.
#[derive(Clone, Copy, Debug)]
pub(in crate::sched) struct ExceededLimit {
    account: usize,
    /// A soft limit, and no hard one.
    pub soft: bool,
}

/// What some use of a limit together.
#[derive(Clone)]
pub(in crate::sched) struct LimitCounter<'s> {
    /// The limit's place among all.
    pub place: usize,
    /// Who they are.
    pub key: LimitKey,
    /// How much they may.
    pub bounds: LimitValues,
    /// What they use.
    pub used: i64,
    /// What of that becomes less by itself.
    pledge: Pledge,
    holdings: Vec<&'s Holding>,
    /// Those that have come since, of many only the first.
    entered: Vec<JobId>,
    unnamed: u64,
}

impl<'s> LimitCounter<'s> {
    /// The jobs that use it.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.holdings
            .iter()
            .flat_map(|holding| holding.jobs.iter().copied())
            .chain(self.entered.iter().copied())
    }

    fn name(&mut self, jobs: &[JobId], more: u64) {
        let named = jobs
            .len()
            .min(LimitUse::MOST.saturating_sub(self.entered.len()));
        self.entered.extend(&jobs[..named]);
        self.unnamed += more + (jobs.len() - named) as u64;
    }

    /// How many these are.
    pub fn size(&self) -> u64 {
        let held: u64 = self
            .holdings
            .iter()
            .map(|holding| holding.jobs.len() as u64)
            .sum();
        held + self.entered.len() as u64 + self.unnamed
    }

    fn enter_all(&mut self, holding: &'s Holding, count: QuantityKind, state: &ClusterState) {
        self.used = self.used.saturating_add(count.held(holding, state));
        self.pledge = self.pledge.plus(count.pledged(holding));
        self.holdings.push(holding);
    }
}

impl<'s> LimitCounters<'s> {
    /// Those of a stage, empty; None where no limit is on it.
    pub fn blank(
        state: &'s ClusterState,
        policy: &'s Policy,
        stage: LimitStage,
        now: Time,
    ) -> Option<LimitCounters<'s>> {
        let limits = &policy.limits;
        let counts = limits
            .all
            .iter()
            .map(|limit| QuantityKind::of(&limit.quantity, &state.cluster.catalog));
        limits.concern(stage).then(|| LimitCounters {
            state,
            policy,
            now,
            lineages: Lineages::new(&policy.fair_share.accounts),
            directory: Directory::new(limits, stage),
            counts: counts.collect(),
            accounts: Vec::new(),
            places: BTreeMap::new(),
            concerned: BTreeMap::new(),
            over_soft: BTreeSet::new(),
            said: BTreeMap::new(),
        })
    }

    /// Those on what runs, with all that does.
    pub fn open(
        state: &'s ClusterState,
        policy: &'s Policy,
        now: Time,
    ) -> Option<LimitCounters<'s>> {
        Some(LimitCounters::blank(state, policy, LimitStage::Running, now)?.with_running())
    }

    /// The same with all that runs.
    pub fn with_running(mut self) -> LimitCounters<'s> {
        let state = self.state;
        for (who, holding) in state.holdings.all() {
            for &account in &*self.accounts_of(who) {
                let count = self.counts[self.accounts[account].place];
                self.accounts[account].enter_all(holding, count, state);
            }
        }
        self.forgive_overdue();
        for account in &mut self.accounts {
            account.used = account.used.saturating_add(account.pledge.left(self.now));
        }
        self
    }

    /// Who runs past the end of his walltime has nothing left of it.
    fn forgive_overdue(&mut self) {
        let state = self.state;
        for (who, processors, end) in state.overdue(self.now) {
            for &account in &*self.accounts_of(who) {
                let weight = self.counts[self.accounts[account].place].weight_of(processors);
                self.accounts[account].pledge.leave(weight, end);
            }
        }
    }

    /// Where somebody's jobs count.
    pub fn accounts_of(&mut self, who: &Arc<Credentials>) -> Arc<[usize]> {
        if let Some(known) = self.concerned.get(who) {
            return known.clone();
        }
        let limits = &self.policy.limits;
        let subject = limits.subject(who, self.lineages.of(&who.user, who.account.as_deref()));
        let found = limits
            .concerning(&subject, &self.directory)
            .into_iter()
            .map(|found| self.account(found));
        let found: Arc<[usize]> = found.collect::<Vec<_>>().into();
        self.concerned.insert(who.clone(), found.clone());
        found
    }

    fn account(&mut self, Concern { place, key, bounds }: Concern) -> usize {
        let (new, accounts) = (self.accounts.len(), &mut self.accounts);
        *self
            .places
            .entry((place, key))
            .or_insert_with_key(|(_, key)| {
                accounts.push(LimitCounter {
                    place,
                    key: key.clone(),
                    bounds,
                    used: 0,
                    pledge: Pledge::default(),
                    holdings: Vec::new(),
                    entered: Vec::new(),
                    unnamed: 0,
                });
                new
            })
    }

    /// All there is of each limit.
    pub fn accounts(&self) -> &[LimitCounter<'s>] {
        &self.accounts
    }

    /// The account of those a limit names, of whom there may be no jobs.
    pub fn note(&mut self, place: usize, key: LimitKey) {
        let bounds = self.policy.limits.all[place].bounds();
        self.account(Concern { place, key, bounds });
    }

    fn limit(&self, account: usize) -> &'s Limit {
        &self.policy.limits.all[self.accounts[account].place]
    }

    /// How a limit counts, by its place.
    pub fn count(&self, place: usize) -> QuantityKind {
        self.counts[place]
    }

    /// What a job of a class would add to an account.
    fn asked(&self, account: usize, class: &ClassKey) -> i64 {
        let span = class.walltime.unwrap_or(self.policy.default_walltime);
        self.counts[self.accounts[account].place].asked(class, span, &self.state.cluster)
    }

    /// Whether one more job of a class would make an account exceed a limit.
    pub fn exceeds(&self, account: usize, class: &ClassKey, limit: Option<i64>) -> bool {
        let count = self.counts[self.accounts[account].place];
        let Some(most) = limit.map(|limit| count.most(limit)) else {
            return false;
        };
        let asked = self.asked(account, class);
        // Who adds nothing exceeds nothing, even where there is too much already.
        asked > 0 && self.accounts[account].used.saturating_add(asked) > most
    }

    /// What one more job of a class would exceed: a hard limit before a soft one, of each the
    /// first. Of who is kept by a soft one alone note is taken.
    pub fn bar(&mut self, class: &ClassKey) -> Option<ExceededLimit> {
        if let Some(hard) = self.hard_bar(class) {
            return Some(hard);
        }
        // M23: without a soft limit the hard limit applies.
        let account = self.first_exceeded(class, LimitValues::soft_limit)?;
        self.over_soft.insert(class.id);
        Some(ExceededLimit {
            account,
            soft: true,
        })
    }

    /// The first hard limit that one more job of a class would exceed.
    pub fn hard_bar(&mut self, class: &ClassKey) -> Option<ExceededLimit> {
        let account = self.first_exceeded(class, |bounds| bounds.hard)?;
        Some(ExceededLimit {
            account,
            soft: false,
        })
    }

    fn first_exceeded(
        &mut self,
        class: &ClassKey,
        most: fn(LimitValues) -> Option<i64>,
    ) -> Option<usize> {
        let accounts = self.accounts_of(&class.who);
        accounts
            .iter()
            .copied()
            .find(|&account| self.exceeds(account, class, most(self.accounts[account].bounds)))
    }

    /// The same in words.
    pub fn reason(&mut self, bar: ExceededLimit, class: &ClassKey) -> Arc<Reason> {
        let key = (bar.account, self.asked(bar.account, class), bar.soft);
        if let Some(said) = self.said.get(&key) {
            return said.clone();
        }
        let reason = Arc::new(Reason::Limited(Box::new(self.excess(bar, class))));
        self.said.insert(key, reason.clone());
        reason
    }

    fn excess(
        &self,
        ExceededLimit {
            account: place,
            soft,
        }: ExceededLimit,
        class: &ClassKey,
    ) -> LimitExcess {
        let (account, limit, catalog) = (
            &self.accounts[place],
            self.limit(place),
            &self.state.cluster.catalog,
        );
        let count = self.counts[account.place];
        let most = count.most(
            if soft {
                account.bounds.soft_limit()
            } else {
                account.bounds.hard
            }
            .unwrap_or(i64::MAX),
        );
        let asked = self.asked(place, class);
        let shown = |amount| count.figure(amount, catalog).shown;
        LimitExcess {
            scope: limit.scope.clone(),
            stage: limit.stage,
            quantity: limit.quantity.clone(),
            key: account.key.clone(),
            asked: shown(asked),
            used: shown(account.used),
            most: shown(most),
            soft,
            by: account.jobs().take(LimitExcess::MOST).collect(),
            more: account.size().saturating_sub(LimitExcess::MOST as u64),
            until: self.eased(account, asked, most),
        }
    }

    /// When so little is left of what runs that a job gets within a limit, though nothing ends
    /// before: it becomes less by its rate (M21).
    fn eased(&self, account: &LimitCounter, asked: i64, most: i64) -> Option<Time> {
        let rate = account.pledge.rate;
        let is_hopeless = rate <= 0 || asked > most || account.used == i64::MAX;
        let over = (i128::from(account.used) + i128::from(asked) - i128::from(most)).max(0);
        let wait = i64::try_from((over + i128::from(rate) - 1) / i128::from(rate.max(1))).ok()?;
        (!is_hopeless).then(|| self.now + Span(wait.max(1)))
    }

    /// A job of a class counts from now on.
    pub fn enter(&mut self, class: &ClassKey, job: JobId) {
        self.said.clear();
        for &account in &*self.accounts_of(&class.who) {
            let asked = self.asked(account, class);
            let weight =
                self.counts[self.accounts[account].place].weight(class, &self.state.cluster);
            let account = &mut self.accounts[account];
            account.used = account.used.saturating_add(asked);
            account.pledge.rate += weight;
            account.name(&[job], 0);
        }
    }

    /// So many jobs of a class count: these and so many more submissions.
    pub fn enter_many(&mut self, class: &ClassKey, count: u64, (named, more): (&[JobId], u64)) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        for &account in &*self.accounts_of(&class.who) {
            let asked = self.asked(account, class);
            let account = &mut self.accounts[account];
            account.used = account.used.saturating_add(asked.saturating_mul(count));
            account.name(named, more);
        }
    }

    /// The classes that a soft limit alone has kept waiting.
    pub fn over_soft(&self) -> &BTreeSet<ClassId> {
        &self.over_soft
    }
}

#[cfg(test)]
mod tests;
