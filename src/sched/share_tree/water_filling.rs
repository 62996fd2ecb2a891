//! Fair shares of the present resources. They are divided by weight among demands; amounts that a
//! demand does not need go to the others (Y20).

use super::charged::{Charged, account_of};
use super::tree::{ROOT, Tree};
use crate::model::account::Shares;
use crate::model::account::member::Member;
use crate::model::policy::fair_share::UsageSubject;
use std::collections::BTreeMap;

/// A demand on the resources.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Its weight.
    pub weight: f64,
    /// Its guaranteed amount, if there is enough.
    pub least: f64,
    /// Its maximum.
    pub most: f64,
}

impl Demand {
    /// A demand up to this amount, without guarantee.
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

    /// Its amount at this water level.
    fn at(&self, level: f64) -> f64 {
        (self.weight * level).clamp(self.least, self.most)
    }
}

/// The guaranteed and the maximum part of an account.
pub type MinAndMax = (f64, f64);

/// No guarantee, and the whole cluster as maximum.
pub const UNBOUNDED: MinAndMax = (0.0, 1.0);

/// A demand in a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolClaim {
    /// The pool, as an index into the pools given to [`divide`].
    pub pool: usize,
    /// The demand, or the sum of several similar demands.
    pub demand: Demand,
}

/// The result, as parts of the whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DividedParts {
    /// By account. The empty name stands for the jobs without account.
    pub pools: BTreeMap<String, f64>,
    /// By demand, in the order given.
    pub claims: Vec<f64>,
}

/// Divides the whole from the root down to the accounts and their demands. In a FIFO account, each
/// demand is met before the next gets anything, in the order given.
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
    // Parents come before their children.
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
        // An account without a part of its own gets the part of its parent.
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

/// The tree with the demands at each place.
struct DemandTree {
    /// The total demand of each place and all places below.
    demands: Vec<Demand>,
    /// The sharing children of each place.
    children: Vec<Vec<usize>>,
    /// The demands at each place, as indexes into the claims.
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

/// The place at which the demands of a pool compete: that of its parent if the pool has no part of
/// its own.
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
/// Divides an amount among demands: up to a level at which all unmet demands get the same by
/// weight.
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
    demands.iter().map(|demand| demand.at(level)).collect()
}

/// The water level for this amount above all guarantees. Each demand begins to rise when the level
/// times its weight reaches its guarantee, and stops at its maximum.
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
    // All demands are met; the rest stays unassigned.
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
    fn unused_parts_go_to_the_others() {
        let split = |all: &[(f64, f64, f64)]| rounded(split(1.0, &demands(all)));
        assert_eq!(
            split(&[(1.0, 0.0, 0.1), (1.0, 0.0, 1.0), (1.0, 0.0, 1.0)]),
            [0.1, 0.45, 0.45]
        );
        assert_eq!(split(&[(3.0, 0.0, 1.0), (1.0, 0.0, 1.0)]), [0.75, 0.25]);
        assert_eq!(split(&[(3.0, 0.0, 0.2), (1.0, 0.0, 0.3)]), [0.2, 0.3]);
        assert_eq!(split(&[(0.0, 0.0, 1.0), (2.0, 0.0, 1.0)]), [0.0, 1.0]);
    }

    /// Y20: A is guaranteed .6, B .2.
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
            "too much is guaranteed"
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

    /// Demands by pool; the results of pools and of demands.
    fn divided(
        claims: &[(&str, f64)],
        bounds: impl Fn(&str) -> MinAndMax,
        line: &str,
    ) -> (Vec<f64>, Vec<f64>) {
        let pools = ["e", "d", "c", "b", "a"];
        let place = |pool: &str| pools.iter().position(|known| *known == pool).unwrap();
        let claim = |&(pool, most): &(&str, f64)| PoolClaim {
            pool: place(pool),
            demand: Demand::wanting(most),
        };
        let claims: Vec<PoolClaim> = claims.iter().map(claim).collect();
        let division = divide(&tree(), (&pools, &claims), bounds, |name| name == line);
        (
            rounded(["a", "b", "c", "d"].map(|name| division.pools[name]).into()),
            rounded(division.claims),
        )
    }

    /// A pool's part is divided among the pools below it.
    #[test]
    fn child_pools_divide_the_part_of_their_parent() {
        let all = [("b", 1.0), ("c", 1.0), ("d", 1.0)];
        assert_eq!(divided(&all, |_| UNBOUNDED, "").0, [0.75, 0.25, 0.25, 0.5]);
    }

    /// Y20: operations share the part of their pool; an account with its parent's shares is no
    /// pool.
    #[test]
    fn operations_divide_the_part_of_their_pool() {
        let all = [("b", 1.0), ("b", 0.05), ("c", 1.0), ("d", 1.0), ("e", 1.0)];
        assert_eq!(
            divided(&all, |_| UNBOUNDED, "").1,
            [0.2, 0.05, 0.25, 0.25, 0.25]
        );
        let beside = [("a", 1.0), ("c", 1.0), ("d", 1.0)];
        assert_eq!(
            divided(&beside, |_| UNBOUNDED, "").1,
            [0.25, 0.25, 0.5],
            "a demand beside pools has weight 1"
        );
    }

    /// Y26: guarantees and maxima apply to all pools below.
    #[test]
    fn pools_have_bounds() {
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
            "a guarantee of a child counts for its parent"
        );
    }

    /// Y23.
    #[test]
    fn in_a_fifo_pool_the_first_demand_is_met_first() {
        let all = [("b", 0.1), ("b", 0.1), ("b", 0.1), ("c", 1.0)];
        assert_eq!(divided(&all, |_| UNBOUNDED, "b").1, [0.1, 0.1, 0.05, 0.75]);
        assert_eq!(
            divided(&all, |_| UNBOUNDED, "").1,
            [0.083333, 0.083333, 0.083333, 0.75]
        );
    }
}
