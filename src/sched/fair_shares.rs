//! What each of those who wait has had of what is theirs, as a factor (F3, F11).

use super::shape::ClassKey;
use super::shares::{Standing, Tree, standings};
use super::snapshot::State;
use crate::model::member::Member;
use crate::model::policy::FairShare;
use crate::model::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// A user, and the account asked for.
type Owner<'s> = (&'s str, Option<&'s str>);

/// What somebody has had of what is theirs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Due {
    /// From 0, too much, to 1, nothing.
    pub factor: f64,
    /// What is theirs of the machine, from 0 to 1.
    pub owed: f64,
    /// What the method holds against that, from 0 to 1.
    pub used: f64,
}

impl Due {
    /// That of whom nobody knows, and who has used nothing.
    const STRANGER: Due = Due { factor: 1.0, owed: 0.0, used: 0.0 };

    fn of(standing: &Standing) -> Due {
        Due { factor: standing.factor, owed: standing.normalised, used: standing.effective }
    }
}

/// What each of those who wait has had.
#[derive(Default)]
pub struct Shares<'s> {
    dues: BTreeMap<Owner<'s>, Due>,
}

impl<'s> Shares<'s> {
    /// At a moment: by what they have used until then, running jobs included.
    pub fn of(state: &'s State, policy: &FairShare, now: Time) -> Shares<'s> {
        let tree = Tree::of(&policy.accounts);
        let owners: BTreeSet<Owner> = state.classes.values().map(|class| owner_of(&class.key)).collect();
        let waiting: BTreeMap<Owner, Member> =
            owners.into_iter().map(|owner| (owner, tree.member(owner.0, owner.1))).collect();
        let mut used: BTreeMap<Member, f64> = waiting.values().map(|member| (member.clone(), 0.0)).collect();
        let usage = state.usage();
        for member in usage.members() {
            let account = Some(member.account.as_str()).filter(|account| !account.is_empty());
            *used.entry(tree.member(&member.user, account)).or_default() += usage.decayed(member, now);
        }
        let standings = standings(&tree, policy, &used);
        let due = |member: &Member| standings.of(member).map_or(Due::STRANGER, Due::of);
        Shares { dues: waiting.iter().map(|(owner, member)| (*owner, due(member))).collect() }
    }

    /// The factor of the owner of a class's jobs; 0 where shares do not count.
    pub fn factor(&self, class: &ClassKey) -> f64 {
        self.due(class).map_or(0.0, |due| due.factor)
    }

    /// What that owner has had; None where shares do not count.
    pub fn due(&self, class: &ClassKey) -> Option<Due> {
        self.dues.get(&owner_of(class)).copied()
    }
}

fn owner_of(class: &ClassKey) -> Owner<'_> {
    (class.who.user.as_str(), class.who.account.as_deref())
}
