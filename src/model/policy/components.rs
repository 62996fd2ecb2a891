//! `[order.components]`: priority as a weighted sum of components. Each component is a weighted
//! sum of subcomponents (M11).
//!
//! Each component and subcomponent has a weight and an optional cap. By default, only the
//! subcomponent `queue_time` of component `service` counts: a job that has waited for 40 minutes
//! has priority 40.

use crate::model::account::UsageTarget;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Weight and cap of a component or subcomponent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WeightAndCap {
    /// Multiplier; 0 excludes the component.
    pub weight: f64,
    /// Upper bound of the value before weighting; None for no bound.
    pub cap: Option<f64>,
}

impl WeightAndCap {
    /// Creates a weight without a cap.
    pub const fn of(weight: f64) -> WeightAndCap {
        WeightAndCap { weight, cap: None }
    }

    /// Returns the value limited by the cap.
    pub fn capped(self, value: f64) -> f64 {
        self.cap.map_or(value, |cap| value.min(cap))
    }

    /// Returns the contribution to the sum. If the weight is 0, the contribution is 0 for every
    /// value.
    pub fn product(self, value: f64) -> f64 {
        if self.weight == 0.0 {
            0.0
        } else {
            self.weight * self.capped(value)
        }
    }
}

named! {
    /// Component of a job's priority.
    ComponentKind {
        /// Priorities of user, group, account, quality and queue (M14).
        Credential = "credential",
        /// Usage of the owner and of the account, each as the distance from its target (M12).
        FairShare = "fair_share",
        /// Requested resources (M15).
        Resource = "resource",
        /// Service received so far, such as waiting time.
        Service = "service",
        /// Progress toward the service targets of the quality of service (M19).
        Target = "target",
        /// Resources used; running jobs only (M20).
        Usage = "usage",
    }
}

impl ComponentKind {
    /// Returns the names of the subcomponents.
    pub const fn parts(self) -> &'static [&'static str] {
        match self {
            ComponentKind::Credential => &["user", "group", "account", "qos", "queue"],
            ComponentKind::FairShare => &["user", "account"],
            ComponentKind::Resource => &[
                "nodes",
                "processors",
                "memory",
                "swap",
                "disk",
                "processor_seconds",
                "processor_equivalents",
                "walltime",
            ],
            ComponentKind::Service => &["queue_time", "xfactor", "bypass"],
            ComponentKind::Target => &["queue_time", "xfactor"],
            ComponentKind::Usage => &["consumed", "remaining", "percent", "execution_time"],
        }
    }
}

/// Weights of a component and of its subcomponents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Component {
    /// Weight and cap of the component.
    pub whole: WeightAndCap,
    /// Weights and caps of the subcomponents, in the order of [`ComponentKind::parts`].
    pub parts: Vec<WeightAndCap>,
}

impl Component {
    /// Creates a component of weight 1. All subcomponents have weight 0, except `queue_time` of
    /// [`ComponentKind::Service`].
    pub fn of(kind: ComponentKind) -> Component {
        let mut parts = Vec::new();
        for name in kind.parts() {
            let is_wait = kind == ComponentKind::Service && *name == "queue_time";
            parts.push(WeightAndCap::of(if is_wait { 1.0 } else { 0.0 }));
        }
        Component {
            whole: WeightAndCap::of(1.0),
            parts,
        }
    }

    /// Returns `weight * min(cap, sum of the subcomponents)`.
    pub fn value(&self, parts: &[f64]) -> f64 {
        self.whole.product(self.sum(parts))
    }

    /// Returns the sum of the subcomponents, before the component's own weight and cap.
    pub fn sum(&self, parts: &[f64]) -> f64 {
        self.parts
            .iter()
            .zip(parts)
            .map(|(count, value)| count.product(*value))
            .sum()
    }

    /// Tests whether the component has any effect.
    pub fn counts(&self) -> bool {
        self.whole.weight != 0.0 && self.parts.iter().any(|part| part.weight != 0.0)
    }
}

/// Credential priorities by name (M14).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Priorities {
    /// Priorities of users.
    pub user: BTreeMap<String, f64>,
    /// Priorities of groups.
    pub group: BTreeMap<String, f64>,
    /// Priorities of accounts.
    pub account: BTreeMap<String, f64>,
    /// Priorities of qualities of service.
    pub qos: BTreeMap<String, f64>,
    /// Priorities of queues. If neither the queue nor [`Priorities::OTHERS`] has an entry, the
    /// queue's attribute `Priority` counts.
    pub queue: BTreeMap<String, f64>,
    /// Names of the groups in `group`, by group id. Groups that do not exist on the system are
    /// omitted.
    pub groups: BTreeMap<u32, String>,
}

impl Priorities {
    /// Key of the entry that applies to all names without an entry of their own.
    pub const OTHERS: &str = "*";

    /// Returns the priority of a name in a table, or the priority of [`Priorities::OTHERS`] for a
    /// name without an entry; None if the table has neither.
    pub fn in_table(table: &BTreeMap<String, f64>, name: Option<&str>) -> Option<f64> {
        name.and_then(|name| table.get(name))
            .or_else(|| table.get(Priorities::OTHERS))
            .copied()
    }
}

/// Service targets of a quality of service (M19).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Target for the waiting time.
    pub queue_time: Option<Span>,
    /// Target for the expansion factor.
    pub xfactor: Option<f64>,
}

