//! Policies of the literature by name: settings of the one cycle, not algorithms of their own.

use crate::model::policy::{Backfill, FillOrder, Filling, Order, Policy};

/// A name, and what it sets.
type Shorthand = (&'static str, fn(&mut Policy));

const SHORTHANDS: &[Shorthand] = &[
    ("fcfs", |policy| policy.backfill.policy = Filling::None),
    ("easy", |_| ()),
    ("easy-sjbf", |policy| policy.backfill.order = FillOrder::Shortest),
    ("conservative", |policy| policy.backfill.depth = Backfill::ALL),
];

/// All names.
pub fn names() -> Vec<&'static str> {
    SHORTHANDS.iter().map(|(name, _)| *name).collect()
}

/// A policy with what a shorthand sets laid over it.
pub fn applied(name: Option<&str>, mut policy: Policy) -> Policy {
    if let Some((_, set)) = name.and_then(|name| SHORTHANDS.iter().find(|(known, _)| *known == name)) {
        policy.order = Order::Fcfs;
        policy.backfill = Backfill::default();
        set(&mut policy);
    }
    policy
}
