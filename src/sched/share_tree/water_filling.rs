//! Fair shares of the resources of the cluster at the moment. An amount is divided among demands by
//! weight. What a demand does not need is divided among the other demands (Y20). All amounts are
//! fractions of the cluster.
//!
//! The method is called water-filling: every demand gets its weight multiplied by a common *water
//! level*, but at least its guarantee and at most its maximum.

use super::charged::{Charged, account_of};
use super::tree::{ROOT, Tree};
use crate::model::account::Shares;
use crate::model::account::member::Member;
use crate::model::policy::fair_share::UsageSubject;
use std::collections::BTreeMap;

/// A demand on the resources.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// The weight.
    pub weight: f64,
    /// The guaranteed amount. If the sum of all guarantees exceeds the amount to divide, all
    /// guarantees are reduced.
    pub least: f64,
    /// The maximum amount.
    pub most: f64,
}

impl Demand {
    /// A demand for up to this amount, with weight 1 and without guarantee.
    pub fn wanting(most: f64) -> Demand {
        Demand {
            weight: 1.0,
            least: 0.0,
            most,
        }
    }

    /// The sum of `number` equal demands.
    pub fn times(self, number: u64) -> Demand {
        let number = number as f64;
        Demand {
            weight: self.weight * number,
            least: self.least * number,
            most: self.most * number,
        }
    }

    /// The amount of the demand at this water level.
    fn amount_at(&self, level: f64) -> f64 {
        (self.weight * level).clamp(self.least, self.most)
    }
}

/// The guaranteed and the maximum fraction of the cluster for an account.
pub type MinAndMax = (f64, f64);

/// The bounds of an account without guarantee and without maximum.
pub const UNBOUNDED: MinAndMax = (0.0, 1.0);

/// The demand of a job or array in a pool (account).
#[derive(Clone, Copy, Debug)]
pub struct PoolClaim {
    /// The pool, as an index into the pools that [`divide`] receives.
    pub pool: usize,
    /// The demand, or the sum of the demands of several similar jobs.
    pub demand: Demand,
}

/// The result of [`divide`], as fractions of the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DividedParts {
    /// The fraction of each account. The empty name stands for the root, to which jobs without
    /// account belong.
    pub pools: BTreeMap<String, f64>,
    /// The fraction of each claim, in the order of the claims.
    pub claims: Vec<f64>,
}

/// Divides the cluster from the root of the tree down to the accounts and their claims. In a FIFO
/// account that divides its part only among claims, each claim is met completely before the next
/// claim gets anything.
pub fn divide(
    tree: &Tree,
    (pools, claims): (&[&str], &[PoolClaim]),
    bounds: impl Fn(&str) -> MinAndMax,
    is_fifo: impl Fn(&str) -> bool,
) -> DividedParts {
    // Unknown accounts are added to the tree.
    let named: BTreeMap<Member, f64> = pools
        .iter()
        .map(|pool| (Member::new(pool, ""), 0.0))
        .collect();
    let charged = Charged::new(tree, UsageSubject::Account, &named);
    let demand_tree = DemandTree::new(&charged, (pools, claims), &bounds);
    let fifo_places: Vec<usize> = charged
        .tree
        .accounts
        .iter()
        .filter(|(name, _)| is_fifo(name))
        .map(|(_, at)| *at)
        .collect();
    let mut entitlements = BTreeMap::from([(ROOT, 1.0)]);
    let mut parts = vec![0.0; claims.len()];
    // `places` lists parents before their children.
    for place in std::iter::once(ROOT).chain(charged.places()) {
        let Some(amount) = entitlements.get(&place).copied() else {
            continue;
        };
        let (children, here) = (&demand_tree.children[place], &demand_tree.claims[place]);
        if fifo_places.contains(&place) && children.is_empty() {
            let mut left = amount;
            for &claim in here {
                parts[claim] = claims[claim].demand.most.min(left);
                left -= parts[claim];
            }
            continue;
        }
        let of_children = children.iter().map(|&child| demand_tree.demands[child]);
        let demands: Vec<Demand> = of_children
            .chain(here.iter().map(|&claim| claims[claim].demand))
            .collect();
        let split = split(amount, &demands);
        entitlements.extend(children.iter().copied().zip(split.iter().copied()));
        for (&claim, part) in here.iter().zip(&split[children.len()..]) {
            parts[claim] = *part;
        }
    }
    let mut pools: BTreeMap<String, f64> = BTreeMap::new();
    for (name, place) in &charged.tree.accounts {
        // An account with the shares of its parent has the same part as the account above it.
        let part = entitlements
            .get(place)
            .or_else(|| entitlements.get(&charged.above(*place)))
            .copied();
        pools.insert(name.clone(), part.unwrap_or(0.0));
    }
    pools.entry(String::new()).or_insert(1.0);
    DividedParts {
        pools,
        claims: parts,
    }
}

