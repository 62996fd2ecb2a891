//! Method `classic`: the factor is 1 without effective usage, 0.5 if the effective usage equals the
//! entitlement, 0.25 if the effective usage is twice the entitlement, and so on (F3, F11). Without
//! shares the factor is 0. PBS uses the same formula (I16).
//!
//! The usage of an account affects its users. The effective usage of a user or account is its own
//! usage, plus a part of the difference between the effective usage of its parent and its own
//! usage. The part is the shares of the user or account, divided by the sum of its shares and those
//! of its siblings. A user without usage in an account with usage therefore comes after a user
//! without usage in an account without usage.
//!
//! There are two exceptions. An account or user with the shares of its parent has the effective
//! usage of its parent (1 for the root). Any other account or user directly below the root has its
//! own usage as effective usage.

use super::charged::{Charged, Weighed};
use super::tree::ROOT;

/// The effective usage of an account or user. `own` is its fraction of all usage, `parents` the
/// effective usage of its parent, and `part` its shares divided by the sum of its shares and those
/// of its siblings. Each is from 0 to 1 (F11, I16).
pub fn effective(own: f64, parents: f64, part: f64) -> f64 {
    own + (parents - own) * part
}

/// The factor for an effective usage and an entitlement (`shares`), both as fractions; 0 without
/// shares (F11).
pub fn factor(effective: f64, shares: f64) -> f64 {
    if shares > 0.0 {
        (-effective / shares).exp2()
    } else {
        0.0
    }
}

pub(super) fn weigh(tree: &Charged) -> Vec<Weighed> {
    let entitlements = tree.entitlements();
    let mut held = vec![1.0; entitlements.len()];
    for place in tree.places() {
        let (above, used) = (tree.above(place), tree.used(place));
        held[place] = match tree.part(place) {
            None => held[above],
            // Directly below the root, the effective usage is the own usage.
            Some(_) if above == ROOT => used,
            Some(part) => effective(used, held[above], part),
        };
    }
    entitlements
        .into_iter()
        .zip(held)
        .map(|(normalised, effective)| Weighed {
            normalised,
            effective,
            level: None,
            factor: factor(effective, normalised),
            is_capped: false,
        })
        .collect()
}
