//! The fair-share factors of the owners of waiting jobs (F3, F11).

use crate::model::account::member::Member;
use crate::model::policy::fair_share::Method;
use crate::model::policy::{FairShare, Policy, PriorityOrder};
use crate::model::time::Time;
use crate::sched::share_tree::{FairShareEntry, ShareIndex, Tree, TreeIndex};
use crate::sched::view::fair_share_factors::{
    ClassOwner, FairShareFactors, MemberPlaces, UsagePercents,
};
use crate::sched::view::shape::{ClassKey, User};
use crate::sched::view::snapshot::ClusterState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl MemberPlaces {
    /// The places (positions in the share tree) of all members with usage and all owners of waiting
    /// jobs. If the places of `before` are still valid, only those of new owners are looked up.
    fn after(
        before: Option<MemberPlaces>,
        state: &ClusterState,
        policy: &FairShare,
    ) -> MemberPlaces {
        let kept = before.filter(|indices| indices.are_valid(state, policy));
        kept.and_then(|indices| indices.joined(state))
            .unwrap_or_else(|| MemberPlaces::new(state, policy))
    }

    fn new(state: &ClusterState, policy: &FairShare) -> MemberPlaces {
        let usage = state.usage();
        let share_index = ShareIndex::new(policy, |tree| {
            let waiting = state
                .owners
                .values()
                .map(|(_, who)| tree.member(&who.user, who.account.as_deref()));
            let used = usage.members().map(|member| tree.named(member));
            waiting.chain(used).collect()
        });
        let used: Vec<(Member, TreeIndex)> = usage
            .members()
            .filter_map(|member| Some((member.clone(), share_index.index_of(member)?)))
            .collect();
        let waiting: BTreeMap<ClassOwner, TreeIndex> = state
            .owners
            .iter()
            .filter_map(|(owner, (_, who))| {
                let index = share_index.index(&who.user, who.account.as_deref())?;
                Some((owner.clone(), index))
            })
            .collect();
        let taken: BTreeSet<TreeIndex> = used.iter().map(|(_, index)| *index).collect();
        let new = waiting
            .iter()
            .filter(|(_, index)| !taken.contains(index))
            .map(|(owner, _)| owner.clone())
            .collect();
        MemberPlaces {
            share_index,
            used,
            waiting,
            new,
        }
    }

    /// Whether the places are still valid: the policy and the members with usage have not changed,
    /// and all owners in `new`, who had no usage, still have waiting jobs.
    fn are_valid(&self, state: &ClusterState, policy: &FairShare) -> bool {
        self.share_index.is_of(policy)
            && state
                .usage()
                .members()
                .eq(self.used.iter().map(|(member, _)| member))
            && self
                .new
                .iter()
                .all(|owner| state.owners.contains_key(owner))
    }

    /// Adds the owners of waiting jobs that are missing; None if such an owner has no place in the
    /// tree.
    fn joined(mut self, state: &ClusterState) -> Option<MemberPlaces> {
        for (owner, (_, who)) in &state.owners {
            if !self.waiting.contains_key(owner) {
                let index = self.share_index.index(&who.user, who.account.as_deref())?;
                self.waiting.insert(owner.clone(), index);
            }
        }
        Some(self)
    }
}

impl FairShareFactors {
    /// The factors at `now`, from the usage until `now`, including the usage of running jobs. The
    /// places in the share tree are taken from the former factors `before`, to save time; the
    /// result does not depend on them.
    pub fn of(
        state: &ClusterState,
        policy: &Policy,
        now: Time,
        before: &mut Arc<FairShareFactors>,
    ) -> FairShareFactors {
        let mut indices = MemberPlaces::after(
            Arc::make_mut(before).indices.take(),
            state,
            &policy.fair_share,
        );
        let indices_used = indices.used.iter().map(|(_, index)| *index);
        let entries = indices
            .share_index
            .weigh(indices_used.zip(state.usage().all_decayed(now)));
        let mut shares = FairShareFactors {
            percents: percents(state, policy, now),
            ..FairShareFactors::default()
        };
        for (user, account) in state.owners.keys() {
            let index = indices.waiting.get(&(*user, account.clone()));
            let entry = index.map(|index| (account.clone(), entries.of(*index)));
            shares.entries.entry(*user).or_default().extend(entry);
        }
        if policy.fair_share.method == Method::Linear {
            let running = indices
                .used
                .iter()
                .filter(|(member, _)| state.usage().in_use(member) > 0.0);
            shares.running = running
                .map(|(member, index)| (member.clone(), entries.of(*index).factor))
                .collect();
        }
        shares.indices = Some(indices);
        shares
    }