/// `[order.components]`: weights, priorities and targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Components {
    /// Weights of all components.
    pub all: BTreeMap<ComponentKind, Component>,
    /// Priorities in the credential component.
    pub priorities: Priorities,
    /// Usage targets of users in the fair-share component. Targets of accounts are in
    /// `[[account]]`.
    pub users: BTreeMap<String, UsageTarget>,
    /// Service targets of qualities of service in the target component.
    pub goals: BTreeMap<String, Goal>,
    /// Minimum walltime in the computation of expansion factors (M16).
    pub min_walltime: Span,
    /// True if priorities can be below [`Components::LEAST`].
    pub enable_negative: bool,
}

impl Default for Components {
    fn default() -> Components {
        Components {
            all: ComponentKind::ALL
                .iter()
                .map(|&(_, kind)| (kind, Component::of(kind)))
                .collect(),
            priorities: Priorities::default(),
            users: BTreeMap::new(),
            goals: BTreeMap::new(),
            min_walltime: Span(0),
            enable_negative: false,
        }
    }
}

impl Components {
    /// Minimum priority, unless negative values are enabled.
    pub const LEAST: f64 = 1.0;

    /// Maximum priority, except for system priorities.
    pub const MOST: f64 = 1e9;

    /// Returns the weights of a component; weight 0 for a component that is not configured.
    pub fn component(&self, kind: ComponentKind) -> &Component {
        const NOTHING: &Component = &Component {
            whole: WeightAndCap::of(0.0),
            parts: Vec::new(),
        };
        self.all.get(&kind).unwrap_or(NOTHING)
    }

    /// Tests whether a queue's own priority affects the credential component.
    pub fn uses_queue_priority(&self, queue: &str) -> bool {
        let credential = self.component(ComponentKind::Credential);
        let of_queue = ComponentKind::Credential
            .parts()
            .iter()
            .zip(&credential.parts)
            .find(|(part, _)| **part == "queue");
        let is_named = Priorities::in_table(&self.priorities.queue, Some(queue)).is_some();
        credential.whole.weight != 0.0
            && of_queue.is_some_and(|(_, count)| count.weight != 0.0)
            && !is_named
    }

    /// Returns the contribution of a component, given the values of its subcomponents.
    pub fn value(&self, kind: ComponentKind, parts: &[f64]) -> f64 {
        self.component(kind).value(parts)
    }

    /// Limits a sum to the range of priorities.
    pub fn bounded(&self, sum: f64) -> f64 {
        let least = if self.enable_negative {
            f64::MIN
        } else {
            Components::LEAST
        };
        // Infinite weights can give NaN.
        if sum.is_nan() {
            least
        } else {
            sum.clamp(least, Components::MOST)
        }
    }

    /// Fills [`Priorities::groups`], because jobs store only the id of their group. `number`
    /// returns the id of a group name.
    pub fn number_groups(&mut self, number: impl Fn(&str) -> Option<u32>) {
        let names = self.priorities.group.keys();
        self.priorities.groups = names
            .filter_map(|name| Some((number(name)?, name.clone())))
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M11.
    #[test]
    fn components_and_subcomponents_have_weights_and_caps() {
        let component = Component {
            whole: WeightAndCap {
                weight: 2.0,
                cap: Some(50.0),
            },
            parts: vec![
                WeightAndCap {
                    weight: 3.0,
                    cap: Some(10.0),
                },
                WeightAndCap::of(1.0),
                WeightAndCap::of(0.0),
            ],
        };
        assert_eq!(component.value(&[4.0, 5.0, 6.0]), 34.0);
        assert_eq!(component.value(&[40.0, 5.0, 6.0]), 70.0);
        assert_eq!(component.value(&[40.0, 500.0, f64::INFINITY]), 100.0);
        assert_eq!(
            component.value(&[-40.0, 5.0, 6.0]),
            -230.0,
            "a cap does not raise negative values"
        );
    }

    /// M11.
    #[test]
    fn by_default_only_minutes_of_waiting_count() {
        let default = Components::default();
        let values: Vec<f64> = ComponentKind::ALL
            .iter()
            .map(|&(_, kind)| default.value(kind, &[7.0; 8]))
            .collect();
        assert_eq!(values, [0.0, 0.0, 0.0, 7.0, 0.0, 0.0]);
        assert!(
            default.component(ComponentKind::Service).counts()
                && !default.component(ComponentKind::Usage).counts()
        );
    }

    /// M11.
    #[test]
    fn priority_is_one_to_a_billion_unless_negative_values_are_allowed() {
        let bounded = |enable_negative, sum| {
            Components {
                enable_negative,
                ..Components::default()
            }
            .bounded(sum)
        };
        assert_eq!(
            [-5.0, 0.5, 40.0, 2e9].map(|sum| bounded(false, sum)),
            [1.0, 1.0, 40.0, 1e9]
        );
        assert_eq!([-5.0, 2e9].map(|sum| bounded(true, sum)), [-5.0, 1e9]);
        assert_eq!(bounded(false, f64::NAN), 1.0);
    }

    #[test]
    fn names_without_an_entry_have_the_priority_of_the_others() {
        let table = BTreeMap::from([("john".to_string(), 300.0), ("*".to_string(), 5.0)]);
        let of = |name| Priorities::in_table(&table, name);
        assert_eq!(
            [of(Some("john")), of(Some("paul")), of(None)],
            [Some(300.0), Some(5.0), Some(5.0)]
        );
    }
}
