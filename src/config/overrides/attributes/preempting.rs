//! The attributes for preemption, of the scheduler and of the server. The keys of `[preemption]`
//! store their values.

use super::texts::{join_names, split_names};
use crate::config::Config;
use crate::config::overrides::forms::{AttributeForm, QmgrAttribute, attribute};
use crate::model::policy::PreemptionPolicy;

/// The scheduler's attributes in PBS's order.
pub(super) const OF_SCHED: [QmgrAttribute; 4] = [
    attribute("preempt_queue_prio", AttributeForm::Key),
    attribute("preempt_prio", AttributeForm::Key),
    attribute("preempt_order", AttributeForm::Key),
    attribute("preempt_sort", AttributeForm::Key),
];

/// The resources that a suspended job releases; not displayed if they have the default value.
pub(super) const RELEASES: AttributeForm = AttributeForm::Server(
    |config| {
        let releases = &config.policy.preemption.releases;
        if *releases == PreemptionPolicy::default().releases {
            None
        } else {
            join_names(releases)
        }
    },
    set_releases,
);

/// Sets the resources that a suspended job releases, or restores the default if `text` is None.
/// Returns false if the list is empty, contains a resource twice, or contains anything except
/// consumable resources of nodes.
fn set_releases(config: &mut Config, text: Option<&str>) -> bool {
    let Some(text) = text else {
        config.policy.preemption.releases = PreemptionPolicy::default().releases;
        return true;
    };
    let (all, resources) = (split_names(text), config.resources());
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
