//! `[order.components]`: what a job is worth as a sum of components, each a sum of its own (M11).
//!
//! In each of the sums something counts by a weight, and up to a cap: a job that has been waiting
//! for 40 minutes has 40 `queue_time`, which is all of its `service`, which is all that it is worth
//! by default.

use crate::model::account::UsageTarget;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What something counts for in a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WeightAndCap {
    /// By this it is multiplied; 0 for what does not count.
    pub weight: f64,
    /// No more of it counts.
    pub cap: Option<f64>,
}

impl WeightAndCap {
    /// Without a cap.
    pub const fn of(weight: f64) -> WeightAndCap {
        WeightAndCap { weight, cap: None }
    }

    /// As much of a value as counts.
    pub fn capped(self, value: f64) -> f64 {
        self.cap.map_or(value, |cap| value.min(cap))
    }

    /// What a value adds to the sum. What does not count adds nothing, whatever its value.
    pub fn product(self, value: f64) -> f64 {
        if self.weight == 0.0 {
            0.0
        } else {
            self.weight * self.capped(value)
        }
    }
}

named! {
    /// A component of what a job is worth.
    ComponentKind {
        /// Whose the job is (M14).
        Credential = "credential",
        /// How far its owner is from what they are to have (M12).
        FairShare = "fair_share",
        /// What it asks for (M15).
        Resource = "resource",
        /// How it has been served so far.
        Service = "service",
        /// How near it is to the service its quality is to have (M19).
        Target = "target",
        /// What it has used: of running jobs only (M20).
        Usage = "usage",
    }
}

impl ComponentKind {
    /// What it is the sum of.
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

/// What a component counts for, and what its parts count for in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Component {
    /// The component as a whole.
    pub whole: WeightAndCap,
    /// In the order of [`ComponentKind::parts`].
    pub parts: Vec<WeightAndCap>,
}

impl Component {
    /// Counts once as a whole; of its parts only the wait counts.
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

    /// What it comes to, of what there is of each part: `weight * min(cap, sum of the parts)`.
    pub fn value(&self, parts: &[f64]) -> f64 {
        self.whole.product(self.sum(parts))
    }

    /// What its parts come to, before its own weight and cap.
    pub fn sum(&self, parts: &[f64]) -> f64 {
        self.parts
            .iter()
            .zip(parts)
            .map(|(count, value)| count.product(*value))
            .sum()
    }

    /// Whether anything of it counts.
    pub fn counts(&self) -> bool {
        self.whole.weight != 0.0 && self.parts.iter().any(|part| part.weight != 0.0)
    }
}

/// The priorities of whose a job is, by name (M14).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Priorities {
    /// Of users.
    pub user: BTreeMap<String, f64>,
    /// Of groups.
    pub group: BTreeMap<String, f64>,
    /// Of accounts.
    pub account: BTreeMap<String, f64>,
    /// Of qualities of service.
    pub qos: BTreeMap<String, f64>,
    /// Of queues; one that is not named has its own priority.
    pub queue: BTreeMap<String, f64>,
    /// The numbers of the groups, as far as there are such.
    pub groups: BTreeMap<u32, String>,
}

impl Priorities {
    /// The name that stands for all that are not named.
    pub const OTHERS: &str = "*";

    /// What a table says of a name.
    pub fn in_table(table: &BTreeMap<String, f64>, name: Option<&str>) -> Option<f64> {
        name.and_then(|name| table.get(name))
            .or_else(|| table.get(Priorities::OTHERS))
            .copied()
    }
}

/// The service that jobs of a quality are to have (M19).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// They are to wait no longer.
    pub queue_time: Option<Span>,
    /// Their expansion factor is to be no higher.
    pub xfactor: Option<f64>,
}

/// `[order.components]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Components {
    /// All of them.
    pub all: BTreeMap<ComponentKind, Component>,
    /// What users, groups, ... add to the credential component.
    pub priorities: Priorities,
    /// What users are to have, for the fair-share component; accounts say so themselves.
    pub users: BTreeMap<String, UsageTarget>,
    /// What qualities of service are to have, for the target component.
    pub goals: BTreeMap<String, Goal>,
    /// A walltime below this counts as this in expansion factors (M16).
    pub min_walltime: Span,
    /// Whether a job may be worth less than [`Components::LEAST`].
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
    /// The least a job is worth, unless it may be worth less.
    pub const LEAST: f64 = 1.0;

    /// The most a job is worth, unless an operator says otherwise.
    pub const MOST: f64 = 1e9;

    /// What a component counts for; nothing if it is not there.
    pub fn component(&self, kind: ComponentKind) -> &Component {
        const NOTHING: &Component = &Component {
            whole: WeightAndCap::of(0.0),
            parts: Vec::new(),
        };
        self.all.get(&kind).unwrap_or(NOTHING)
    }

    /// Whether the priority of a queue counts as the credential of its jobs.
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

    /// What a component comes to, of what there is of each of its parts.
    pub fn value(&self, kind: ComponentKind, parts: &[f64]) -> f64 {
        self.component(kind).value(parts)
    }

    /// A sum as far as a job can be worth it.
    pub fn bounded(&self, sum: f64) -> f64 {
        let least = if self.enable_negative {
            f64::MIN
        } else {
            Components::LEAST
        };
        // A sum of weights without measure may be no number at all.
        if sum.is_nan() {
            least
        } else {
            sum.clamp(least, Components::MOST)
        }
    }

    /// Takes note of the numbers of the groups that have priorities: jobs know theirs by number.
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
    fn each_sum_has_weights_and_caps() {
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
            "a cap is no floor"
        );
    }

    /// M11.
    #[test]
    fn by_default_nothing_counts_but_minutes_of_waiting() {
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
    fn who_is_not_named_has_what_others_have() {
        let table = BTreeMap::from([("john".to_string(), 300.0), ("*".to_string(), 5.0)]);
        let of = |name| Priorities::in_table(&table, name);
        assert_eq!(
            [of(Some("john")), of(Some("paul")), of(None)],
            [Some(300.0), Some(5.0), Some(5.0)]
        );
    }
}
