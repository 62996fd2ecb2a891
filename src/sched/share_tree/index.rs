//! An index of the share tree. It holds the place of every member while no member joins or leaves,
//! so that new usage can be weighed without a search by name.

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

/// A place in the tree. Several members may share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeIndex(usize);

/// How somebody stands, as far as jobs are ordered by it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FairShareEntry {
    /// From 0, served too much, to 1, not at all.
    pub factor: f64,
    /// What is theirs of the machine, from 0 to 1.
    pub entitlement: f64,
    /// What the method holds against that, from 0 to 1.
    pub used: f64,
}

impl ShareIndex {
    /// Indexes the members that `all` lists: those with waiting jobs or with usage.
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

    /// The place to which a job of `user` under this account is charged.
    pub fn index(&self, user: &str, account: Option<&str>) -> Option<TreeIndex> {
        self.charged
            .entry_of(self.policy.subject, &self.tree.member(user, account))
            .map(TreeIndex)
    }

    /// The place of a member, as the usage records name it.
    pub fn index_of(&self, member: &Member) -> Option<TreeIndex> {
        self.charged
            .entry_of(self.policy.subject, &self.tree.named(member))
            .map(TreeIndex)
    }

    /// How everybody stands who has used so much, in seconds of weighted resources.
    pub fn weigh(&mut self, usage: impl Iterator<Item = (TreeIndex, f64)>) -> Dues {
        self.charged
            .recharge(usage.map(|(TreeIndex(place), used)| (place, used)));
        Dues(weigh(&self.charged, &self.policy))
    }
}

/// How everybody stands, by seat.
pub struct Dues(Vec<Weighed>);

impl Dues {
    /// How who sits there stands.
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
