//! Scheduling policies that are known from the literature, by name. Each policy is a set of
//! settings for the same scheduling cycle.

use crate::model::policy::{Backfill, BookingRetention, FillOrder, Filling, Policy, Precedence};

/// The name, the queue order, and the backfill settings.
type Shorthand = (&'static str, fn() -> Precedence, fn() -> Backfill);

const SHORTHANDS: &[Shorthand] = &[
    ("fcfs", Precedence::fcfs, || Backfill {
        policy: Filling::None,
        ..Backfill::default()
    }),
    ("easy", Precedence::fcfs, Backfill::default),
    ("easy-sjbf", Precedence::fcfs, shortest_first),
    ("conservative", Precedence::fcfs, || Backfill {
        depth: Backfill::ALL,
        keep: BookingRetention::Highest,
        ..Backfill::default()
    }),
    ("lxf+easy", largest_expansion_first, Backfill::default),
    ("lxf+easy-sjbf", largest_expansion_first, shortest_first),
    (
        "wfp3+easy",
        || Precedence::by_formula("(eligible_time / walltime) ** 3 * ncpus"),
        Backfill::default,
    ),
];

fn shortest_first() -> Backfill {
    Backfill {
        order: FillOrder::Shortest,
        ..Backfill::default()
    }
}

fn largest_expansion_first() -> Precedence {
    Precedence::by_formula("(eligible_time + walltime) / walltime")
}

/// The names of all shorthands.
pub fn names() -> Vec<&'static str> {
    SHORTHANDS.iter().map(|(name, ..)| *name).collect()
}

/// `policy` with the settings of a shorthand; None for an unknown name.
pub fn applied(name: &str, policy: Policy) -> Option<Policy> {
    let (_, precedence, backfill) = SHORTHANDS.iter().find(|(known, ..)| *known == name)?;
    Some(Policy {
        precedence: precedence(),
        backfill: backfill(),
        ..policy
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorthand_changes_only_order_and_backfill() {
        let mut policy = Policy::default();
        policy.default_walltime.0 = 7;
        let set = |name| applied(name, policy.clone());
        assert_eq!(set("fcfs").unwrap().backfill.policy, Filling::None);
        let conservative = set("conservative").unwrap();
        assert_eq!(
            (conservative.backfill.depth, conservative.default_walltime.0),
            (u32::MAX, 7)
        );
        assert_eq!(set("sjf"), None);
        assert!(names().iter().all(|name| set(name).is_some()));
    }
}
