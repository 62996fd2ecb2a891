//! What everybody is owed of what is there now: it is poured out by shares among those who want some, and
//! what somebody does not want goes to the others (Y20).

use super::charged::Charged;
use super::tree::{ROOT, Tree};
use crate::model::member::Member;
use crate::model::policy::fair_share::Subject;
use std::collections::BTreeMap;

/// The fair share of each account, of 1, where each wants so much of the whole. Jobs of no account share
/// what the root has beside the accounts, under the name of none.
pub fn pour(tree: &Tree, wanted: &BTreeMap<Member, f64>) -> BTreeMap<String, f64> {
    let charged = Charged::new(tree, Subject::Account, wanted);
    let mut siblings: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for place in charged.places().filter(|&place| charged.part(place).is_some()) {
        siblings.entry(charged.above(place)).or_default().push(place);
    }
    let mut owed = BTreeMap::from([(ROOT, 1.0)]);
    // Parents come before their children.
    for (parent, children) in siblings {
        let of_parent = owed.get(&parent).copied().unwrap_or(0.0);
        let claims: Vec<(f64, f64)> =
            children.iter().map(|&place| (charged.part(place).unwrap_or(0.0), charged.usage(place))).collect();
        owed.extend(children.into_iter().zip(split(of_parent, &claims)));
    }
    // Who stands where the parent stands is owed what that is.
    let of = |place: usize| owed.get(&place).or_else(|| owed.get(&charged.above(place))).copied().unwrap_or(0.0);
    let accounts = charged.tree.accounts.iter();
    let mut all: BTreeMap<String, f64> = accounts.map(|(name, &place)| (name.clone(), of(place))).collect();
    all.entry(String::new()).or_insert(1.0);
    all
}

/// Splits an amount among claims, each a weight and what is wanted at most: nobody gets more than that, and
/// those who get less all get the same by weight.
pub fn split(amount: f64, claims: &[(f64, f64)]) -> Vec<f64> {
    let mut parts = vec![0.0; claims.len()];
    let mut order: Vec<usize> = (0..claims.len()).filter(|&claim| claims[claim].0 > 0.0).collect();
    // Who wants least by weight is the first to have enough.
    order.sort_by(|&a, &b| (claims[a].1 / claims[a].0).total_cmp(&(claims[b].1 / claims[b].0)));
    let (mut left, mut weights) = (amount, order.iter().map(|&claim| claims[claim].0).sum::<f64>());
    for claim in order {
        let (weight, wanted) = claims[claim];
        parts[claim] = wanted.min(left * weight / weights);
        left -= parts[claim];
        weights -= weight;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::account::{Account, Shares};

    fn rounded(parts: Vec<f64>) -> Vec<f64> {
        parts.into_iter().map(|part| (part * 1e6).round() / 1e6).collect()
    }

    /// Y20.
    #[test]
    fn what_somebody_does_not_want_goes_to_the_others() {
        assert_eq!(rounded(split(1.0, &[(1.0, 0.1), (1.0, 1.0), (1.0, 1.0)])), [0.1, 0.45, 0.45]);
        assert_eq!(rounded(split(1.0, &[(3.0, 1.0), (1.0, 1.0)])), [0.75, 0.25]);
        assert_eq!(rounded(split(1.0, &[(3.0, 0.2), (1.0, 0.3)])), [0.2, 0.3]);
        assert_eq!(rounded(split(1.0, &[(0.0, 1.0), (2.0, 1.0)])), [0.0, 1.0]);
    }

    /// A pool's part is poured out among those below it.
    #[test]
    fn pools_below_pools_share_what_these_have() {
        let account = |name: &str, parent: Option<&str>, shares: f64| Account {
            name: name.to_string(),
            parent: parent.map(str::to_string),
            shares: Shares::Of(shares),
            ..Account::default()
        };
        let accounts = [
            account("a", None, 3.0),
            account("b", None, 1.0),
            account("c", Some("a"), 1.0),
            account("d", Some("a"), 2.0),
        ];
        let wanted = [("b", 1.0), ("c", 1.0), ("d", 1.0)].map(|(name, wanted)| (Member::new(name, ""), wanted));
        let owed = pour(&Tree::of(&accounts), &wanted.into());
        let of = |name: &str| (owed[name] * 1000.0).round() / 1000.0;
        assert_eq!([of("a"), of("b"), of("c"), of("d")], [0.75, 0.25, 0.25, 0.5]);
    }

    /// Y20: whatever the weights and wishes, nobody has more than they want, those who have less have the same
    /// by weight, and nothing is left that somebody wants.
    #[test]
    fn those_who_want_more_have_the_same_by_weight() {
        let numbers = [0.05, 0.2, 0.35, 1.0, 3.0];
        let claims = |seed: usize| -> Vec<(f64, f64)> {
            (0..4).map(|n| (numbers[(seed + n * 3) % 5], numbers[(seed / 5 + n * n) % 4])).collect()
        };
        for claims in (0..60).map(claims) {
            let parts = split(1.0, &claims);
            let level = |(part, (weight, _)): (&f64, &(f64, f64))| part / weight;
            let highest = parts.iter().zip(&claims).map(level).fold(0.0, f64::max);
            for (part, (weight, wanted)) in parts.iter().zip(&claims) {
                assert!(*part <= wanted + 1e-12, "{claims:?} {parts:?}");
                assert!(part + 1e-12 >= *wanted || part / weight + 1e-9 >= highest, "{claims:?} {parts:?}");
            }
            let wanted: f64 = claims.iter().map(|claim| claim.1).sum();
            assert!((parts.iter().sum::<f64>() - wanted.min(1.0)).abs() < 1e-9, "{claims:?} {parts:?}");
        }
    }
}
