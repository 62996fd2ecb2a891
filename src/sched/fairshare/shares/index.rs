//! Where everybody sits in the tree, kept for as long as nobody joins or leaves: to weigh usage
//! that has only moved on, nobody has to be looked for by name.

use super::charged::Charged;
use super::table::{Weighed, weigh};
use super::tree::Tree;
use crate::model::account::member::Member;
use crate::model::policy::FairShare;
use std::collections::BTreeMap;

/// A tree in which members have their seats.
#[derive(Clone, Debug)]
pub struct Seating {
    policy: FairShare,
    tree: Tree,
    charged: Charged,
}

/// A place in the tree; several members may have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seat(usize);

/// How somebody stands, as far as jobs are ordered by it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Due {
    /// From 0, served too much, to 1, not at all.
    pub factor: f64,
    /// What is theirs of the machine, from 0 to 1.
    pub owed: f64,
    /// What the method holds against that, from 0 to 1.
    pub used: f64,
}

impl Seating {
    /// Seats for all who wait or have used something: they share what there is.
    pub fn new(policy: &FairShare, all: impl Fn(&Tree) -> Vec<Member>) -> Seating {
        let tree = Tree::of(&policy.accounts);
        let nothing: BTreeMap<Member, f64> =
            all(&tree).into_iter().map(|member| (member, 0.0)).collect();
        let charged = Charged::new(&tree, policy.subject, &nothing);
        Seating {
            policy: policy.clone(),
            tree,
            charged,
        }
    }

    /// Whether it is that of a policy.
    pub fn is_of(&self, policy: &FairShare) -> bool {
        self.policy == *policy
    }

    /// Where a job of `user` that asks for this account is charged.
    pub fn seat(&self, user: &str, account: Option<&str>) -> Option<Seat> {
        self.charged
            .seat(self.policy.subject, &self.tree.member(user, account))
            .map(Seat)
    }

    /// Where what a member is charged counts, by whatever name usage has it.
    pub fn seat_of(&self, member: &Member) -> Option<Seat> {
        self.charged
            .seat(self.policy.subject, &self.tree.named(member))
            .map(Seat)
    }

    /// How everybody stands who has used so much, in seconds of weighted resources.
    pub fn weigh(&mut self, usage: impl Iterator<Item = (Seat, f64)>) -> Dues {
        self.charged
            .recharge(usage.map(|(Seat(place), used)| (place, used)));
        Dues(weigh(&self.charged, &self.policy))
    }
}

/// How everybody stands, by seat.
pub struct Dues(Vec<Weighed>);

impl Dues {
    /// How who sits there stands.
    pub fn of(&self, Seat(place): Seat) -> Due {
        let Weighed {
            factor,
            normalised,
            effective,
            ..
        } = self.0[place];
        Due {
            factor,
            owed: normalised,
            used: effective,
        }
    }
}
