//! The preemption levels of PBS (I20): a job of a higher level may preempt a job of a lower level.

use crate::model::account::member::Member;
use crate::model::credentials::Credentials;
use crate::model::limit::Selector;
use crate::model::policy::Policy;
use crate::model::policy::preemption::LevelCondition;
use crate::model::time::{Span, Time};
use crate::sched::cycle::limits::LimitCounters;
use crate::sched::share_tree::Tree;
use crate::sched::view::snapshot::ClusterState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Assigns jobs to preemption levels.
pub struct Levels<'s> {
    state: &'s ClusterState,
    policy: &'s Policy,
    /// The limit counters with all running jobs, if a level uses them.
    counters: Option<LimitCounters<'s>>,
    /// The conditions that the levels use, except [`LevelCondition::Normal`].
    named: BTreeSet<LevelCondition>,
    /// The members (users of accounts) above their share, if a level uses them.
    above_share: BTreeSet<Member>,
    tree: Tree,
    /// For credentials: whether their jobs exceed a soft limit of a queue, and whether they exceed
    /// a soft limit of the server.
    over: BTreeMap<Arc<Credentials>, (bool, bool)>,
}

impl<'s> Levels<'s> {
    /// The levels at this time; None if no condition can put a job into a special level.
    pub fn open(
        state: &'s ClusterState,
        policy: &'s Policy,
        counters: Option<&LimitCounters<'s>>,
        now: Time,
    ) -> Option<Levels<'s>> {
        let levels = &policy.preemption.levels;
        let has_express = contains(levels, LevelCondition::Express)
            && state
                .queues
                .values()
                .any(|queue| queue.priority >= policy.preemption.express);
        let has_starving = contains(levels, LevelCondition::Starving)
            && policy.precedence.tiers.max_starve.is_some();
        let has_limits = contains(levels, LevelCondition::QueueSoftLimits)
            || contains(levels, LevelCondition::ServerSoftLimits);
        let counters = if has_limits { counters.cloned() } else { None };
        let has_shares = contains(levels, LevelCondition::FairShare);
        (has_express || has_starving || counters.is_some() || has_shares).then(|| Levels {
            state,
            policy,
            counters,
            named: levels
                .iter()
                .flatten()
                .copied()
                .filter(|condition| *condition != LevelCondition::Normal)
                .collect(),
            above_share: if has_shares {
                above_share(state, policy, now)
            } else {
                BTreeSet::new()
            },
            tree: Tree::of(&policy.fair_share.accounts),
            over: BTreeMap::new(),
        })
    }

    /// The index of a job's level; 0 is the highest level. For a job without a level, the number of
    /// levels. `waited` is the job's eligible time.
    pub fn of(&mut self, who: &Arc<Credentials>, waited: Span) -> usize {
        let levels = &self.policy.preemption.levels;
        let place = levels.iter().position(|level| {
            level
                .iter()
                .all(|condition| self.applies(*condition, who, waited))
        });
        place.unwrap_or(levels.len())
    }

    /// Whether a condition applies to a job.
    fn applies(&mut self, condition: LevelCondition, who: &Arc<Credentials>, waited: Span) -> bool {
        match condition {
            // A job is normal if no other condition of the levels applies.
            LevelCondition::Normal => {
                let others: Vec<LevelCondition> = self.named.iter().copied().collect();
                !others
                    .into_iter()
                    .any(|other| self.applies(other, who, waited))
            }
            LevelCondition::Express => {
                let queue = self.state.queues.get(&who.queue);
                queue.is_some_and(|queue| queue.priority >= self.policy.preemption.express)
            }
            LevelCondition::Starving => self
                .policy
                .precedence
                .tiers
                .max_starve
                .is_some_and(|most| waited > most),
            LevelCondition::FairShare => self
                .above_share
                .contains(&self.tree.member(&who.user, who.account.as_deref())),
            LevelCondition::QueueSoftLimits => self.over_soft(who).0,
            LevelCondition::ServerSoftLimits => self.over_soft(who).1,
        }
    }

    /// Whether jobs with these credentials exceed a soft limit of a queue, and whether they exceed
    /// a soft limit of the server.
    fn over_soft(&mut self, who: &Arc<Credentials>) -> (bool, bool) {
        if let Some(known) = self.over.get(who) {
            return *known;
        }
        let Some(counters) = &mut self.counters else {
            return (false, false);
        };
        let mut over = (false, false);
        for &index in &*counters.counters_of(who) {
            let counter = &counters.accounts()[index];
            let is_over = counter.bounds.soft.is_some_and(|soft| counter.used > soft);
            let is_of_queue =
                self.policy.limits.all[counter.place].scope.queue != Selector::default();
            (over.0, over.1) = (
                over.0 || (is_over && is_of_queue),
                over.1 || (is_over && !is_of_queue),
            );
        }
        self.over.insert(who.clone(), over);
        over
    }
}

/// Whether a level uses this condition.
fn contains(levels: &[Vec<LevelCondition>], condition: LevelCondition) -> bool {
    levels.iter().flatten().any(|named| *named == condition)
}

/// The members (users of accounts) with usage above their share.
fn above_share(state: &ClusterState, policy: &Policy, now: Time) -> BTreeSet<Member> {
    let users = state
        .share_rows(&policy.fair_share, now)
        .into_iter()
        .filter(|entry| entry.used > entry.normalised);
    users
        .filter_map(|entry| Some(Member::new(&entry.account, &entry.user?)))
        .collect()
}
