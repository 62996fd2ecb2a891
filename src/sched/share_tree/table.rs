//! The share table: shares, usage and factor of each account and user.

use super::charged::{Charged, Weighed, account_of, key};
use super::tree::Tree;
use super::{classic, fair_tree, linear, target};
use crate::model::account::Shares;
use crate::model::account::member::Member;
use crate::model::policy::FairShare;
use crate::model::policy::fair_share::{Method, UsageSubject};
use std::collections::BTreeMap;

/// The row of an account, or of a user under an account.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareRow {
    /// The configured shares.
    pub shares: Shares,
    /// The entitlement, from 0 to 1, as a fraction of the cluster. With method `fairtree`, as a
    /// fraction of the part that the siblings divide.
    pub normalised: f64,
    /// The decayed usage in seconds of weighted resources. The usage of an account includes all
    /// accounts and users below it.
    pub usage: f64,
    /// The usage as a fraction of all usage, from 0 to 1.
    pub used: f64,
    /// The effective usage, from 0 to 1. With method `classic`, it includes a part of the effective
    /// usage of the parent. With `fairtree`, it is a fraction of the usage of the siblings. With
    /// the other methods, it equals `used`.
    pub effective: f64,
    /// The value from which the method computes the factor. With `linear`, a priority from 0 to
    /// 1,000,000. With `fairtree`, shares divided by usage, both as fractions of the sums of the
    /// siblings; infinite with shares but without usage, and None for a row with the shares of its
    /// parent. With `target`, the distance. Otherwise None.
    pub level: Option<f64>,
    /// The rank among members, or among accounts: 1 comes first, and rows with equal factors have
    /// the same rank.
    pub rank: usize,
    /// The fair-share factor, from 0 to 1. A higher factor gives a higher priority.
    pub factor: f64,
    /// Whether the usage is above a cap. A cap changes no factor (M12) and stops no job. Always
    /// false with a method other than `target`.
    pub is_capped: bool,
}

/// Shares, usage and factor of all accounts and users.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareTable {
    /// Whether the row of the account, of the user, or of the user under the account counts for a
    /// job.
    pub subject: UsageSubject,
    /// The rows of the accounts, by name.
    pub accounts: BTreeMap<String, ShareRow>,
    /// The rows of the users under accounts. The account is empty if accounts do not count. The map
    /// is empty if only accounts count.
    pub members: BTreeMap<Member, ShareRow>,
    is_flat: bool,
}

impl ShareTable {
    /// The row that counts for a job of a member (user under an account): the row of the member or
    /// of its account, depending on the subject. None if the table has no such row, because it is
    /// neither configured nor part of the usage given to [`share_table`].
    pub fn of(&self, member: &Member) -> Option<&ShareRow> {
        match self.subject {
            UsageSubject::Account | UsageSubject::Pool => self.accounts.get(account_of(member)),
            UsageSubject::Member | UsageSubject::User => {
                self.members.get(&key(self.is_flat, member))
            }
        }
    }
}

/// Makes the table of all accounts and users in the tree and in `usage`. `usage` is in seconds of
/// weighted resources. It must list every member with jobs, named as by [`Tree::member`], with 0 if
/// the member has no usage, because the listed members divide the shares.
pub fn share_table(tree: &Tree, policy: &FairShare, usage: &BTreeMap<Member, f64>) -> ShareTable {
    let charged = Charged::new(tree, policy.subject, usage);
    let weighed = weigh(&charged, policy);
    let tree = &charged.tree;
    let accounts = tree
        .accounts
        .iter()
        .map(|(name, place)| (name.clone(), row(&charged, &weighed, *place)));
    let members = tree
        .members
        .iter()
        .map(|(member, place)| (member.clone(), row(&charged, &weighed, *place)));
    ShareTable {
        subject: policy.subject,
        accounts: ranked(accounts),
        members: ranked(members),
        is_flat: tree.is_flat(),
    }
}

/// The result of the configured method for each place (account or user in the tree).
pub(super) fn weigh(charged: &Charged, policy: &FairShare) -> Vec<Weighed> {
    match policy.method {
        Method::Classic => classic::weigh(charged),
        Method::Linear => linear::weigh(charged),
        Method::Tree => fair_tree::weigh(charged, policy.tie_rule),
        Method::Target => target::weigh(charged, policy.distance),
        Method::Off => off(charged),
    }
}

fn row(charged: &Charged, weighed: &[Weighed], place: usize) -> ShareRow {
    let Weighed {
        normalised,
        effective,
        level,
        factor,
        is_capped,
    } = weighed[place];
    let shares = charged.tree.nodes[place].shares;
    let (usage, used) = (charged.usage(place), charged.used(place));
    ShareRow {
        shares,
        normalised,
        usage,
        used,
        effective,
        level,
        rank: 0,
        factor,
        is_capped,
    }
}

/// Sets the rank of each row: one more than the number of rows with a larger factor.
fn ranked<K: Ord>(all: impl Iterator<Item = (K, ShareRow)>) -> BTreeMap<K, ShareRow> {
    let mut all: BTreeMap<K, ShareRow> = all.collect();
    let mut rows: Vec<&mut ShareRow> = all.values_mut().collect();
    rows.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    let (mut rank, mut last) = (0, f64::INFINITY);
    for (before, row) in rows.into_iter().enumerate() {
        if row.factor < last {
            (rank, last) = (before + 1, row.factor);
        }
        row.rank = rank;
    }
    all
}

/// The results without a method: all factors are 0.5.
fn off(charged: &Charged) -> Vec<Weighed> {
    let entitlements = charged.entitlements().into_iter().enumerate();
    entitlements
        .map(|(place, normalised)| Weighed {
            normalised,
            effective: charged.used(place),
            level: None,
            factor: 0.5,
            is_capped: false,
        })
        .collect()
}
