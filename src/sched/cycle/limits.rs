//! The limit counters of one cycle: how much of each limit on running jobs is used by running jobs
//! and by the jobs that the cycle starts (M5, M21 to M26, I19). For limits on idle jobs, the jobs
//! on the list of eligible jobs count instead (M24).
//!
//! The computing time grows with the number of different credentials of running jobs, multiplied by
//! the number of limits that apply to one of these credentials. The limits that apply to the owners
//! of waiting jobs are found on demand.

use crate::model::account::lineage::Lineages;
use crate::model::credentials::Credentials;
use crate::model::job_id::JobId;
use crate::model::limit::directory::Directory;
use crate::model::limit::excess::LimitExcess;
use crate::model::limit::usage::LimitUse;
use crate::model::limit::{ApplicableLimit, Limit, LimitKey, LimitStage, LimitValues};
use crate::model::policy::Policy;
use crate::model::reason::Reason;
use crate::model::time::{Span, Time};
use crate::sched::view::counting::QuantityKind;
use crate::sched::view::holdings::{Holding, RemainingUse};
use crate::sched::view::shape::{ClassId, ClassKey};
use crate::sched::view::snapshot::ClusterState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The used amounts of all limits of one stage ([`LimitStage`]), such as the limits on running
/// jobs.
#[derive(Clone)]
pub(in crate::sched) struct LimitCounters<'s> {
    state: &'s ClusterState,
    policy: &'s Policy,
    now: Time,
    lineages: Lineages<'s>,
    directory: Directory,
    /// The kind of quantity that each limit counts, in the order of the configured limits.
    counts: Vec<QuantityKind>,
    counters: Vec<LimitCounter<'s>>,
    indices: BTreeMap<(usize, LimitKey), usize>,
    /// The counters in which jobs with these credentials count.
    by_credentials: BTreeMap<Arc<Credentials>, Arc<[usize]>>,
    over_soft: BTreeSet<ClassId>,
    /// The reasons computed since [`enter`](Self::enter) last counted a job. The key is the
    /// counter, the amount that a job would add, and whether only a soft limit is exceeded.
    reasons: BTreeMap<(usize, i64, bool), Arc<Reason>>,
}

/// A limit that a job would exceed.
#[derive(Clone, Copy, Debug)]
pub(in crate::sched) struct ExceededLimit {
    counter: usize,
    /// Only a soft limit is exceeded, no hard limit.
    pub soft: bool,
}

/// The used amount of one limit for one entity, such as a user.
#[derive(Clone)]
pub(in crate::sched) struct LimitCounter<'s> {
    /// The index of the limit among all configured limits.
    pub place: usize,
    /// The entity that the limit applies to, such as a user.
    pub key: LimitKey,
    /// The soft and the hard limit.
    pub bounds: LimitValues,
    /// The amount in use.
    pub used: i64,
    /// The part of the used amount that decreases with time.
    decreasing_use: RemainingUse,
    /// The running jobs that count towards this limit, by owner.
    holdings: Vec<&'s Holding>,
    /// The jobs that the cycle has added to the counter, up to a maximum number.
    added_jobs: Vec<JobId>,
    /// The number of further jobs that the cycle has added to the counter without storing their
    /// ids.
    unnamed: u64,
}

impl<'s> LimitCounter<'s> {
    /// The jobs that count towards this limit, except those of which only the number is stored.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.holdings
            .iter()
            .flat_map(|holding| holding.jobs.iter().copied())
            .chain(self.added_jobs.iter().copied())
    }

    /// Records that the jobs `jobs` count towards this limit, and `more` further jobs for which no
    /// ids are given.
    fn add_jobs(&mut self, jobs: &[JobId], more: u64) {
        let named = jobs
            .len()
            .min(LimitUse::MOST.saturating_sub(self.added_jobs.len()));
        self.added_jobs.extend(&jobs[..named]);
        self.unnamed += more + (jobs.len() - named) as u64;
    }

    /// The number of jobs that count towards this limit. An array that
    /// [`LimitCounters::enter_many`] has added counts as one job.
    pub fn size(&self) -> u64 {
        let held: u64 = self
            .holdings
            .iter()
            .map(|holding| holding.jobs.len() as u64)
            .sum();
        held + self.added_jobs.len() as u64 + self.unnamed
    }

    /// Counts the running jobs of a holding.
    fn count_holding(&mut self, holding: &'s Holding, count: QuantityKind, state: &ClusterState) {
        self.used = self.used.saturating_add(count.held(holding, state));
        self.decreasing_use = self.decreasing_use.plus(count.remaining_use(holding));
        self.holdings.push(holding);
    }
}

