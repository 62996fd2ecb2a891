//! Maui's rule: how far somebody is from what they are to have, in percent (M12).

use super::charged::{Charged, Weighed};
use crate::model::account::{TargetKind, UsageTarget};
use crate::model::policy::fair_share::Distance;

/// The least a target counts for where it divides, in percent.
const LEAST: f64 = 0.01;

/// How far somebody with `percent` of all usage is below their target: in percent, or as a part of
/// the target. Above it, it is negative; a cap is no matter of priority (M12).
pub fn delta(target: UsageTarget, percent: f64, distance: Distance) -> f64 {
    let delta = match distance {
        Distance::Difference => target.value - percent,
        Distance::Ratio => 1.0 - percent / target.value.max(LEAST),
    };
    match target.bound {
        TargetKind::Target => delta,
        TargetKind::Floor => delta.max(0.0),
        TargetKind::Ceiling => delta.min(0.0),
        TargetKind::Percent | TargetKind::Amount => 0.0,
    }
}

/// Whether somebody with so much usage, which is `percent` of all, is above a cap (M12).
pub fn is_capped(target: UsageTarget, usage: f64, percent: f64) -> bool {
    match target.bound {
        TargetKind::Percent => percent > target.value,
        TargetKind::Amount => usage > target.value,
        TargetKind::Target | TargetKind::Floor | TargetKind::Ceiling => false,
    }
}

/// What a place is to have: without a target what its shares give it.
pub(super) fn of(tree: &Charged, place: usize, normalised: f64) -> UsageTarget {
    tree.target(place).unwrap_or(UsageTarget {
        value: 100.0 * normalised,
        bound: TargetKind::Target,
    })
}

/// The factor is 0.5 on target, 1 all of it below and 0 all of it above.
pub(super) fn weigh(tree: &Charged, distance: Distance) -> Vec<Weighed> {
    let full = if distance == Distance::Difference {
        100.0
    } else {
        1.0
    };
    let entitlements = tree.entitlements().into_iter().enumerate();
    entitlements
        .map(|(place, normalised)| {
            let percent = 100.0 * tree.used(place);
            let target = of(tree, place, normalised);
            let level = delta(target, percent, distance);
            Weighed {
                normalised,
                effective: tree.used(place),
                level: Some(level),
                factor: (0.5 + level / full / 2.0).clamp(0.0, 1.0),
                is_capped: is_capped(target, tree.usage(place), percent),
            }
        })
        .collect()
}
