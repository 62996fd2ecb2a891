//! The scheduler's preemption attributes: `[preemption]` in PBS's terms.

use super::texts::{joined, names};
use crate::config::Config;
use crate::config::overrides::forms::{AttributeForm, QmgrAttribute, at};
use crate::model::policy::PreemptionPolicy;

/// The attributes in PBS's order.
pub(super) const OF_SCHED: [QmgrAttribute; 4] = [
    at("preempt_queue_prio", AttributeForm::Key),
    at("preempt_prio", AttributeForm::Key),
    at("preempt_order", AttributeForm::Key),
    at("preempt_sort", AttributeForm::Key),
];

/// The resources that a suspended job releases; displayed if not the default.
pub(super) const RELEASES: AttributeForm = AttributeForm::Server(
    |config| {
        let releases = &config.policy.preemption.releases;
        if *releases == PreemptionPolicy::default().releases {
            None
        } else {
            joined(releases)
        }
    },
    set_releases,
);

/// Sets consumable resources, each once.
fn set_releases(config: &mut Config, text: Option<&str>) -> bool {
    let Some(text) = text else {
        config.policy.preemption.releases = PreemptionPolicy::default().releases;
        return true;
    };
    let (all, resources) = (names(text), config.resources());
    let counted = resources.consumables();
    let is_good = !all.is_empty()
        && (0..all.len()).all(|place| {
            counted.contains(&all[place].as_str()) && !all[..place].contains(&all[place])
        });
    if is_good {
        config.policy.preemption.releases = all;
    }
    is_good
}
