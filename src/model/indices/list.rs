//! Lists of index ranges, such as `1-5,8,20-30:5` in TORQUE's arrays.

use super::spans::Spans;
use super::{Indices, NotIndices};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Maximum number of runs (of consecutive indices) in a list of several ranges. Each run needs
/// memory.
const MOST_RUNS: u32 = 100_000;

/// List of index ranges. The range of an array with such a list is [`IndexList::enclosing`], from
/// the lowest to the highest index; the array has subjobs only at [`IndexList::positions`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexList(Vec<Indices>);

impl IndexList {
    /// Returns the range of a list with only one range; None for other lists.
    pub fn single(&self) -> Option<Indices> {
        if let [only] = self.0[..] {
            Some(only)
        } else {
            None
        }
    }

    /// Returns all indices from the lowest to the highest.
    pub fn enclosing(&self) -> Indices {
        let lowest = self
            .0
            .iter()
            .map(|range| range.at(0))
            .min()
            .unwrap_or_default();
        let highest = self
            .0
            .iter()
            .map(|range| range.largest())
            .max()
            .unwrap_or_default();
        Indices::new(lowest, highest, 1).unwrap_or(Indices::one(lowest))
    }

    /// Returns the positions of the listed indices in [`IndexList::enclosing`]. Repeated indices
    /// count once.
    pub fn positions(&self) -> Spans {
        let (from, mut positions) = (self.enclosing().at(0), Spans::default());
        for range in &self.0 {
            if range.is_dense() {
                positions.insert(range.at(0) - from, range.largest() - from);
            } else {
                for index in range.iter() {
                    positions.insert(index - from, index - from);
                }
            }
        }
        positions
    }

    /// Returns an upper bound for the number of runs; it is exact if no ranges overlap or are
    /// adjacent. None if the number overflows.
    fn run_count(&self) -> Option<u32> {
        self.0
            .iter()
            .map(|range| if range.is_dense() { 1 } else { range.count() })
            .try_fold(0, u32::checked_add)
    }
}

impl FromStr for IndexList {
    type Err = NotIndices;

    /// Parses ranges separated by commas; refuses a list of several ranges with too many runs.
    fn from_str(text: &str) -> Result<IndexList, NotIndices> {
        let list = IndexList(text.split(',').map(str::parse).collect::<Result<_, _>>()?);
        let is_bounded =
            list.single().is_some() || list.run_count().is_some_and(|count| count <= MOST_RUNS);
        if is_bounded {
            Ok(list)
        } else {
            Err(NotIndices)
        }
    }
}

impl fmt::Display for IndexList {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(Indices::to_string).collect();
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> IndexList {
        text.parse().unwrap()
    }

    #[test]
    fn a_list_has_an_enclosing_range_and_positions() {
        let some = list("8,1-5,20-30:5,3");
        assert_eq!(
            (some.to_string().as_str(), some.single()),
            ("8,1-5,20-30:5,3", None)
        );
        assert_eq!(some.enclosing().to_string(), "1-30");
        let indices: Vec<(u32, u32)> = some
            .positions()
            .iter()
            .map(|(first, last)| (first + 1, last + 1))
            .collect();
        assert_eq!(indices, [(1, 5), (8, 8), (20, 20), (25, 25), (30, 30)]);
        assert_eq!(some.positions().len(), 9, "index 3 is listed twice");
        assert_eq!(list("7").single(), Some(Indices::one(7)));
        assert_eq!(
            list("0-400000:2").single().map(Indices::count),
            Some(200_001)
        );
    }

    #[test]
    fn invalid_and_too_scattered_lists_are_refused() {
        for text in [
            "",
            "1,",
            ",1",
            "a",
            "1-2,3-1",
            "1;2",
            "0-400000:2,1",
            "1-9%2",
        ] {
            assert!(text.parse::<IndexList>().is_err(), "{text}");
        }
        assert_eq!(list("0-4294967294,3").positions().len(), u32::MAX);
    }
}
