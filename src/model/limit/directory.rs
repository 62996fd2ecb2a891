//! Which limits can concern somebody, found by name: where hundreds are named, nearly all limits
//! are for somebody else.

use super::{LimitScope, LimitStage, LimitSubject, Limits, Selector};
use std::collections::BTreeMap;

/// By place among [`LimitScope::selectors`], the credentials by which a limit is found, the
/// most selective first.
const SELECTIVITY: [usize; 6] = [1, 3, 4, 2, 5, 0];

/// The limits on a stage, by place among all, each under one of the names it names.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    named: [BTreeMap<String, Vec<usize>>; 6],
    /// Those that name nobody.
    open: Vec<usize>,
}

impl Directory {
    /// That of the limits on a stage.
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

    /// Those that can concern a subject, in their order; not all of them do.
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

/// The name under which a scope is found, and of which credential it is.
fn name(scope: &LimitScope) -> Option<(usize, &String)> {
    let selectors = scope.selectors();
    SELECTIVITY
        .into_iter()
        .find_map(|kind| match selectors[kind] {
            Selector::Named(name) => Some((kind, name)),
            Selector::All | Selector::Each => None,
        })
}
