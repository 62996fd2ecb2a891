//! Indices of an array's subjobs.

pub mod list;
pub(crate) mod runs;
pub mod spans;

use crate::model::text::whole_number;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// `X-Y[:Z]`: every Z-th index from X to Y.
///
/// The *position* of an index is its number in this sequence, from 0. Subjobs are stored by
/// position, because positions are consecutive for any step Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Given")]
pub struct Indices {
    first: u32,
    last: u32,
    step: u32,
}

/// Form of [`Indices`] in messages and the spool. The numbers are checked after decoding, because a
/// client may send any numbers.
#[derive(Deserialize)]
struct Given {
    first: u32,
    last: u32,
    step: u32,
}

impl TryFrom<Given> for Indices {
    type Error = NotIndices;

    fn try_from(given: Given) -> Result<Indices, NotIndices> {
        let Given { first, last, step } = given;
        // `new` refuses the index `u32::MAX`, but `one` accepts it.
        let alone = (first == last && step == 1).then_some(Indices::one(first));
        Indices::new(first, last, step).or(alone).ok_or(NotIndices)
    }
}

impl Indices {
    /// Creates every `step`-th index from `first` to `last`. None if `first` is above `last`,
    /// `step` is 0, or `last` is `u32::MAX`.
    pub fn new(first: u32, last: u32, step: u32) -> Option<Indices> {
        (first <= last && step > 0 && last < u32::MAX).then_some(Indices { first, last, step })
    }

    fn of_texts(first: &str, last: &str, step: &str) -> Option<Indices> {
        Indices::new(
            whole_number(first)?,
            whole_number(last)?,
            whole_number(step)?,
        )
    }

    /// Creates a single index.
    pub fn one(index: u32) -> Indices {
        Indices {
            first: index,
            last: index,
            step: 1,
        }
    }

    /// Creates all indices above `index`, up to `u32::MAX - 1`; None if there are none.
    pub fn after(index: u32) -> Option<Indices> {
        Indices::new(index.checked_add(1)?, u32::MAX - 1, 1)
    }

    /// Returns the number of indices.
    pub fn count(self) -> u32 {
        (self.last - self.first) / self.step + 1
    }

    /// Returns the index at a position below [`Indices::count`].
    pub fn at(self, position: u32) -> u32 {
        self.first + position * self.step
    }

    /// Returns the indices from position `first` to position `last`.
    pub fn between(self, first: u32, last: u32) -> Indices {
        Indices {
            first: self.at(first),
            last: self.at(last),
            ..self
        }
    }

    /// Tests whether the indices are consecutive.
    pub fn is_dense(self) -> bool {
        self.step == 1 || self.count() == 1
    }

    /// Returns the position of `index`; None if the range does not contain `index`.
    pub fn position(self, index: u32) -> Option<u32> {
        let beyond = index.checked_sub(self.first)?;
        (index <= self.last && beyond.is_multiple_of(self.step)).then_some(beyond / self.step)
    }

    /// Returns the largest index.
    pub fn largest(self) -> u32 {
        self.at(self.count() - 1)
    }

    /// Returns the indices in both ranges; None if no index is in both.
    pub fn common(self, others: Indices) -> Option<Indices> {
        let (coarse, fine) = if self.step >= others.step {
            (self, others)
        } else {
            (others, self)
        };
        let (low, high) = (self.first.max(others.first), self.last.min(others.last));
        let coarse_step = u64::from(coarse.step);
        let fine_step = u64::from(fine.step);
        let steps = u64::from(low - coarse.first).div_ceil(coarse_step);
        let start = u64::from(coarse.first) + steps * coarse_step;
        // Modulo the finer step, the remainders repeat after at most `fine_step` coarser steps.
        let first = (0..fine_step)
            .map(|k| start + k * coarse_step)
            .take_while(|&index| index <= u64::from(high))
            .find(|&index| (index - u64::from(fine.first)).is_multiple_of(fine_step))?;
        let step = coarse_step / gcd(coarse_step, fine_step) * fine_step;
        // Any step that leads beyond the last index has the same effect.
        let step = u32::try_from(step).unwrap_or(u32::MAX);
        Indices::new(u32::try_from(first).ok()?, high, step)
    }

    /// Returns the positions of the indices that are also in `some`; None if no index is in both.
    pub fn positions(self, some: Indices) -> Option<Indices> {
        let common = self.common(some)?;
        let last = self.position(common.largest())?;
        Some(Indices {
            first: self.position(common.first)?,
            last,
            step: (common.step / self.step).max(1),
        })
    }