/// The share tree with the demands at each place (account, or the root).
struct DemandTree {
    /// The total demand of each place, including all places below it.
    demands: Vec<Demand>,
    /// The accounts that divide the part of each place.
    children: Vec<Vec<usize>>,
    /// The claims at each place, as indexes into the list of claims.
    claims: Vec<Vec<usize>>,
}

impl DemandTree {
    fn new(
        charged: &Charged,
        (pools, claims): (&[&str], &[PoolClaim]),
        bounds: impl Fn(&str) -> MinAndMax,
    ) -> DemandTree {
        let count = charged.places().end;
        let mut demand_tree = DemandTree {
            demands: vec![
                Demand {
                    weight: 0.0,
                    least: 0.0,
                    most: 0.0
                };
                count
            ],
            children: vec![Vec::new(); count],
            claims: vec![Vec::new(); count],
        };
        let entries: Vec<usize> = pools.iter().map(|pool| entry_of(charged, pool)).collect();
        for (number, claim) in claims.iter().enumerate() {
            demand_tree.claims[entries[claim.pool]].push(number);
        }
        let names: BTreeMap<usize, &String> = charged
            .tree
            .accounts
            .iter()
            .map(|(name, &place)| (place, name))
            .collect();
        for place in charged
            .places()
            .rev()
            .filter(|&place| charged.part(place).is_some())
        {
            demand_tree.children[charged.above(place)].push(place);
            let of_children = demand_tree.children[place]
                .iter()
                .map(|&child| demand_tree.demands[child]);
            let all = of_children.chain(
                demand_tree.claims[place]
                    .iter()
                    .map(|&claim| claims[claim].demand),
            );
            let (least, most) = all.fold((0.0, 0.0), |(least, most), demand| {
                (least + demand.least, most + demand.most)
            });
            let (own_least, own_most) = names.get(&place).map_or(UNBOUNDED, |name| bounds(name));
            let most = own_most.min(most);
            let weight = match charged.tree.nodes[place].shares {
                Shares::Of(shares) => shares,
                Shares::Parent => 0.0,
            };
            demand_tree.demands[place] = Demand {
                weight,
                least: own_least.max(least).min(most),
                most,
            };
        }
        demand_tree
    }
}

/// The place at which the claims of a pool compete. This is the place above the pool if the pool
/// has the shares of its parent.
fn entry_of(charged: &Charged, pool: &str) -> usize {
    let place = charged
        .tree
        .accounts
        .get(account_of(&Member::new(pool, "")))
        .copied()
        .unwrap_or(ROOT);
    if place == ROOT || charged.part(place).is_some() {
        place
    } else {
        charged.above(place)
    }
}

/// Divides an amount among demands. If the guarantees together exceed the amount, every demand gets
/// the same fraction of its guarantee. Otherwise a water level is chosen at which the whole amount
/// is used, or all demands with a weight get their maximum.
pub fn split(amount: f64, demands: &[Demand]) -> Vec<f64> {
    let demands: Vec<Demand> = demands
        .iter()
        .map(|demand| Demand {
            least: demand.least.min(demand.most),
            ..*demand
        })
        .collect();
    let least: f64 = demands.iter().map(|demand| demand.least).sum();
    if least >= amount {
        let part = if least > 0.0 {
            amount.max(0.0) / least
        } else {
            0.0
        };
        return demands.iter().map(|demand| demand.least * part).collect();
    }
    let level = level(amount - least, &demands);
    demands
        .iter()
        .map(|demand| demand.amount_at(level))
        .collect()
}

