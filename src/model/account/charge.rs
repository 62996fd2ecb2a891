//! Charges: the resources that an attempt (one start of a job) had, with start and end. Charges are
//! stored without weights and decay, because their [`UsageRules`] may change later.

use super::decay::{Decay, UsageInterval};
use super::member::Member;
use crate::model::job::held::Held;
use crate::model::job::{Job, NodeShare, Run};
use crate::model::resource::ResourceValue;
use crate::model::time::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Returns the allocated amounts of all consumables that [`Held`] does not contain: sizes in
/// gibibytes, other amounts as plain numbers.
pub fn amounts(shares: &[NodeShare]) -> BTreeMap<String, f64> {
    let mut amounts = BTreeMap::new();
    let taken = shares
        .iter()
        .flat_map(|share| share.taken.iter().chain(&share.pooled));
    for (name, value) in taken.filter(|(name, _)| !Weights::is_counted_by_another_name(name)) {
        let amount = match value {
            ResourceValue::Long(number) => *number as f64,
            ResourceValue::Float(number) => *number,
            ResourceValue::Size(size) => size.bytes() as f64 / GIBIBYTE,
            ResourceValue::Time(_) | ResourceValue::Boolean(_) | ResourceValue::String(_) => {
                continue;
            }
        };
        *amounts.entry(name.clone()).or_default() += amount;
    }
    amounts
}

const GIBIBYTE: f64 = 1_073_741_824.0;

/// Charge for an attempt, or for a part of it. A suspension ends the charge. Resources that a
/// running job releases get a charge of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Charge {
    /// Account and user charged.
    pub member: Member,
    /// Start of the attempt, or end of its last suspension.
    pub from: Time,
    /// Time at which the attempt ended, was suspended, or released the resources; None until then.
    pub to: Option<Time>,
    /// Allocated nodes, processors, GPUs and memory.
    pub held: Held,
    /// Amounts of other consumables, see [`amounts`].
    #[serde(default)]
    pub amounts: BTreeMap<String, f64>,
    /// Factor by which the usage counts: the product of `charge` of the queue and of the quality of
    /// service (X24).
    #[serde(default = "whole")]
    pub factor: f64,
}

fn whole() -> f64 {
    1.0
}

impl Charge {
    /// Creates the charge for the resources in `run`, from the start of the attempt or the end of
    /// its last suspension.
    pub fn of(job: &Job, run: &Run, factor: f64) -> Charge {
        let member = Member {
            account: job.spec.account.clone().unwrap_or_default(),
            user: job.owner.user.clone(),
        };
        let (held, amounts) = (Held::of(&run.shares), amounts(&run.shares));
        Charge {
            member,
            from: run.running_since(),
            to: None,
            held,
            amounts,
            factor,
        }
    }

    /// Returns the charge with the end `to`.
    pub fn until(self, to: Time) -> Charge {
        Charge {
            to: Some(to),
            ..self
        }
    }

    /// Tests whether the charge has no duration, such as for an attempt that never ran.
    pub fn is_empty(&self) -> bool {
        self.to.is_some_and(|to| to <= self.from)
    }
}

/// Weights of resources in usage (F22).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// Weight of a node with an allocation.
    pub nodes: f64,
    /// Weight of a processor.
    pub cores: f64,
    /// Weight of a GPU.
    pub gpus: f64,
    /// Weight of a gibibyte of memory.
    pub mem: f64,
    /// Weights of other consumables by name: per gibibyte of a size, else per unit (F13).
    #[serde(default)]
    pub resources: BTreeMap<String, f64>,
}

impl Default for Weights {
    fn default() -> Weights {
        Weights {
            nodes: 0.0,
            cores: 1.0,
            gpus: 0.0,
            mem: 0.0,
            resources: BTreeMap::new(),
        }
    }
}

impl Weights {
    /// Names of the weights that have a field of their own.
    pub const NAMES: [&str; 4] = ["cores", "gpus", "mem", "nodes"];

