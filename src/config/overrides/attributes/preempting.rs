//! The scheduler's attributes that say who makes way for whom and how: `[preemption]`, in PBS's
//! words.

use super::texts::{joined, names};
use super::{AttributeForm, QmgrAttribute, at};
use crate::config::Config;
use crate::model::job::suspension::Releases;

/// In PBS's order.
pub(super) const OF_SCHED: [QmgrAttribute; 4] = [
    at("preempt_queue_prio", AttributeForm::Key),
    at("preempt_prio", AttributeForm::Key),
    at("preempt_order", AttributeForm::Key),
    at("preempt_sort", AttributeForm::Key),
];

/// The server's, shown where it is not as preset.
pub(super) const RELEASES: AttributeForm = AttributeForm::Server(
    |config| {
        Some(&config.releases)
            .filter(|all| **all != Releases::default())
            .and_then(|all| joined(&all.0))
    },
    set_releases,
);

/// Resources that are counted, each once.
fn set_releases(config: &mut Config, text: Option<&str>) -> bool {
    let Some(text) = text else {
        config.releases = Releases::default();
        return true;
    };
    let (all, resources) = (names(text), config.resources());
    let counted = resources.consumables();
    let is_good = |place: usize| {
        counted.contains(&all[place].as_str()) && !all[..place].contains(&all[place])
    };
    let are_good = !all.is_empty() && (0..all.len()).all(is_good);
    if are_good {
        config.releases = Releases(all);
    }
    are_good
}
