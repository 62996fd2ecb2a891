//! Method `fairtree`, as in Slurm: a walk through the tree that ranks all users. Among siblings, it
//! first visits the account or user with the lowest usage in relation to its shares. An account
//! with higher usage in relation to its shares comes later with all its users, however low the
//! usage of one of these users is (F12).
//!
//! Siblings are sorted by their *level* (Slurm's Level FS): shares divided by usage, both as
//! fractions of the sums of the siblings. The level is infinite without usage, and 0 without
//! shares. The walk ranks users as it reaches them and descends into accounts. Accounts of equal
//! level are visited as one account. Ranks are counted from the last user, so the first user has
//! the highest rank. The factor of a user is its rank divided by the number of users; an account
//! has the factor of its first user. A factor of 0.5 does not mean that the usage equals the share.
//! If users do not count, the accounts without accounts below them are ranked instead.

use super::charged::{Charged, Weighed, ratio};
use super::tree::ROOT;
use crate::model::policy::fair_share::TieRule;

/// The relative difference up to which the tie rule `flux` treats levels as equal.
const ROUNDING: f64 = 1e-9;

pub(super) fn weigh(tree: &Charged, tie_rule: TieRule) -> Vec<Weighed> {
    let mut weighed = vec![at_level(tree, ROOT, 1.0)];
    for place in tree.places() {
        let parents = weighed[tree.above(place)].normalised;
        weighed.push(at_level(tree, place, parents));
    }
    let levels = weighed
        .iter()
        .map(|row| row.level.unwrap_or(f64::INFINITY))
        .collect();
    let factors = Walk::new(tree, tie_rule, levels).factors();
    for (row, factor) in weighed.iter_mut().zip(factors) {
        row.factor = factor;
    }
    weighed
}

/// The result for a place (account or user), with its level among its siblings, but without a
/// factor. A place with the shares of its parent has no level and comes first.
fn at_level(tree: &Charged, place: usize, parents: f64) -> Weighed {
    let part = tree.part(place);
    let effective = ratio(tree.usage(place), tree.usage(tree.above(place)));
    let level = part.map(|part| {
        if part > 0.0 && effective <= 0.0 {
            f64::INFINITY
        } else {
            ratio(part, effective)
        }
    });
    Weighed {
        normalised: part.unwrap_or(parents),
        effective,
        level,
        factor: 0.0,
        is_capped: false,
    }
}

/// The state of the walk.
struct Walk<'a> {
    tree: &'a Charged,
    tie_rule: TieRule,
    levels: Vec<f64>,
    /// For each place, the places that divide its part.
    below: Vec<Vec<usize>>,
    /// The number of places to rank.
    count: usize,
    /// The most recent rank. Ranks are counted from the end: the last place has rank 1.
    rank: usize,
    /// The rank of the next place, unless it ties with the previous place.
    next: usize,
    factors: Vec<f64>,
}

impl<'a> Walk<'a> {
    fn new(tree: &'a Charged, tie_rule: TieRule, levels: Vec<f64>) -> Walk<'a> {
        let mut below = vec![Vec::new(); levels.len()];
        for place in tree
            .places()
            .filter(|&place| tree.is_leaf(place) || tree.part(place).is_some())
        {
            below[tree.above(place)].push(place);
        }
        let count = tree.places().filter(|&place| tree.is_leaf(place)).count();
        let factors = vec![1.0; levels.len()];
        Walk {
            tree,
            tie_rule,
            levels,
            below,
            count,
            rank: count,
            next: count,
            factors,
        }
    }

    fn factors(mut self) -> Vec<f64> {
        let first = std::mem::take(&mut self.below[ROOT]);
        self.visit(first, false);
        // An account with the shares of its parent was not visited, and gets the factor of the
        // account above it.
        for place in self.tree.places() {
            if self.tree.part(place).is_none() && !self.tree.is_leaf(place) {
                self.factors[place] = self.factors[self.tree.above(place)];
            }
        }
        self.factors
    }

    /// Ranks siblings and all places below them. `tied` means that the first siblings get the most
    /// recent rank. The recursion is as deep as the tree of accounts.
    fn visit(&mut self, children: Vec<usize>, mut tied: bool) {
        for equals in self.groups(children) {
            let (leaves, accounts): (Vec<usize>, Vec<usize>) =
                equals.iter().partition(|&&p| self.tree.is_leaf(p));
            if !tied && !leaves.is_empty() {
                self.rank = self.next;
            }
            for &leaf in &leaves {
                self.factors[leaf] = self.rank as f64 / self.count as f64;
                self.next -= 1;
            }
            self.open(
                accounts,
                self.tie_rule == TieRule::Slurm && (tied || !leaves.is_empty()),
            );
            tied = false;
        }
    }

    /// Visits accounts of equal level as one account. They get the rank of their first user.
    fn open(&mut self, accounts: Vec<usize>, tied: bool) {
        let rank = if tied { self.rank } else { self.next };
        let mut children = Vec::new();
        for account in accounts {
            self.factors[account] = ratio(rank as f64, self.count as f64);
            children.append(&mut self.below[account]);
        }
        if !children.is_empty() {
            self.visit(children, tied);
        }
    }

    /// The siblings from the highest level to the lowest, grouped by equal level.
    fn groups(&self, mut children: Vec<usize>) -> Vec<Vec<usize>> {
        let levels = &self.levels;
        children.sort_by(|&a, &b| levels[b].total_cmp(&levels[a]).then(a.cmp(&b)));
        children
            .chunk_by(|&a, &b| self.is_equal(levels[a], levels[b]))
            .map(<[usize]>::to_vec)
            .collect()
    }

    fn is_equal(&self, high: f64, low: f64) -> bool {
        high == low
            || (self.tie_rule == TieRule::Flux && high.is_finite() && high - low <= ROUNDING * high)
    }
}