    /// Tests whether [`Held`] contains a resource: `ncpus` as cores, `ngpus` as gpus, or `mem`.
    pub fn is_counted_by_another_name(resource: &str) -> bool {
        matches!(resource, "ncpus" | "ngpus" | "mem")
    }

    /// Returns the usage per second, in weighted resources (F22).
    pub fn rate(&self, held: &Held, amounts: &BTreeMap<String, f64>) -> f64 {
        let gibibytes = held.mem_kb as f64 / f64::from(1 << 20);
        let of_others = self
            .resources
            .iter()
            .map(|(name, weight)| amounts.get(name).unwrap_or(&0.0) * weight);
        f64::from(held.nodes) * self.nodes
            + f64::from(held.cores) * self.cores
            + f64::from(held.gpus) * self.gpus
            + gibibytes * self.mem
            + of_others.sum::<f64>()
    }
}

/// `[usage]`: weights, decay and reset of usage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageRules {
    /// Decay of usage.
    pub decay: Decay,
    /// Period between resets. Usage before the last reset does not count. The first period begins
    /// at [`Time`] 0, the Unix epoch on schedd's clock. None for no reset.
    pub reset: Option<Span>,
    /// Weights of resources.
    pub weights: Weights,
}

impl UsageRules {
    /// Returns the usage of a charge until `now` as an interval.
    pub fn stretch(&self, charge: &Charge, now: Time) -> UsageInterval {
        let to = charge.to.unwrap_or(now).min(now);
        UsageInterval {
            from: charge.from,
            to,
            rate: self.rate(charge),
        }
    }

    /// Returns the usage of a charge per second, in weighted resources (F22, X24).
    pub fn rate(&self, charge: &Charge) -> f64 {
        self.weights.rate(&charge.held, &charge.amounts) * charge.factor
    }

    /// Returns the decayed usage of a charge at `now`, in seconds of weighted resources.
    pub fn left(&self, charge: &Charge, now: Time) -> f64 {
        self.decay
            .left(self.counted(self.stretch(charge, now), now), now)
    }

    /// Returns the part of an interval after the last reset at or before `now`. If the interval
    /// ends before that reset, `from` of the result is after `to`.
    pub fn counted(&self, interval: UsageInterval, now: Time) -> UsageInterval {
        UsageInterval {
            from: interval.from.max(self.since(now)),
            ..interval
        }
    }

    /// Returns the time of the last reset, at or before `now` (F24); without resets, the earliest
    /// time.
    pub fn since(&self, now: Time) -> Time {
        let period = self.reset.map(|reset| reset.0.max(1));
        period.map_or(Time(i64::MIN), |period| {
            Time(now.0.div_euclid(period).saturating_mul(period))
        })
    }

    /// Returns the time for which a charge counts after its end; None if charges count forever.
    pub fn counts_for(&self) -> Option<Span> {
        self.reset.into_iter().chain(self.decay.counts_for()).min()
    }
}

