//! Resource amounts in the scheduler: small arrays of integers, with one element for each resource.

use crate::model::resource::{ResourceType, ResourceValue, Resources};

/// Amounts, indexed like the resources of a [`Catalog`]: bytes, milliseconds or plain numbers;
/// thousandths for fractional resources.
pub type Amounts = Box<[i64]>;

/// The maximum amount of a resource on one node (256 TiB of memory). A larger amount counts as this
/// maximum, so that sums over a cluster and multiples of requests fit in 64 bits.
pub const MAX_NODE_AMOUNT: i64 = 1 << 48;

/// Adds `more` to `amounts`, element by element.
pub fn add(amounts: &mut [i64], more: &[i64]) {
    for (amount, more) in amounts.iter_mut().zip(more) {
        *amount = amount.saturating_add(*more);
    }
}

/// Adds `more`, multiplied by `times`, to `amounts`.
pub fn add_times(amounts: &mut [i64], more: &[i64], times: u64) {
    let times = i64::try_from(times).unwrap_or(i64::MAX);
    for (amount, more) in amounts.iter_mut().zip(more) {
        *amount = amount.saturating_add(more.saturating_mul(times));
    }
}

/// The amounts multiplied by `times`.
pub fn multiple(amounts: &[i64], times: u64) -> Amounts {
    let times = i64::try_from(times).unwrap_or(i64::MAX);
    amounts
        .iter()
        .map(|amount| amount.saturating_mul(times))
        .collect()
}

/// Subtracts `less` from `amounts`, element by element; overcommitted amounts become negative.
pub fn subtract(amounts: &mut [i64], less: &[i64]) {
    for (amount, less) in amounts.iter_mut().zip(less) {
        *amount = amount.saturating_sub(*less);
    }
}

/// The interned names of the consumable resources: first node resources, then system-wide
/// resources. The amounts of a node have elements for node resources only, the amounts of a job for
/// all resources.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// The consumable resources, sorted within each of the two groups.
    names: Vec<String>,
    kinds: Vec<ResourceType>,
    /// The number of node resources.
    of_nodes: usize,
    /// The names of all resources, consumable or not, sorted.
    known: Vec<String>,
}

impl Catalog {
    /// The consumables of `resources`: node resources, then system-wide resources.
    pub fn new(resources: &Resources) -> Catalog {
        let of_nodes = resources.consumables();
        let (count, pooled) = (of_nodes.len(), resources.pooled());
        let names: Vec<String> = of_nodes
            .into_iter()
            .chain(pooled)
            .map(String::from)
            .collect();
        let kinds = names.iter().map(|name| {
            resources
                .get(name)
                .map_or(ResourceType::Long, |definition| definition.kind)
        });
        let known = resources.iter().map(|(name, _)| name.to_string()).collect();
        Catalog {
            kinds: kinds.collect(),
            names,
            of_nodes: count,
            known,
        }
    }

    /// Whether this resource is defined. After a restart of schedd, jobs may request resources that
    /// no longer exist.
    pub fn is_known(&self, name: &str) -> bool {
        position(&self.known, name).is_some()
    }

    /// An amount of 0 for each node resource.
    pub fn node_zeros(&self) -> Amounts {
        vec![0; self.of_nodes].into()
    }

    /// The indexes of the system-wide resources.
    pub fn pooled(&self) -> std::ops::Range<usize> {
        self.of_nodes..self.names.len()
    }

    /// An amount of 0 for each consumable resource, including system-wide resources.
    pub fn nothing(&self) -> Amounts {
        vec![0; self.names.len()].into()
    }

    /// The index of a consumable; None if the name is unknown or not consumable.
    pub fn index(&self, name: &str) -> Option<usize> {
        let (of_nodes, pooled) = self.names.split_at(self.of_nodes);
        position(of_nodes, name)
            .or_else(|| position(pooled, name).map(|place| self.of_nodes + place))
    }

    /// The index of a consumable of nodes; None for any other resource.
    pub fn index_on_node(&self, name: &str) -> Option<usize> {
        self.index(name).filter(|index| *index < self.of_nodes)
    }

    /// The names, by index.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// An amount of the resource with this index as a typed value, as in the share of a job. A size
    /// is rounded up to kilobytes; a negative size becomes 0.
    pub fn value(&self, index: usize, amount: i64) -> ResourceValue {
        ResourceValue::of_amount(self.kinds[index], amount)
    }
}

impl Catalog {
    /// An amount of the resource with this index as a number: bytes, seconds or plain numbers.
    pub fn number(&self, index: usize, amount: i64) -> f64 {
        match self.kinds[index] {
            ResourceType::Float | ResourceType::Time => amount as f64 / 1000.0,
            _ => amount as f64,
        }
    }
}

/// The position of a name in a sorted list.
fn position(sorted: &[String], name: &str) -> Option<usize> {
    sorted
        .binary_search_by(|known| known.as_str().cmp(name))
        .ok()
}

/// The counted amount of a value, at least 0; None for text and booleans.
pub fn counted(value: &ResourceValue) -> Option<i64> {
    value.amount().map(|amount| amount.max(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::resource::Definition;
    use crate::sched::fixture::resources;

    #[test]
    fn node_resources_come_before_system_wide_ones() {
        let mut resources = resources();
        let global = Definition {
            kind: ResourceType::Long,
            host_level: false,
            consumable: true,
            requestable: true,
        };
        resources.define("another_lic", global);
        let catalog = Catalog::new(&resources);
        for (index, name) in catalog.names().iter().enumerate() {
            let is_of_nodes = !catalog.pooled().contains(&index);
            assert_eq!(
                (catalog.index(name), catalog.index_on_node(name)),
                (Some(index), is_of_nodes.then_some(index))
            );
        }
        assert_eq!(
            catalog.names()[catalog.pooled()],
            ["another_lic", "site_lic"]
        );
        assert_eq!(
            (catalog.index("color"), catalog.nothing().len()),
            (None, catalog.node_zeros().len() + 2)
        );
    }

    #[test]
    fn fractions_count_in_thousandths_rounded_up() {
        let mut resources = resources();
        let share = Definition {
            kind: ResourceType::Float,
            host_level: true,
            consumable: true,
            requestable: true,
        };
        resources.define("share", share);
        let catalog = Catalog::new(&resources);
        let amount = |number| counted(&ResourceValue::Float(number));
        assert_eq!(
            [2.5, 0.0001, -1.0].map(amount),
            [Some(2500), Some(1), Some(0)]
        );
        assert_eq!(
            catalog.value(catalog.index("share").unwrap(), 2500),
            ResourceValue::Float(2.5)
        );
        assert_eq!(
            (
                counted(&ResourceValue::Long(-3)),
                counted(&ResourceValue::Boolean(true))
            ),
            (Some(0), None)
        );
    }
}
