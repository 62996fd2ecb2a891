//! What each of those who wait has had of what is theirs, as a factor (F3, F11).

use super::shape::ClassKey;
use super::shares::{Tree, standings};
use super::snapshot::State;
use super::usage::Usage;
use crate::model::member::Member;
use crate::model::policy::FairShare;
use crate::model::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// A user, and the account asked for.
type Owner<'s> = (&'s str, Option<&'s str>);

/// The factors of those who wait.
#[derive(Default)]
pub struct Shares<'s> {
    factors: BTreeMap<Owner<'s>, f64>,
}

impl<'s> Shares<'s> {
    /// At a moment: by what they have used until then, running jobs included.
    pub fn of(state: &'s State, policy: &FairShare, now: Time) -> Shares<'s> {
        let tree = Tree::of(&policy.accounts);
        let owners: BTreeSet<Owner> = state.classes.values().map(|class| owner_of(&class.key)).collect();
        let waiting: BTreeMap<Owner, Member> =
            owners.into_iter().map(|owner| (owner, tree.member(owner.0, owner.1))).collect();
        let mut used: BTreeMap<Member, f64> = waiting.values().map(|member| (member.clone(), 0.0)).collect();
        used.extend(self::used(&tree, state.usage(), now));
        let standings = standings(&tree, policy, &used);
        // Whom nobody knows has used nothing.
        let factor = |member: &Member| standings.of(member).map_or(1.0, |standing| standing.factor);
        Shares { factors: waiting.iter().map(|(owner, member)| (*owner, factor(member))).collect() }
    }

    /// That of the owner of a class's jobs.
    pub fn factor(&self, class: &ClassKey) -> f64 {
        self.factors.get(&owner_of(class)).copied().unwrap_or(0.0)
    }
}

fn owner_of(class: &ClassKey) -> Owner<'_> {
    (class.who.user.as_str(), class.who.account.as_deref())
}

/// What is left at a moment of what was used, by whom it is charged to.
pub fn used(tree: &Tree, usage: &Usage, now: Time) -> BTreeMap<Member, f64> {
    let mut used: BTreeMap<Member, f64> = BTreeMap::new();
    for member in usage.members() {
        let account = Some(member.account.as_str()).filter(|account| !account.is_empty());
        *used.entry(tree.member(&member.user, account)).or_default() += usage.decayed(member, now);
    }
    used
}
