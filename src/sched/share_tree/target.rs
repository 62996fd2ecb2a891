//! Method `target`, the rule of Maui: how far the usage of an account or user is from its usage
//! target (M12).

use super::charged::{Charged, Weighed};
use crate::model::account::{TargetKind, UsageTarget};
use crate::model::policy::fair_share::Distance;

/// The minimum divisor for a target, in percent, so that a target of 0 causes no division by zero.
const LEAST: f64 = 0.01;

/// How far a usage of `percent` of all usage is below the target: in percent of all usage, or as a
/// fraction of the target. Negative above the target. A floor counts only if the usage is below it,
/// a ceiling only if the usage is above it, and a cap never (M12).
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

/// Whether a usage, which is `percent` of all usage, is above a cap (M12). Always false for a
/// target that is no cap.
pub fn is_capped(target: UsageTarget, usage: f64, percent: f64) -> bool {
    match target.bound {
        TargetKind::Percent => percent > target.value,
        TargetKind::Amount => usage > target.value,
        TargetKind::Target | TargetKind::Floor | TargetKind::Ceiling => false,
    }
}

/// The target of a place (account or user); without a target, its entitlement `normalised`.
pub(super) fn of(tree: &Charged, place: usize, normalised: f64) -> UsageTarget {
    tree.target(place).unwrap_or(UsageTarget {
        value: 100.0 * normalised,
        bound: TargetKind::Target,
    })
}

/// The results of the method for each place. The factor is 0.5 at the target, up to 1 below the
/// target, and down to 0 above the target.
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
