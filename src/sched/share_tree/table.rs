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
    /// The entitlement, from 0 to 1: a part of the whole machine, or with `fairtree` of the part
    /// that the siblings divide.
    pub normalised: f64,
    /// Seconds of weighted resources; for an account, including all places below.
    pub usage: f64,
    /// The usage as a part of all usage, from 0 to 1.
    pub used: f64,
    /// The effective usage, from 0 to 1: with `classic` including a part of the parent's effective
    /// usage, with `fairtree` as a part of the siblings' usage.
    pub effective: f64,
    /// The value before scaling: with `linear` 0 to 1,000,000; with `fairtree` shares over usage
    /// among siblings, infinite without usage; with `target` the distance.
    pub level: Option<f64>,
    /// The rank among members, or among accounts: 1 comes first, and equal rows have the same rank.
    pub rank: usize,
    /// From 0 (far above its share) to 1 (no usage).
    pub factor: f64,
    /// Whether the usage is above a cap, so that jobs may not start. A cap changes no factor (M12).
    pub is_capped: bool,
}

/// Shares, usage and factor of all accounts and users.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareTable {
    /// The rows that count for a job.
    pub subject: UsageSubject,
    /// The accounts, each with all places below.
    pub accounts: BTreeMap<String, ShareRow>,
    /// Users under accounts, or without account if accounts do not count. Empty if only accounts
    /// count.
    pub members: BTreeMap<Member, ShareRow>,
    is_flat: bool,
}

impl ShareTable {
    /// The row for a job of a member; None if neither `usage` nor an account listed the member.
    pub fn of(&self, member: &Member) -> Option<&ShareRow> {
        match self.subject {
            UsageSubject::Account | UsageSubject::Pool => self.accounts.get(account_of(member)),
            UsageSubject::Member | UsageSubject::User => {
                self.members.get(&key(self.is_flat, member))
            }
        }
    }
}

/// Makes the table of all accounts and users in the tree and in `usage`. `usage`, in seconds of
/// weighted resources, must list every member with jobs under the name that [`Tree::member`] gives
/// it, with 0 if nothing was charged: the listed members divide the shares.
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

/// The result of the policy's method for each place.
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

/// Sets the ranks: one more than the number of larger factors.
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

/// Without a method, all factors are 0.5.
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
