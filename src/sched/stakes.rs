//! What everybody owns of the machine, has had of it, and how that stands at a moment.

use super::shares::{Tree, stakes};
use super::snapshot::State;
use crate::model::member::Member;
use crate::model::policy::FairShare;
use crate::model::stake::Stake;
use crate::model::time::Time;
use std::collections::BTreeSet;

impl State {
    /// The tree of shares, row by row, with all who have jobs that wait or have used anything.
    pub fn stakes(&self, policy: &FairShare, now: Time) -> Vec<Stake> {
        let tree = Tree::of(&policy.accounts);
        let owners = self.classes.values().map(|class| &class.key.who);
        let waiting: BTreeSet<Member> = owners.map(|who| tree.member(&who.user, who.account.as_deref())).collect();
        stakes(&tree, policy, self.usage(), &waiting, now)
    }
}
