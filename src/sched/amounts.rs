//! Resources as the scheduler counts them: small arrays of integers, one place for each resource.

use crate::model::resource::{Kind, Resources, Value};

/// Amounts by the resource's index in a [`Catalog`]: bytes, milliseconds, plain numbers, and
/// thousandths where the resource is a fraction.
pub type Amounts = Box<[i64]>;

/// No node counts for more than this (256 TiB of memory), so that sums over a cluster and
/// multiples of requests stay inside 64 bits.
pub const MOST_OF_A_NODE: i64 = 1 << 48;

/// Adds `more` to `amounts`, place by place.
pub fn add(amounts: &mut [i64], more: &[i64]) {
    for (amount, more) in amounts.iter_mut().zip(more) {
        *amount = amount.saturating_add(*more);
    }
}

/// Takes `less` from `amounts`, place by place; what is over-committed goes below zero.
pub fn subtract(amounts: &mut [i64], less: &[i64]) {
    for (amount, less) in amounts.iter_mut().zip(less) {
        *amount = amount.saturating_sub(*less);
    }
}

/// The interned names of the consumable resources.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// Sorted: `Resources::consumables` is in alphabetical order.
    names: Vec<String>,
    kinds: Vec<Kind>,
}

impl Catalog {
    /// The consumables of `resources`, in their order there.
    pub fn new(resources: &Resources) -> Catalog {
        let names: Vec<String> = resources.consumables().into_iter().map(String::from).collect();
        let kinds = names.iter().map(|name| resources.get(name).map_or(Kind::Long, |definition| definition.kind));
        Catalog { kinds: kinds.collect(), names }
    }

    /// Nothing of anything.
    pub fn nothing(&self) -> Amounts {
        vec![0; self.names.len()].into()
    }

    /// The index of a consumable.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.names.binary_search_by(|known| known.as_str().cmp(name)).ok()
    }

    /// The names, by index.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The value that stands for an amount of the resource with this index, as a job's share has
    /// it: sizes in kilobytes.
    pub fn value(&self, index: usize, amount: i64) -> Value {
        match self.kinds[index] {
            Kind::Float => Value::Float(amount as f64 / 1000.0),
            kind => Value::of_amount(kind, amount),
        }
    }
}

/// The counted amount of a value, never below zero; None for text and booleans.
pub fn counted(value: &Value) -> Option<i64> {
    let amount = match value {
        Value::Float(number) => Some((number * 1000.0).ceil() as i64),
        other => other.amount(),
    };
    amount.map(|amount| amount.max(0))
}
