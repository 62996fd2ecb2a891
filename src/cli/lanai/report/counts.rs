//! Values by name, for a bounded number of names.

use std::collections::BTreeMap;

/// The name that stands for all further names.
pub const OTHERS: &str = "(others)";

/// Values by name. When the map is full, all further names share the value of [`OTHERS`].
#[derive(Clone, Debug)]
pub struct BoundedMap<V> {
    values: BTreeMap<String, V>,
    limit: usize,
}

impl<V: Default> BoundedMap<V> {
    /// A map of at most `limit` names and [`OTHERS`].
    pub fn new(limit: usize) -> BoundedMap<V> {
        BoundedMap {
            values: BTreeMap::new(),
            limit,
        }
    }

    /// The value of a name.
    pub fn entry(&mut self, name: &str) -> &mut V {
        let is_known = self.values.contains_key(name);
        let name = if is_known || self.values.len() < self.limit {
            name
        } else {
            OTHERS
        };
        self.values.entry(name.to_string()).or_default()
    }

    /// All names with their values, in descending order of `key`, then by name.
    pub fn sorted_by<K: PartialOrd>(self, key: impl Fn(&V) -> K) -> Vec<(String, V)> {
        let mut list: Vec<(String, V)> = self.values.into_iter().collect();
        list.sort_by(|(_, a), (_, b)| {
            key(b)
                .partial_cmp(&key(a))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_names_share_a_value() {
        let mut counts = BoundedMap::<u64>::new(2);
        for name in ["b", "a", "c", "a", "d"] {
            *counts.entry(name) += 1;
        }
        let list = counts.sorted_by(|count| *count);
        let expected = [(OTHERS, 2), ("a", 2), ("b", 1)];
        assert_eq!(
            list,
            expected.map(|(name, count)| (name.to_string(), count))
        );
    }
}
