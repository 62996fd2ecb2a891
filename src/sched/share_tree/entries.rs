//! The rows of the fair-share report: shares, usage and factor of each account and user.

use super::balance::UsageTrend;
use super::charged::Charged;
use super::table::{ShareRow, ShareTable, share_table};
use super::tree::{ROOT, Tree};
use crate::model::account::member::Member;
use crate::model::policy::FairShare;
use crate::model::report::share_status::{ShareStatus, TimeToBalance};
use crate::model::time::Time;
use crate::sched::share_tree::usage::UsageTable;
use std::collections::BTreeMap;

/// The rows of all accounts and users. Each account comes before the accounts and users below it.
/// `decayed` is the decayed usage of each member (user under an account), named as by
/// [`Tree::member`]. It includes members with waiting jobs and no usage.
pub fn entries(
    tree: &Tree,
    policy: &FairShare,
    usage: &UsageTable,
    decayed: &BTreeMap<Member, f64>,
    now: Time,
) -> Vec<ShareStatus> {
    let all = usage.all(now);
    let charged = &Charged::new(tree, policy.subject, decayed);
    let places: Vec<Option<usize>> = usage
        .members()
        .map(|member| charged.entry_of(policy.subject, &tree.named(member)))
        .collect();
    let mut raw = vec![0.0; charged.places().end];
    let mut in_use = raw.clone();
    for (entry, used) in places.iter().zip(&all) {
        if let Some(entry) = *entry {
            raw[entry] += used.raw;
            in_use[entry] += used.now;
        }
    }
    charged.tree.sum_up(&mut raw);
    charged.tree.sum_up(&mut in_use);
    let balances = UsageTrend {
        charged,
        policy,
        usage,
        places: &places,
        now,
    }
    .balances();
    let mut rows = Rows {
        charged,
        table: share_table(tree, policy, decayed),
        raw,
        in_use,
        balances,
        below: vec![Vec::new(); charged.places().end],
        out: Vec::new(),
    };
    rows.sort_children();
    rows.add_below(ROOT, 0);
    rows.out
}

/// The input of the report, and the rows written so far.
struct Rows<'a> {
    charged: &'a Charged,
    table: ShareTable,
    raw: Vec<f64>,
    in_use: Vec<f64>,
    balances: Vec<TimeToBalance>,
    /// The children of each place (node of the tree): accounts by name, then users.
    below: Vec<Vec<(EntryName<'a>, usize)>>,
    out: Vec<ShareStatus>,
}

#[derive(Clone, Copy)]
enum EntryName<'a> {
    Account(&'a str),
    User(&'a Member),
}

impl<'a> Rows<'a> {
    fn sort_children(&mut self) {
        let tree = &self.charged.tree;
        let accounts = tree
            .accounts
            .iter()
            .map(|(name, &place)| (EntryName::Account(name), place));
        let members = tree
            .members
            .iter()
            .map(|(member, &place)| (EntryName::User(member), place));
        for (name, place) in accounts.chain(members) {
            self.below[tree.nodes[place].parent].push((name, place));
        }
    }

    fn add_below(&mut self, parent: usize, depth: u32) {
        for (name, place) in std::mem::take(&mut self.below[parent]) {
            self.add(name, place, depth);
            self.add_below(place, depth + 1);
        }
    }

    fn add(&mut self, name: EntryName<'a>, place: usize, depth: u32) {
        let (account, user, row) = match name {
            EntryName::Account(name) => (name, None, self.table.accounts.get(name)),
            EntryName::User(member) => (
                &*member.account,
                Some(member.user.clone()),
                self.table.members.get(member),
            ),
        };
        let Some(row) = row else { return };
        let &ShareRow {
            shares,
            normalised,
            usage,
            used,
            effective,
            level,
            rank,
            factor,
            is_capped,
        } = row;
        self.out.push(ShareStatus {
            account: account.to_string(),
            user,
            depth,
            shares,
            target: self.charged.target(place),
            normalised,
            raw: self.raw[place],
            decayed: usage,
            in_use: self.in_use[place],
            used,
            effective,
            level,
            factor,
            rank: rank as u64,
            is_capped,
            balance: self.balances[place],
        });
    }
}

#[cfg(test)]
mod tests;
