//! What each of those who wait has had of what is theirs, as a factor (F3, F11).

use super::components::fair_share::Percents;
use super::shape::{ClassKey, User};
use super::shares::{Tree, standings};
use super::snapshot::State;
use super::usage::Usage;
use crate::model::credentials::Credentials;
use crate::model::member::Member;
use crate::model::policy::{Order, Policy};
use crate::model::time::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A user, with the account asked for.
pub(super) type Owner = (User, Option<String>);

/// The owners of those who wait, each with the number of classes.
pub(super) type Owners = BTreeMap<Owner, (usize, Arc<Credentials>)>;

/// The factors of those who wait.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// By user, then by the account asked for.
    factors: BTreeMap<User, Vec<(Option<String>, f64)>>,
    /// How much of all usage is whose, where that counts.
    pub percents: Percents,
}

impl Shares {
    /// At a moment: by what they have used until then, running jobs included.
    pub fn of(state: &State, policy: &Policy, now: Time) -> Shares {
        let tree = Tree::of(&policy.fair_share.accounts);
        let member = |who: &Credentials| tree.member(&who.user, who.account.as_deref());
        let waiting: Vec<(&Owner, Member)> =
            state.owners.iter().map(|(owner, (_, who))| (owner, member(who))).collect();
        let mut used: BTreeMap<Member, f64> = waiting.iter().map(|(_, member)| (member.clone(), 0.0)).collect();
        used.extend(charged(&tree, state.usage(), now));
        let percents = match policy.precedence.order {
            Order::Components => Percents::of(&tree, &used),
            _ => Percents::default(),
        };
        let standings = standings(&tree, &policy.fair_share, &used);
        let mut shares = Shares { percents, ..Shares::default() };
        for ((user, account), member) in waiting {
            // Whom nobody knows has used nothing.
            let factor = standings.of(&member).map_or(1.0, |standing| standing.factor);
            shares.factors.entry(*user).or_default().push((account.clone(), factor));
        }
        shares
    }

    /// That of the owner of a class's jobs; None for who had no jobs that waited.
    fn find(&self, class: &ClassKey) -> Option<f64> {
        let of_user = self.factors.get(&class.user)?;
        of_user.iter().find(|(account, _)| *account == class.who.account).map(|(_, factor)| *factor)
    }

    /// All of them, with user and account.
    pub fn all(&self) -> impl Iterator<Item = (User, Option<&str>, f64)> {
        self.factors.iter().flat_map(|(user, accounts)| {
            accounts.iter().map(move |(account, factor)| (*user, account.as_deref(), *factor))
        })
    }

    /// That of the owner of a class's jobs.
    pub fn factor(&self, class: &ClassKey) -> f64 {
        self.find(class).unwrap_or(0.0)
    }

    /// Whether the owner of a class's jobs is among them.
    pub fn knows(&self, class: &ClassKey) -> bool {
        self.find(class).is_some()
    }
}

/// The owner of the jobs of a class.
pub(super) fn owner_of(class: &ClassKey) -> Owner {
    (class.user, class.who.account.clone())
}

/// What is left at a moment of what was used, by whom it is charged to.
pub(super) fn charged(tree: &Tree, usage: &Usage, now: Time) -> BTreeMap<Member, f64> {
    let mut used: BTreeMap<Member, f64> = BTreeMap::new();
    for member in usage.members() {
        *used.entry(tree.named(member)).or_default() += usage.decayed(member, now);
    }
    used
}