    /// Formats the range as for `-J`, with both bounds even for a single index.
    pub fn submitted(self) -> String {
        match self.step {
            1 => format!("{}-{}", self.first, self.last),
            step => format!("{}-{}:{step}", self.first, self.last),
        }
    }

    /// Returns all indices in order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..self.count()).map(move |position| self.at(position))
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl fmt::Display for Indices {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match (self.count(), self.step) {
            (1, _) => write!(f, "{}", self.first),
            (_, 1) => write!(f, "{}-{}", self.first, self.last),
            (_, step) => write!(f, "{}-{}:{step}", self.first, self.last),
        }
    }
}

/// Error for an invalid range or list of indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a range of indices")]
pub struct NotIndices;

impl FromStr for Indices {
    type Err = NotIndices;

    fn from_str(text: &str) -> Result<Indices, NotIndices> {
        let (bounds, step) = text.split_once(':').unwrap_or((text, "1"));
        let (first, last) = bounds.split_once('-').unwrap_or((bounds, bounds));
        Indices::of_texts(first, last, step).ok_or(NotIndices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn indices_are_parsed_counted_and_shown() {
        let odd: Indices = "1-10:2".parse().unwrap();
        assert_eq!(
            (odd.count(), odd.largest(), odd.to_string().as_str()),
            (5, 9, "1-10:2")
        );
        assert_eq!(odd.iter().collect::<Vec<_>>(), [1, 3, 5, 7, 9]);
        assert_eq!(
            (
                odd.position(7),
                odd.position(8),
                odd.position(11),
                odd.position(0)
            ),
            (Some(3), None, None, None)
        );
        assert_eq!("7".parse::<Indices>().unwrap().to_string(), "7");
        for bad in [
            "",
            "-",
            "1-",
            "-1",
            "3-1",
            "1-3:0",
            "1-3:",
            "+1-3",
            "1-3:2:1",
            "4294967295",
        ] {
            assert!(bad.parse::<Indices>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn common_indices_are_those_in_both(a in range(), b in range()) {
            let both: Vec<u32> = a.iter().filter(|&index| b.position(index).is_some()).collect();
            let found: Vec<u32> = a.common(b).into_iter().flat_map(Indices::iter).collect();
            prop_assert_eq!(&found, &both);
            let positions: Vec<u32> = both.iter().filter_map(|&index| a.position(index)).collect();
            prop_assert_eq!(a.positions(b).into_iter().flat_map(Indices::iter).collect::<Vec<_>>(), positions);
        }
    }

    fn range() -> impl Strategy<Value = Indices> {
        (0u32..40, 0u32..60, 1u32..12)
            .prop_map(|(first, more, step)| Indices::new(first, first + more, step).unwrap())
    }

    #[test]
    fn invalid_ranges_in_messages_are_refused_and_valid_ranges_are_kept() {
        for (first, last, step) in [
            (1, 3, 0),
            (3, 1, 1),
            (0, u32::MAX, 1),
            (u32::MAX, u32::MAX, 2),
        ] {
            let sent = postcard::to_stdvec(&(first, last, step)).unwrap();
            assert!(
                postcard::from_bytes::<Indices>(&sent).is_err(),
                "{first}-{last}:{step}"
            );
        }
        for indices in [
            Indices::one(u32::MAX),
            "0-4294967294".parse().unwrap(),
            "1-10:20".parse().unwrap(),
        ] {
            let sent = postcard::to_stdvec(&indices).unwrap();
            assert_eq!(postcard::from_bytes::<Indices>(&sent).unwrap(), indices);
            let kept = serde_json::to_string(&indices).unwrap();
            assert_eq!(serde_json::from_str::<Indices>(&kept).unwrap(), indices);
        }
    }

    #[test]
    fn the_widest_ranges_are_intersected() {
        let read = |text: &str| text.parse::<Indices>().unwrap();
        let (all, sparse) = (read("0-4294967294"), read("7-4294967294:65537"));
        assert_eq!(all.common(sparse).map(Indices::count), Some(sparse.count()));
        assert_eq!(
            sparse
                .common(read("0-4294967294:65536"))
                .unwrap()
                .iter()
                .next(),
            Some(4_294_574_080)
        );
        assert_eq!(read("0-8:2").common(read("1-9:2")), None);
        assert_eq!(
            (read("1-10:20").submitted(), read("1-3").submitted()),
            ("1-10:20".into(), "1-3".into())
        );
    }
}
