//! Policies of the literature by name: settings of the one cycle, not algorithms of their own.

use crate::model::policy::{Backfill, FillOrder, Filling, Keep, Order, Policy};

/// A name, and how it sets backfill; the order is first come, first served.
type Shorthand = (&'static str, fn() -> Backfill);

const SHORTHANDS: &[Shorthand] = &[
    ("fcfs", || Backfill { policy: Filling::None, ..Backfill::default() }),
    ("easy", Backfill::default),
    ("easy-sjbf", || Backfill { order: FillOrder::Shortest, ..Backfill::default() }),
    ("conservative", || Backfill { depth: Backfill::ALL, keep: Keep::Highest, ..Backfill::default() }),
];

/// All names.
pub fn names() -> Vec<&'static str> {
    SHORTHANDS.iter().map(|(name, _)| *name).collect()
}

/// A policy with what a shorthand sets laid over it; None for a name that is none.
pub fn applied(name: &str, policy: Policy) -> Option<Policy> {
    let (_, backfill) = SHORTHANDS.iter().find(|(known, _)| *known == name)?;
    Some(Policy { order: Order::Fcfs, backfill: backfill(), ..policy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorthand_sets_backfill_and_leaves_the_rest() {
        let mut policy = Policy::default();
        policy.default_walltime.0 = 7;
        let set = |name| applied(name, policy.clone());
        assert_eq!(set("fcfs").unwrap().backfill.policy, Filling::None);
        let conservative = set("conservative").unwrap();
        assert_eq!((conservative.backfill.depth, conservative.default_walltime.0), (u32::MAX, 7));
        assert_eq!(set("lxf"), None);
        assert!(names().iter().all(|name| set(name).is_some()));
    }
}
