//! The share tree with the usage of each place. A place is a node of the tree: the root, an
//! account, or a user under an account. The usage of a place includes all places below it.

use super::tree::{ROOT, Tree};
use crate::model::account::member::Member;
use crate::model::account::{ROOT_NAME, Shares, UsageTarget};
use crate::model::policy::fair_share::UsageSubject;
use std::collections::BTreeMap;

/// The maximum usage of a member in seconds of weighted resources. It keeps sums finite.
const MOST: f64 = 1e200;

/// A tree with usage. An account with the shares of its parent adds no level: its children and the
/// other children of its parent divide the part of the parent.
#[derive(Clone, Debug)]
pub struct Charged {
    pub(super) tree: Tree,
    usage: Vec<f64>,
    /// For each place, the ancestor from which the place receives its part.
    above: Vec<usize>,
    /// For each place, the sum of the shares of the places that divide its part.
    sums: Vec<f64>,
    is_leaf: Vec<bool>,
}

/// The result of a method for one place; the fields are those of `ShareRow`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weighed {
    pub normalised: f64,
    pub effective: f64,
    pub level: Option<f64>,
    pub factor: f64,
    pub is_capped: bool,
}

impl Charged {
    /// The tree with the usage of each member (user under an account), charged to the member, its
    /// user or its account, as `subject` selects (X5).
    pub fn new(tree: &Tree, subject: UsageSubject, usage: &BTreeMap<Member, f64>) -> Charged {
        let mut tree = match subject {
            UsageSubject::Member => tree.clone(),
            UsageSubject::Account | UsageSubject::Pool => tree.of_accounts(),
            UsageSubject::User => Tree::bare(true),
        };
        let mut own: BTreeMap<usize, f64> = BTreeMap::new();
        for (member, usage) in usage {
            *own.entry(place(&mut tree, subject, member)).or_default() += clamped(*usage);
        }
        let mut usage = vec![0.0; tree.nodes.len()];
        for (place, own) in own {
            usage[place] = own;
        }
        Charged::summed(tree, usage)
    }

    /// Replaces all usage; `own` is the usage of each place without the places below it.
    pub(super) fn recharge(&mut self, own: impl Iterator<Item = (usize, f64)>) {
        self.usage.fill(0.0);
        for (place, usage) in own {
            self.usage[place] += clamped(usage);
        }
        self.tree.sum_up(&mut self.usage);
    }

    fn summed(tree: Tree, usage: Vec<f64>) -> Charged {
        let count = tree.nodes.len();
        let mut above = vec![ROOT; count];
        let mut sums = vec![0.0; count];
        let mut is_leaf = vec![true; count];
        for (place, node) in tree.nodes.iter().enumerate().skip(1) {
            let has_level = node.parent == ROOT || tree.nodes[node.parent].shares != Shares::Parent;
            above[place] = if has_level {
                node.parent
            } else {
                above[node.parent]
            };
            if let Shares::Of(shares) = node.shares {
                sums[above[place]] += shares;
            }
            is_leaf[node.parent] = false;
        }
        if !tree.members.is_empty() {
            is_leaf = tree.nodes.iter().map(|node| node.is_user).collect();
        }
        let mut charged = Charged {
            tree,
            usage,
            above,
            sums,
            is_leaf,
        };
        charged.tree.sum_up(&mut charged.usage);
        charged
    }

    /// The place to which the usage of a member is charged; None if the tree has no such place.
    pub fn entry_of(&self, subject: UsageSubject, member: &Member) -> Option<usize> {
        match subject {
            UsageSubject::Account | UsageSubject::Pool => {
                self.tree.accounts.get(account_of(member)).copied()
            }
            UsageSubject::Member | UsageSubject::User => self
                .tree
                .members
                .get(&key(self.tree.is_flat(), member))
                .copied(),
        }
    }

    /// All places except the root, parents first.
    pub fn places(&self) -> std::ops::Range<usize> {
        1..self.usage.len()
    }

    /// The ancestor from which a place receives its part.
    pub fn above(&self, place: usize) -> usize {
        self.above[place]
    }

    /// The place's fraction, from 0 to 1, of the part of its ancestor [`above`](Self::above). None
    /// for a place with the shares of its parent.
    pub fn part(&self, place: usize) -> Option<f64> {
        match self.tree.nodes[place].shares {
            Shares::Of(shares) => Some(ratio(shares, self.sums[self.above[place]])),
            Shares::Parent => None,
        }
    }

    /// The usage of a place, including all places below it.
    pub fn usage(&self, place: usize) -> f64 {
        self.usage[place]
    }

    /// The usage of a place as a fraction of all usage, from 0 to 1.
    pub fn used(&self, place: usize) -> f64 {
        ratio(self.usage[place], self.usage[ROOT])
    }

    /// Whether the place is ranked: a user, or in a tree without users, an account without accounts
    /// below it.
    pub fn is_leaf(&self, place: usize) -> bool {
        self.is_leaf[place]
    }

    /// The configured usage target of a place.
    pub fn target(&self, place: usize) -> Option<UsageTarget> {
        self.tree.nodes[place].target
    }

    /// The entitlement of each place as a fraction of the whole cluster, from 0 to 1.
    pub fn entitlements(&self) -> Vec<f64> {
        let mut entitlements = vec![1.0; self.usage.len()];
        for place in self.places() {
            entitlements[place] = entitlements[self.above[place]] * self.part(place).unwrap_or(1.0);
        }
        entitlements
    }
}

/// The place to which the usage of a member is charged; adds the member or account if missing.
fn place(tree: &mut Tree, subject: UsageSubject, member: &Member) -> usize {
    match subject {
        UsageSubject::Account | UsageSubject::Pool => tree.account(account_of(member)),
        UsageSubject::Member | UsageSubject::User => {
            let key = key(tree.is_flat(), member);
            tree.entry_or_insert(&key)
        }
    }
}

/// Clamps usage to finite values of 0 or more; NaN counts as 0.
fn clamped(usage: f64) -> f64 {
    if usage.is_nan() {
        0.0
    } else {
        usage.clamp(0.0, MOST)
    }
}

/// The member as a key of the tree. In a tree without accounts, the requested account does not
/// count.
pub fn key(is_flat: bool, member: &Member) -> Member {
    Member::new(if is_flat { "" } else { account_of(member) }, &member.user)
}

/// The account of a member; empty for the root.
pub fn account_of(member: &Member) -> &str {
    if member.account == ROOT_NAME {
        ""
    } else {
        &member.account
    }
}

/// `part` divided by `whole`; 0 if `whole` is 0.
pub fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
