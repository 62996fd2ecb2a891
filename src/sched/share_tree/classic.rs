//! Half for each share used up: 1 for nothing used, 0.5 for exactly one's share, 0.25 for twice
//! that (F3, F11; PBS's is the same, I16).
//!
//! A user answers for the account too: the usage held against a child is its own, and of what the
//! parent's exceeds it, the child's part. So an idle user in a busy account goes after an idle
//! user in an idle one.

use super::charged::{Charged, Weighed};
use super::tree::ROOT;

/// The usage held against a child: its `own` part of all usage, that held against its parent, and
/// the child's part of the shares among its siblings, each from 0 to 1 (F11, I16).
pub fn effective(own: f64, parents: f64, part: f64) -> f64 {
    own + (parents - own) * part
}

/// The factor of who is owed `shares` of the machine and has effectively used `effective` of it;
/// 0 without shares (F11).
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
            // The accounts of the first level answer for themselves alone.
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