/// The water level at which the demands use the amount `left` in addition to their guarantees. The
/// amount of a demand begins to rise when the level multiplied by its weight reaches its guarantee,
/// and stops at its maximum.
fn level(mut left: f64, demands: &[Demand]) -> f64 {
    let rising = demands
        .iter()
        .filter(|demand| demand.weight > 0.0 && demand.most > demand.least);
    let steps = rising.flat_map(|demand| {
        [
            (demand.least / demand.weight, demand.weight),
            (demand.most / demand.weight, -demand.weight),
        ]
    });
    let mut steps: Vec<(f64, f64)> = steps.collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut level, mut slope) = (0.0, 0.0);
    for (step, change) in steps {
        let rise = slope * (step - level);
        if slope > 0.0 && rise >= left {
            return level + left / slope;
        }
        left -= rise;
        level = step;
        slope += change;
    }
    // All demands with a weight get their maximum; the remaining amount stays unassigned.
    level
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::account::Account;

    fn rounded(parts: Vec<f64>) -> Vec<f64> {
        parts
            .into_iter()
            .map(|part| (part * 1e6).round() / 1e6)
            .collect()
    }

    fn demands(all: &[(f64, f64, f64)]) -> Vec<Demand> {
        all.iter()
            .map(|&(weight, least, most)| Demand {
                weight,
                least,
                most,
            })
            .collect()
    }

    /// Y20.
    #[test]
    fn amounts_that_a_demand_does_not_need_go_to_the_other_demands() {
        let split = |all: &[(f64, f64, f64)]| rounded(split(1.0, &demands(all)));
        assert_eq!(
            split(&[(1.0, 0.0, 0.1), (1.0, 0.0, 1.0), (1.0, 0.0, 1.0)]),
            [0.1, 0.45, 0.45]
        );
        assert_eq!(split(&[(3.0, 0.0, 1.0), (1.0, 0.0, 1.0)]), [0.75, 0.25]);
        assert_eq!(split(&[(3.0, 0.0, 0.2), (1.0, 0.0, 0.3)]), [0.2, 0.3]);
        assert_eq!(split(&[(0.0, 0.0, 1.0), (2.0, 0.0, 1.0)]), [0.0, 1.0]);
    }

    /// Y20: in the first three cases, the guarantee of the first demand is 0.6, and the guarantee
    /// of the second is 0.2.
    #[test]
    fn guarantees_are_met_first() {
        let split = |all: &[(f64, f64, f64)]| rounded(split(1.0, &demands(all)));
        assert_eq!(split(&[(1.0, 0.6, 1.0), (1.0, 0.2, 1.0)]), [0.6, 0.4]);
        assert_eq!(split(&[(3.0, 0.6, 1.0), (1.0, 0.2, 1.0)]), [0.75, 0.25]);
        assert_eq!(
            split(&[(1.0, 0.6, 1.0), (1.0, 0.2, 1.0), (1.0, 0.0, 1.0)]),
            [0.6, 0.2, 0.2]
        );
        assert_eq!(
            split(&[(1.0, 0.9, 1.0), (1.0, 0.6, 1.0)]),
            [0.6, 0.4],
            "the guarantees exceed the amount"
        );
        assert_eq!(
            split(&[(1.0, 0.6, 0.1), (1.0, 0.0, 1.0)]),
            [0.1, 0.9],
            "no demand gets more than its maximum"
        );
        assert_eq!(split(&[(0.0, 0.3, 1.0), (1.0, 0.0, 1.0)]), [0.3, 0.7]);
    }

    fn account(name: &str, parent: Option<&str>, shares: Shares) -> Account {
        let parent = parent.map(str::to_string);
        Account {
            name: name.to_string(),
            parent,
            shares,
            ..Account::default()
        }
    }

    fn tree() -> Tree {
        let of = Shares::Of;
        Tree::of(&[
            account("a", None, of(3.0)),
            account("b", None, of(1.0)),
            account("c", Some("a"), of(1.0)),
            account("d", Some("a"), of(2.0)),
            account("e", Some("d"), Shares::Parent),
        ])
    }

    /// Divides the cluster among claims (pool, maximum); only `fifo_pool` is FIFO. Returns the
    /// parts of the pools a to d, and the parts of the claims.
    fn divided(
        claims: &[(&str, f64)],
        bounds: impl Fn(&str) -> MinAndMax,
        fifo_pool: &str,
    ) -> (Vec<f64>, Vec<f64>) {
        let pools = ["e", "d", "c", "b", "a"];
        let place = |pool: &str| pools.iter().position(|known| *known == pool).unwrap();
        let claim = |&(pool, most): &(&str, f64)| PoolClaim {
            pool: place(pool),
            demand: Demand::wanting(most),
        };
        let claims: Vec<PoolClaim> = claims.iter().map(claim).collect();
        let division = divide(&tree(), (&pools, &claims), bounds, |name| name == fifo_pool);
        (
            rounded(["a", "b", "c", "d"].map(|name| division.pools[name]).into()),
            rounded(division.claims),
        )
    }

    #[test]
    fn child_pools_divide_the_part_of_their_parent() {
        let all = [("b", 1.0), ("c", 1.0), ("d", 1.0)];
        assert_eq!(divided(&all, |_| UNBOUNDED, "").0, [0.75, 0.25, 0.25, 0.5]);
    }

    /// Y20: account e has the shares of its parent d, so its claim competes with the claim of d.
    #[test]
    fn claims_divide_the_part_of_their_pool() {
        let all = [("b", 1.0), ("b", 0.05), ("c", 1.0), ("d", 1.0), ("e", 1.0)];
        assert_eq!(
            divided(&all, |_| UNBOUNDED, "").1,
            [0.2, 0.05, 0.25, 0.25, 0.25]
        );
        let with_pools = [("a", 1.0), ("c", 1.0), ("d", 1.0)];
        assert_eq!(
            divided(&with_pools, |_| UNBOUNDED, "").1,
            [0.25, 0.25, 0.5],
            "a claim that competes with child pools has weight 1"
        );
    }

    /// Y26.
    #[test]
    fn guarantees_and_maxima_of_a_pool_include_the_pools_below_it() {
        let all = [("b", 1.0), ("c", 1.0), ("d", 1.0)];
        let capped = |name: &str| if name == "a" { (0.0, 0.3) } else { UNBOUNDED };
        assert_eq!(divided(&all, capped, "").0, [0.3, 0.7, 0.1, 0.2]);
        let bounds = |name: &str| if name == "b" { (0.6, 1.0) } else { UNBOUNDED };
        assert_eq!(
            rounded(divided(&all, bounds, "").0),
            [0.4, 0.6, 0.133333, 0.266667]
        );
        let deep = |name: &str| if name == "c" { (0.9, 1.0) } else { UNBOUNDED };
        assert_eq!(
            divided(&all, deep, "").0,
            [0.9, 0.1, 0.9, 0.0],
            "the guarantee of a child is also a guarantee of its parent"
        );
    }

    /// Y23.
    #[test]
    fn in_a_fifo_pool_the_claims_are_met_one_after_another() {
        let all = [("b", 0.1), ("b", 0.1), ("b", 0.1), ("c", 1.0)];
        assert_eq!(divided(&all, |_| UNBOUNDED, "b").1, [0.1, 0.1, 0.05, 0.75]);
        assert_eq!(
            divided(&all, |_| UNBOUNDED, "").1,
            [0.083333, 0.083333, 0.083333, 0.75]
        );
    }
}
