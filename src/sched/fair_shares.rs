//! What each of those who wait has had of what is theirs, as a factor (F3, F11).

use super::shape::{ClassKey, User};
use super::shares::{Standing, Tree, standings};
use super::snapshot::State;
use crate::model::credentials::Credentials;
use crate::model::member::Member;
use crate::model::policy::FairShare;
use crate::model::time::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A user, with the account asked for.
pub(super) type Owner = (User, Option<String>);

/// The owners of those who wait, each with the number of classes.
pub(super) type Owners = BTreeMap<Owner, (usize, Arc<Credentials>)>;

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
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// By user, then by the account asked for.
    dues: BTreeMap<User, Vec<(Option<String>, Due)>>,
}

impl Shares {
    /// At a moment: by what they have used until then, running jobs included.
    pub fn of(state: &State, policy: &FairShare, now: Time) -> Shares {
        let tree = Tree::of(&policy.accounts);
        let member = |who: &Credentials| tree.member(&who.user, who.account.as_deref());
        let waiting: Vec<(&Owner, Member)> =
            state.owners.iter().map(|(owner, (_, who))| (owner, member(who))).collect();
        let mut used: BTreeMap<Member, f64> = waiting.iter().map(|(_, member)| (member.clone(), 0.0)).collect();
        let usage = state.usage();
        for member in usage.members() {
            let account = Some(member.account.as_str()).filter(|account| !account.is_empty());
            *used.entry(tree.member(&member.user, account)).or_default() += usage.decayed(member, now);
        }
        let standings = standings(&tree, policy, &used);
        let mut shares = Shares::default();
        for ((user, account), member) in waiting {
            let due = standings.of(&member).map_or(Due::STRANGER, Due::of);
            shares.dues.entry(*user).or_default().push((account.clone(), due));
        }
        shares
    }

    /// That of the owner of a class's jobs; None for who had no jobs that waited.
    pub fn due(&self, class: &ClassKey) -> Option<Due> {
        let of_user = self.dues.get(&class.user)?;
        of_user.iter().find(|(account, _)| *account == class.who.account).map(|(_, due)| *due)
    }

    /// The factor of the owner of a class's jobs; 0 where shares do not count.
    pub fn factor(&self, class: &ClassKey) -> f64 {
        self.due(class).map_or(0.0, |due| due.factor)
    }

    /// Whether the owner of a class's jobs is among them.
    pub fn knows(&self, class: &ClassKey) -> bool {
        self.due(class).is_some()
    }
}

/// The owner of the jobs of a class.
pub(super) fn owner_of(class: &ClassKey) -> Owner {
    (class.user, class.who.account.clone())
}
