//! IT4I's rule: the smaller a member's part of all usage, the higher its priority. Shares do not
//! count, and a new member has the maximum (I3).

use super::charged::{Charged, Weighed, ratio};

/// The priority without usage.
pub const MAX_FAIRSHARE: f64 = 1e6;

/// 1,000,000 x (1 - usage / total); the maximum if nothing was used at all (I3).
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