impl<'s> LimitCounters<'s> {
    /// The counters of the limits of a stage, without any jobs; None if the stage has no limits.
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
            counters: Vec::new(),
            indices: BTreeMap::new(),
            by_credentials: BTreeMap::new(),
            over_soft: BTreeSet::new(),
            reasons: BTreeMap::new(),
        })
    }

    /// The counters of the limits on running jobs, which count all running jobs; None without such
    /// limits.
    pub fn open(
        state: &'s ClusterState,
        policy: &'s Policy,
        now: Time,
    ) -> Option<LimitCounters<'s>> {
        Some(LimitCounters::blank(state, policy, LimitStage::Running, now)?.with_running())
    }

    /// Counts all running jobs.
    pub fn with_running(mut self) -> LimitCounters<'s> {
        let state = self.state;
        for (who, holding) in state.holdings.all() {
            for &counter in &*self.counters_of(who) {
                let count = self.counts[self.counters[counter].place];
                self.counters[counter].count_holding(holding, count, state);
            }
        }
        self.drop_overdue();
        for counter in &mut self.counters {
            counter.used = counter
                .used
                .saturating_add(counter.decreasing_use.left(self.now));
        }
        self
    }

    /// Removes the remaining use of jobs that run past their walltime.
    fn drop_overdue(&mut self) {
        let state = self.state;
        for (who, processors, end) in state.overdue(self.now) {
            for &counter in &*self.counters_of(who) {
                let weight = self.counts[self.counters[counter].place].weight_of(processors);
                self.counters[counter].decreasing_use.leave(weight, end);
            }
        }
    }

    /// The indices of the counters in which jobs with these credentials count.
    pub fn counters_of(&mut self, who: &Arc<Credentials>) -> Arc<[usize]> {
        if let Some(known) = self.by_credentials.get(who) {
            return known.clone();
        }
        let limits = &self.policy.limits;
        let subject = limits.subject(who, self.lineages.of(&who.user, who.account.as_deref()));
        let found = limits
            .concerning(&subject, &self.directory)
            .into_iter()
            .map(|found| self.counter(found));
        let found: Arc<[usize]> = found.collect::<Vec<_>>().into();
        self.by_credentials.insert(who.clone(), found.clone());
        found
    }

    fn counter(&mut self, ApplicableLimit { place, key, bounds }: ApplicableLimit) -> usize {
        let (new, counters) = (self.counters.len(), &mut self.counters);
        *self
            .indices
            .entry((place, key))
            .or_insert_with_key(|(_, key)| {
                counters.push(LimitCounter {
                    place,
                    key: key.clone(),
                    bounds,
                    used: 0,
                    decreasing_use: RemainingUse::default(),
                    holdings: Vec::new(),
                    added_jobs: Vec::new(),
                    unnamed: 0,
                });
                new
            })
    }

    /// All counters.
    pub fn accounts(&self) -> &[LimitCounter<'s>] {
        &self.counters
    }

    /// Adds the counter of the limit at index `place` for an entity, which may have no jobs.
    pub fn note(&mut self, place: usize, key: LimitKey) {
        let bounds = self.policy.limits.all[place].bounds();
        self.counter(ApplicableLimit { place, key, bounds });
    }

    fn limit(&self, counter: usize) -> &'s Limit {
        &self.policy.limits.all[self.counters[counter].place]
    }

    /// The kind of quantity that the limit at index `place` counts.
    pub fn count(&self, place: usize) -> QuantityKind {
        self.counts[place]
    }

    /// The amount that a job of a class would add to a counter.
    fn added(&self, counter: usize, class: &ClassKey) -> i64 {
        let span = class.walltime.unwrap_or(self.policy.default_walltime);
        self.counts[self.counters[counter].place].requested(class, span, &self.state.cluster)
    }

    /// Whether the used amount of a counter would exceed `limit` with one more job of a class.
    pub fn exceeds(&self, counter: usize, class: &ClassKey, limit: Option<i64>) -> bool {
        let count = self.counts[self.counters[counter].place];
        let Some(most) = limit.map(|limit| count.most(limit)) else {
            return false;
        };
        let added = self.added(counter, class);
        // A job that adds nothing exceeds nothing, even above the limit.
        added > 0 && self.counters[counter].used.saturating_add(added) > most
    }

    /// The first hard limit that one more job of a class would exceed; if there is none, the first
    /// soft limit. Notes the class if only a soft limit is exceeded.
    pub fn exceeded_limit(&mut self, class: &ClassKey) -> Option<ExceededLimit> {
        if let Some(hard) = self.exceeded_hard_limit(class) {
            return Some(hard);
        }
        // M23: for a limit without a soft value, `soft_limit` returns the hard value, which the job
        // does not exceed.
        let counter = self.first_exceeded(class, LimitValues::soft_limit)?;
        self.over_soft.insert(class.id);
        Some(ExceededLimit {
            counter,
            soft: true,
        })
    }

    /// The first hard limit that one more job of a class would exceed.
    pub fn exceeded_hard_limit(&mut self, class: &ClassKey) -> Option<ExceededLimit> {
        let counter = self.first_exceeded(class, |bounds| bounds.hard)?;
        Some(ExceededLimit {
            counter,
            soft: false,
        })
    }

    fn first_exceeded(
        &mut self,
        class: &ClassKey,
        most: fn(LimitValues) -> Option<i64>,
    ) -> Option<usize> {
        let counters = self.counters_of(&class.who);
        counters
            .iter()
            .copied()
            .find(|&counter| self.exceeds(counter, class, most(self.counters[counter].bounds)))
    }

    /// The reason for an exceeded limit.
    pub fn reason(&mut self, exceeded: ExceededLimit, class: &ClassKey) -> Arc<Reason> {
        let key = (
            exceeded.counter,
            self.added(exceeded.counter, class),
            exceeded.soft,
        );
        if let Some(reason) = self.reasons.get(&key) {
            return reason.clone();
        }
        let reason = Arc::new(Reason::Limited(Box::new(self.excess(exceeded, class))));
        self.reasons.insert(key, reason.clone());
        reason
    }

    fn excess(
        &self,
        ExceededLimit {
            counter: place,
            soft,
        }: ExceededLimit,
        class: &ClassKey,
    ) -> LimitExcess {
        let (counter, limit, catalog) = (
            &self.counters[place],
            self.limit(place),
            &self.state.cluster.catalog,
        );
        let count = self.counts[counter.place];
        let most = count.most(
            if soft {
                counter.bounds.soft_limit()
            } else {
                counter.bounds.hard
            }
            .unwrap_or(i64::MAX),
        );
        let added = self.added(place, class);
        let shown = |amount| count.figure(amount, catalog).shown;
        LimitExcess {
            scope: limit.scope.clone(),
            stage: limit.stage,
            quantity: limit.quantity.clone(),
            key: counter.key.clone(),
            asked: shown(added),
            used: shown(counter.used),
            most: shown(most),
            soft,
            by: counter.jobs().take(LimitExcess::MOST).collect(),
            more: counter.size().saturating_sub(LimitExcess::MOST as u64),
            until: self.fits_at(counter, added, most),
        }
    }

    /// The time at which the used amount has decreased enough for a job that adds `added`, even if
    /// no job ends (M21). None if `added` alone exceeds `most`, if the used amount does not
    /// decrease, or if it is infinite (`i64::MAX`), for example because a job has no known end.
    fn fits_at(&self, counter: &LimitCounter, added: i64, most: i64) -> Option<Time> {
        let rate = counter.decreasing_use.rate;
        let is_hopeless = rate <= 0 || added > most || counter.used == i64::MAX;
        let over = (i128::from(counter.used) + i128::from(added) - i128::from(most)).max(0);
        let wait = i64::try_from((over + i128::from(rate) - 1) / i128::from(rate.max(1))).ok()?;
        (!is_hopeless).then(|| self.now + Span(wait.max(1)))
    }

    /// Counts one more job of a class.
    pub fn enter(&mut self, class: &ClassKey, job: JobId) {
        self.reasons.clear();
        for &counter in &*self.counters_of(&class.who) {
            let added = self.added(counter, class);
            let weight =
                self.counts[self.counters[counter].place].weight(class, &self.state.cluster);
            let counter = &mut self.counters[counter];
            counter.used = counter.used.saturating_add(added);
            counter.decreasing_use.rate += weight;
            counter.add_jobs(&[job], 0);
        }
    }

    /// Counts `count` jobs of a class, where each waiting subjob is a job. `named` are the ids to
    /// store, and `more` is the number of the other ids. An array has one id for all its subjobs.
    pub fn enter_many(&mut self, class: &ClassKey, count: u64, (named, more): (&[JobId], u64)) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        for &counter in &*self.counters_of(&class.who) {
            let added = self.added(counter, class);
            let counter = &mut self.counters[counter];
            counter.used = counter.used.saturating_add(added.saturating_mul(count));
            counter.add_jobs(named, more);
        }
    }

    /// The classes that only a soft limit has refused so far.
    pub fn over_soft(&self) -> &BTreeSet<ClassId> {
        &self.over_soft
    }
}

#[cfg(test)]
mod tests;
