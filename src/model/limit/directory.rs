//! Index of limits by name: if hundreds of limits name a subject, almost all apply to others.

use super::{LimitScope, LimitStage, LimitSubject, Limits, Selector};
use std::collections::BTreeMap;

/// Indices in [`LimitScope::selectors`], the most selective first, by which limits are indexed.
const SELECTIVITY: [usize; 6] = [1, 3, 4, 2, 5, 0];

/// Limits of a stage, each indexed under one of the names in its scope.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    named: [BTreeMap<String, Vec<usize>>; 6],
    /// Limits that name no subject.
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

    /// Returns candidates for a subject, in order. Their other selectors may still exclude it.
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

/// Returns the name under which a scope is indexed, and its selector.
fn name(scope: &LimitScope) -> Option<(usize, &String)> {
    let selectors = scope.selectors();
    SELECTIVITY
        .into_iter()
        .find_map(|kind| match selectors[kind] {
            Selector::Named(name) => Some((kind, name)),
            Selector::All | Selector::Each => None,
        })
}