    /// The factors of all owners of waiting jobs. An owner who has a factor in `before` keeps it;
    /// the factors of other owners are computed. The usage percentages are those of `before`.
    pub fn joined(
        state: &ClusterState,
        policy: &Policy,
        now: Time,
        before: &mut Arc<FairShareFactors>,
    ) -> FairShareFactors {
        let mut shares = FairShareFactors::of(state, policy, now, before);
        for (user, accounts) in &mut shares.entries {
            for (account, earlier) in before.entries.get(user).into_iter().flatten() {
                for (_, entry) in accounts.iter_mut().filter(|(own, _)| own == account) {
                    *entry = *earlier;
                }
            }
        }
        FairShareFactors {
            percents: before.percents.clone(),
            ..shares
        }
    }

    /// The entry of the owner of a class of jobs; None if the owner had no waiting jobs, or no
    /// place in the share tree, when the factors were computed.
    pub fn entry(&self, class: &ClassKey) -> Option<FairShareEntry> {
        let of_user = self.entries.get(&class.user)?;
        of_user
            .iter()
            .find(|(account, _)| *account == class.who.account)
            .map(|(_, entry)| *entry)
    }

    /// The members with running jobs and their factors; empty unless the method is linear.
    pub fn running(&self) -> &[(Member, f64)] {
        &self.running
    }

    /// The factors of all owners of waiting jobs: user, requested account and factor.
    pub fn all(&self) -> impl Iterator<Item = (User, Option<&str>, f64)> {
        self.entries.iter().flat_map(|(user, accounts)| {
            accounts
                .iter()
                .map(move |(account, entry)| (*user, account.as_deref(), entry.factor))
        })
    }

    /// The factor of the owner of a class; 0 without an entry.
    pub fn factor(&self, class: &ClassKey) -> f64 {
        self.entry(class).map_or(0.0, |entry| entry.factor)
    }

    /// Whether the owner of a class has an entry.
    pub fn knows(&self, class: &ClassKey) -> bool {
        self.entry(class).is_some()
    }
}

/// The usage of users and accounts in percent of all usage; empty if the priorities do not use it.
fn percents(state: &ClusterState, policy: &Policy, now: Time) -> UsagePercents {
    if policy.precedence.order != PriorityOrder::Components {
        return UsagePercents::default();
    }
    let tree = Tree::of(&policy.fair_share.accounts);
    UsagePercents::of(&tree, &decayed(state, &tree, now))
}

/// The decayed usage at `now` of each member, named as by [`Tree::member`]. Owners of waiting jobs
/// without usage are included with 0.
pub(super) fn decayed(state: &ClusterState, tree: &Tree, now: Time) -> BTreeMap<Member, f64> {
    let waiting = state
        .owners
        .values()
        .map(|(_, who)| tree.member(&who.user, who.account.as_deref()));
    let mut used: BTreeMap<Member, f64> = waiting.map(|member| (member, 0.0)).collect();
    for (member, left) in state.usage().members().zip(state.usage().all_decayed(now)) {
        *used.entry(tree.named(member)).or_default() += left;
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::account::charge::Charge;
    use crate::model::job::held::Held;
    use crate::model::policy::fair_share::Method;
    use crate::sched::fixture::cluster;
    use crate::sched::share_tree::usage::UsageTable;

    const NAMES: [&str; 4] = ["ann", "bob", "cid", "zoe"];

    fn charge(user: &str) -> Charge {
        let held = Held {
            cores: 1,
            ..Held::default()
        };
        Charge {
            member: Member::new("", user),
            from: Time(0),
            to: Some(Time(9_000)),
            held,
            amounts: Default::default(),
            factor: 1.0,
        }
    }

    /// Random steps: jobs are queued and withdrawn, usage is added and forgotten, the policy
    /// changes.
    #[test]
    fn factors_from_kept_places_equal_factors_from_new_places() {
        let mut dice = 7_u64;
        let mut roll = |sides: u64| {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % sides
        };
        let (mut fixture, mut usage, mut before) = (
            cluster("1 x ncpus=1"),
            UsageTable::default(),
            Arc::default(),
        );
        // The factor of zoe depends on the number of other users.
        usage.add(&charge("zoe"));
        for step in 1..400 {
            let name = NAMES[roll(4) as usize];
            match roll(30) {
                0 if roll(2) == 0 => {
                    fixture.policy.fair_share.method =
                        [Method::Classic, Method::Linear][roll(2) as usize]
                }
                0 => usage.add(&charge(name)),
                1..3 if name != "zoe" => usage.forget(&charge(name)),
                3..16 => {
                    let one = fixture.state.jobs.keys().nth(roll(5) as usize).copied();
                    one.into_iter().for_each(|job| fixture.state.withdraw(job));
                }
                _ => fixture = fixture.owned(name).queued(step, "select=1:ncpus=1"),
            }
            fixture.state.usage = Arc::new(usage.clone());
            let shares = |before: &mut Arc<FairShareFactors>| {
                FairShareFactors::of(&fixture.state, &fixture.policy, Time(9_000), before)
            };
            let (kept, fresh) = (shares(&mut before), shares(&mut Arc::default()));
            assert_eq!(
                kept.all().collect::<Vec<_>>(),
                fresh.all().collect::<Vec<_>>(),
                "step {step}"
            );
            before = Arc::new(kept);
        }
    }
}