/// Usage of a member, in seconds of weighted resources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// Account and user.
    pub member: Member,
    /// Total usage since the oldest stored charge.
    pub raw: f64,
    /// Decayed usage.
    pub decayed: f64,
    /// Usage of the running jobs, in weighted resources: the increase of `raw` per second.
    pub now: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::resource::ResourceType;

    fn share(node: &str, taken: &[(&str, ResourceType, &str)]) -> NodeShare {
        let value = |&(name, kind, text): &(&str, ResourceType, &str)| {
            (name.to_string(), ResourceValue::parse(kind, text).unwrap())
        };
        NodeShare {
            node: node.into(),
            host: node.into(),
            taken: taken.iter().map(value).collect(),
            pooled: Vec::new(),
            cpus: Vec::new(),
            gpus: Vec::new(),
            mpiprocs: 1,
            ranks: Vec::new(),
        }
    }

    #[test]
    fn allocations_are_summed_over_all_nodes() {
        let chunk = [
            ("ncpus", ResourceType::Long, "4"),
            ("mem", ResourceType::Size, "2gb"),
            ("ngpus", ResourceType::Long, "1"),
        ];
        let held = Held::of(&[
            share("n1", &chunk),
            share("n1", &chunk),
            share("n2", &chunk[..1]),
        ]);
        assert_eq!(
            held,
            Held {
                nodes: 2,
                cores: 12,
                gpus: 2,
                mem_kb: 4 << 20
            }
        );
    }

    #[test]
    fn f22_resources_count_by_their_weights() {
        let held = Held {
            nodes: 1,
            cores: 8,
            gpus: 2,
            mem_kb: 3 << 20,
        };
        let none = BTreeMap::new();
        let of = |nodes, cores, gpus, mem| {
            100.0
                * Weights {
                    nodes,
                    cores,
                    gpus,
                    mem,
                    resources: none.clone(),
                }
                .rate(&held, &none)
        };
        assert_eq!(
            [
                of(1.0, 0.0, 0.0, 0.0),
                of(1.0, 1.0, 0.0, 0.0),
                of(1.0, 0.0, 10.0, 0.0)
            ],
            [100.0, 900.0, 2100.0]
        );
        assert_eq!(of(0.0, 0.0, 0.0, 0.5), 150.0);
        assert_eq!(Weights::default().rate(&held, &none), 8.0);
    }

    #[test]
    fn f13_a_custom_consumable_counts_by_its_weight() {
        let chunk = [
            ("ncpus", ResourceType::Long, "4"),
            ("power", ResourceType::Long, "300"),
            ("scratch", ResourceType::Size, "512mb"),
        ];
        let shares = [share("n1", &chunk), share("n2", &chunk[..2])];
        let amounts = amounts(&shares);
        let expected = [("power".to_string(), 600.0), ("scratch".to_string(), 0.5)];
        assert_eq!(amounts, BTreeMap::from(expected));
        let resources = [("power".to_string(), 0.01), ("scratch".to_string(), 2.0)].into();
        let weights = Weights {
            cores: 0.0,
            resources,
            ..Weights::default()
        };
        assert_eq!(weights.rate(&Held::of(&shares), &amounts), 7.0);
    }

    #[test]
    fn f24_usage_before_the_last_reset_does_not_count() {
        let week = Decay::WEEK;
        let rules = UsageRules {
            decay: Decay::None,
            reset: Some(week),
            ..UsageRules::default()
        };
        let held = Held {
            cores: 2,
            ..Held::default()
        };
        let day = |day: i64| Time(0) + Span::seconds(day * 24 * 3600);
        let charge = Charge {
            member: Member::default(),
            from: day(6),
            to: None,
            held,
            amounts: BTreeMap::new(),
            factor: 1.0,
        };
        let left = |charge: &Charge, now| rules.left(charge, day(now)) / (24.0 * 3600.0);
        assert_eq!(
            [left(&charge, 7), left(&charge, 8), left(&charge, 14)],
            [0.0, 2.0, 0.0]
        );
        assert_eq!(
            left(
                &Charge {
                    factor: 0.25,
                    ..charge.clone()
                },
                8
            ),
            0.5,
            "X24"
        );
        assert_eq!(left(&charge.clone().until(day(7)), 6), 0.0);
        assert_eq!(rules.counts_for(), Some(week));
        assert_eq!(
            UsageRules {
                reset: None,
                ..rules.clone()
            }
            .counts_for(),
            None
        );
        let steps = |hours: i64| UsageRules {
            decay: Decay::Step {
                half_life: Span::seconds(hours * 3600),
            },
            ..rules.clone()
        };
        assert_eq!(
            [1, 24].map(|hours| steps(hours).counts_for()),
            [Some(Span::seconds(64 * 3600)), Some(week)]
        );
        assert!(
            !charge.is_empty()
                && charge.clone().until(day(6)).is_empty()
                && !charge.until(day(7)).is_empty()
        );
    }
}
