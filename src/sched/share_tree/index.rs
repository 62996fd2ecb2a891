//! An index of the share tree. It stores the place (index of the node) of every member, that is, of
//! every user under an account. New usage of the same members can then be weighed without a search
//! by name.

use super::charged::{Charged, Weighed};
use super::table::weigh;
use super::tree::Tree;
use crate::model::account::member::Member;
use crate::model::policy::FairShare;
use std::collections::BTreeMap;

/// The share tree, with an index of its members.
#[derive(Clone, Debug)]
pub struct ShareIndex {
    policy: FairShare,
    tree: Tree,
    charged: Charged,
}

/// A place in the share tree. Several members may have the same place, for example if only accounts
/// count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeIndex(usize);

/// The fair-share status of a member, for the order of jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FairShareEntry {
    /// The fair-share factor, from 0 to 1. A higher factor gives a higher priority.
    pub factor: f64,
    /// The entitlement, from 0 to 1, as in [`ShareRow`](super::ShareRow).
    pub entitlement: f64,
    /// The effective usage, from 0 to 1, as in [`ShareRow`](super::ShareRow).
    pub used: f64,
}

impl ShareIndex {
    /// Indexes the members that `all` lists: the members with waiting jobs or with usage.
    pub fn new(policy: &FairShare, all: impl Fn(&Tree) -> Vec<Member>) -> ShareIndex {
        let tree = Tree::of(&policy.accounts);
        let nothing: BTreeMap<Member, f64> =
            all(&tree).into_iter().map(|member| (member, 0.0)).collect();
        let charged = Charged::new(&tree, policy.subject, &nothing);
        ShareIndex {
            policy: policy.clone(),
            tree,
            charged,
        }
    }

    /// Whether the index was made for this policy.
    pub fn is_of(&self, policy: &FairShare) -> bool {
        self.policy == *policy
    }

    /// The place to which a job of `user` under this account is charged; None if the index does not
    /// contain it.
    pub fn index(&self, user: &str, account: Option<&str>) -> Option<TreeIndex> {
        self.charged
            .entry_of(self.policy.subject, &self.tree.member(user, account))
            .map(TreeIndex)
    }

    /// The place of a member that is named as in the usage records; None if the index does not
    /// contain it.
    pub fn index_of(&self, member: &Member) -> Option<TreeIndex> {
        self.charged
            .entry_of(self.policy.subject, &self.tree.named(member))
            .map(TreeIndex)
    }

    /// Computes the factors of all places for this usage, in seconds of weighted resources.
    pub fn weigh(&mut self, usage: impl Iterator<Item = (TreeIndex, f64)>) -> FairShareEntries {
        self.charged
            .recharge(usage.map(|(TreeIndex(place), used)| (place, used)));
        FairShareEntries(weigh(&self.charged, &self.policy))
    }
}

/// The result of [`ShareIndex::weigh`] for each place.
pub struct FairShareEntries(Vec<Weighed>);

impl FairShareEntries {
    /// The result for a place.
    pub fn of(&self, TreeIndex(place): TreeIndex) -> FairShareEntry {
        let Weighed {
            factor,
            normalised,
            effective,
            ..
        } = self.0[place];
        FairShareEntry {
            factor,
            entitlement: normalised,
            used: effective,
        }
    }
}
