//! Set of numbers, stored as runs of consecutive numbers.

use super::runs::Runs;
use serde::{Deserialize, Serialize};

/// Set of numbers below 2^32 - 1. The runs neither overlap nor are adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spans {
    runs: Runs,
    len: u32,
}

impl Spans {
    /// Returns the number of elements.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Tests whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Tests whether the set contains `number`.
    pub fn contains(&self, number: u32) -> bool {
        self.run_at(number).is_some()
    }

    /// Returns the run that contains `number`.
    fn run_at(&self, number: u32) -> Option<(u32, u32)> {
        self.runs
            .last_up_to(number)
            .filter(|&(_, last)| number <= last)
    }

    /// Returns the smallest element at or above `from`.
    pub fn next(&self, from: u32) -> Option<u32> {
        match self.run_at(from) {
            Some(_) => Some(from),
            None => self.runs.from(from).next().map(|(first, _)| first),
        }
    }

    /// Returns the first and last element of each run, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.runs.from(0)
    }

    /// Returns the runs that overlap the range from `first` to `last`, including their parts
    /// outside the range.
    pub fn touching(&self, first: u32, last: u32) -> impl Iterator<Item = (u32, u32)> {
        let from = self.run_at(first).map_or(first, |(start, _)| start);
        self.runs
            .from(from)
            .take_while(move |&(start, _)| start <= last.max(from))
    }

    /// Returns the runs cut to the range from `first` to `last`.
    pub fn within(&self, first: u32, last: u32) -> impl Iterator<Item = (u32, u32)> {
        self.touching(first, last)
            .map(move |(start, end)| (start.max(first), end.min(last)))
    }

    /// Adds the numbers from `first` to `last`.
    pub fn insert(&mut self, first: u32, last: u32) {
        self.remove(first, last);
        let before = first.checked_sub(1).and_then(|before| self.run_at(before));
        let after = self.runs.get(last + 1);
        let start = before.map_or(first, |(start, _)| start);
        self.runs.remove(last + 1);
        self.runs.insert(start, after.unwrap_or(last));
        self.len += last - first + 1;
    }

    /// Removes the numbers from `first` to `last`.
    pub fn remove(&mut self, first: u32, last: u32) {
        let touched: Vec<(u32, u32)> = self.touching(first, last).collect();
        for (start, end) in touched {
            self.runs.remove(start);
            if start < first {
                self.runs.insert(start, first - 1);
            }
            if end > last {
                self.runs.insert(last + 1, end);
            }
            self.len -= end.min(last) - start.max(first) + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// The numbers lie on both sides of 2048, where the second page of runs begins.
        #[test]
        fn a_set_of_runs_equals_a_plain_set(changes in prop::collection::vec((any::<bool>(), 2000u32..2060, 0u32..80), 0..40)) {
            let mut spans = Spans::default();
            let mut plain = BTreeSet::new();
            for (put, first, more) in changes {
                let last = first + more;
                if put {
                    spans.insert(first, last);
                    plain.extend(first..=last);
                } else {
                    spans.remove(first, last);
                    plain.retain(|number| *number < first || *number > last);
                }
                let numbers: Vec<u32> = spans.iter().flat_map(|(first, last)| first..=last).collect();
                prop_assert!(numbers.iter().eq(plain.iter()));
                prop_assert_eq!(spans.len() as usize, plain.len());
                prop_assert_eq!(spans.next(first), plain.range(first..).next().copied());
                let cut: Vec<u32> = spans.within(first, last).flat_map(|(first, last)| first..=last).collect();
                prop_assert!(cut.iter().eq(plain.range(first..=last)));
                let runs: Vec<(u32, u32)> = spans.iter().collect();
                prop_assert!(runs.windows(2).all(|two| two[0].1 + 1 < two[1].0), "runs touch: {:?}", runs);
            }
        }
    }
}
