//! Method `linear`, the rule of IT4I: the smaller the fraction of all usage that an account or user
//! has, the higher its priority. Shares do not count, and an account or user without usage has the
//! maximum priority (I3).

use super::charged::{Charged, Weighed, ratio};

/// The maximum fair-share priority, which an account or user without usage has.
pub const MAX_FAIRSHARE: f64 = 1e6;

/// The fair-share priority: 1,000,000 x (1 - usage / total); the maximum if `total` is 0 (I3).
pub fn priority(usage: f64, total: f64) -> f64 {
    MAX_FAIRSHARE * (1.0 - ratio(usage, total))
}

pub(super) fn weigh(tree: &Charged) -> Vec<Weighed> {
    let entitlements = tree.entitlements().into_iter().enumerate();
    entitlements
        .map(|(place, normalised)| {
            let level = priority(tree.used(place), 1.0);
            Weighed {
                normalised,
                effective: tree.used(place),
                level: Some(level),
                factor: level / MAX_FAIRSHARE,
                is_capped: false,
            }
        })
        .collect()
}
