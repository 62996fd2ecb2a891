//! Halves the factor for each share used: 1 without usage, 0.5 at exactly the share, 0.25 at twice
//! the share (F3, F11; PBS's is the same, I16).
//!
//! The usage of an account affects its users: the effective usage of a child is its own usage, plus
//! its part of the difference to the parent's effective usage. An idle user in a busy account
//! therefore comes after an idle user in an idle account.

use super::charged::{Charged, Weighed};
use super::tree::ROOT;

/// The effective usage of a child: `own` is its part of all usage, `parents` the parent's effective
/// usage, `part` the child's part of the shares among its siblings, each from 0 to 1 (F11, I16).
pub fn effective(own: f64, parents: f64, part: f64) -> f64 {
    own + (parents - own) * part
}

/// The factor of a member with `shares` of the machine and this effective usage; 0 without shares
/// (F11).
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
            // The usage of accounts at the first level counts without adjustment.
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
