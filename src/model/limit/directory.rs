//! Index of limits by name. Of hundreds of limits for named users or groups, only a few apply to a
//! job.

use super::{LimitScope, LimitStage, LimitSubject, Limits, Selector};
use std::collections::BTreeMap;

/// Order in which a limit's selectors are tried for the index, the most selective kind first.
/// The numbers are positions in [`LimitScope::selectors`].
const SELECTIVITY: [usize; 6] = [1, 3, 4, 2, 5, 0];

/// Limits of a stage, each indexed under one of the names in its scope.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    named: [BTreeMap<String, Vec<usize>>; 6],
    /// Limits without a name in their scope.
    open: Vec<usize>,
}

impl Directory {
    /// Creates the index of the limits of a stage.
    pub fn new(limits: &Limits, stage: LimitStage) -> Directory {
        let mut directory = Directory::default();
        for (place, limit) in limits
            .all
            .iter()
            .enumerate()
            .filter(|(_, limit)| limit.stage == stage)
        {
            match name(&limit.scope) {
                Some((kind, name)) => directory.named[kind]
                    .entry(name.clone())
                    .or_default()
                    .push(place),
                None => directory.open.push(place),
            }
        }
        directory
    }

    /// Returns the limits that can apply to a subject, in configuration order. The caller must
    /// still check the selectors that are not indexed.
    pub(super) fn of(&self, subject: &LimitSubject) -> Vec<usize> {
        let mut found = self.open.clone();
        for (places, names) in self.named.iter().zip(&subject.names) {
            for name in names {
                found.extend(places.get(name).into_iter().flatten());
            }
        }
        found.sort_unstable();
        found
    }
}

/// Returns the selector and the name under which a scope is indexed; None without a name.
fn name(scope: &LimitScope) -> Option<(usize, &String)> {
    let selectors = scope.selectors();
    SELECTIVITY
        .into_iter()
        .find_map(|kind| match selectors[kind] {
            Selector::Named(name) => Some((kind, name)),
            Selector::All | Selector::Each => None,
        })
}
