//! Runs of consecutive numbers, stored in copy-on-write pages: a copy shares the pages of its
//! original, and a change copies only the page that it affects. Snapshots of a million runs are
//! therefore cheap.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Width of a page: page `n` contains the runs with a first number from `n * WIDTH` to
/// `(n + 1) * WIDTH - 1`.
const WIDTH: u32 = 2048;

/// Last number of each run, by its first number.
type RunPage = BTreeMap<u32, u32>;

/// Runs by their first number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RunPage", into = "RunPage")]
pub struct Runs {
    /// Pages by first number divided by [`WIDTH`]; no page is empty.
    blocks: BTreeMap<u32, Arc<RunPage>>,
    count: usize,
}

impl Runs {
    /// Returns the number of runs.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns the last run that begins at or before `number`.
    pub fn last_up_to(&self, number: u32) -> Option<(u32, u32)> {
        let mut blocks = self.blocks.range(..=number / WIDTH).rev();
        blocks
            .find_map(|(_, block)| block.range(..=number).next_back())
            .map(|(&first, &last)| (first, last))
    }

    /// Returns the runs that begin at or after `number`, in order.
    pub fn from(&self, number: u32) -> impl Iterator<Item = (u32, u32)> {
        let blocks = self.blocks.range(number / WIDTH..);
        blocks
            .flat_map(move |(_, block)| block.range(number..))
            .map(|(&first, &last)| (first, last))
    }

    /// Returns the last number of the run that begins at `first`.
    pub fn get(&self, first: u32) -> Option<u32> {
        self.blocks.get(&(first / WIDTH))?.get(&first).copied()
    }

    /// Adds a run, or replaces the run with the same first number.
    pub fn insert(&mut self, first: u32, last: u32) {
        let block = Arc::make_mut(self.blocks.entry(first / WIDTH).or_default());
        self.count += usize::from(block.insert(first, last).is_none());
    }

    /// Removes the run that begins at `first`, if any.
    pub fn remove(&mut self, first: u32) {
        let Some(block) = self
            .blocks
            .get_mut(&(first / WIDTH))
            .filter(|block| block.contains_key(&first))
        else {
            return;
        };
        let block = Arc::make_mut(block);
        block.remove(&first);
        self.count -= 1;
        if block.is_empty() {
            self.blocks.remove(&(first / WIDTH));
        }
    }
}

impl From<RunPage> for Runs {
    fn from(runs: RunPage) -> Runs {
        let mut all = Runs::default();
        for (first, last) in runs {
            all.insert(first, last);
        }
        all
    }
}

impl From<Runs> for RunPage {
    fn from(runs: Runs) -> RunPage {
        runs.from(0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_shares_the_pages_that_were_not_changed() {
        let mut runs = Runs::default();
        (0..100_000)
            .step_by(2)
            .for_each(|number| runs.insert(number, number));
        let before = runs.clone();
        runs.remove(50_000);
        let shared = runs
            .blocks
            .values()
            .zip(before.blocks.values())
            .filter(|(new, old)| Arc::ptr_eq(new, old));
        assert_eq!(shared.count(), runs.blocks.len() - 1);
        assert_eq!(
            (runs.len(), runs.get(50_000), before.get(50_000)),
            (49_999, None, Some(50_000))
        );
    }

    #[test]
    fn lookups_do_not_depend_on_page_boundaries() {
        let mut runs = Runs::default();
        [(5, 9), (WIDTH - 1, WIDTH), (9 * WIDTH, 9 * WIDTH)]
            .iter()
            .for_each(|&(first, last)| runs.insert(first, last));
        assert_eq!(runs.last_up_to(4), None);
        assert_eq!(runs.last_up_to(WIDTH - 2), Some((5, 9)));
        assert_eq!(runs.last_up_to(8 * WIDTH), Some((WIDTH - 1, WIDTH)));
        assert_eq!(
            runs.from(6).collect::<Vec<_>>(),
            [(WIDTH - 1, WIDTH), (9 * WIDTH, 9 * WIDTH)]
        );
        runs.remove(WIDTH - 1);
        runs.remove(7);
        assert_eq!(
            (runs.last_up_to(8 * WIDTH), runs.blocks.len(), runs.len()),
            (Some((5, 9)), 2, 2)
        );
        let text = serde_json::to_string(&runs).unwrap();
        assert_eq!(serde_json::from_str::<Runs>(&text).unwrap(), runs);
    }
}
