//! Order of the waiting jobs.

use super::components::{self, Components};
use super::factors::{Factor, Factors};
use super::formula;
use super::owner_priority::OwnerPriorityRule;
use crate::model::expression::Expression;
use crate::model::policy::quality::Qualities;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

named! {
    /// Criterion for the order of jobs. Equal jobs are ordered by their place in the queue: the job
    /// number, unless qorder has swapped places.
    PriorityOrder {
        /// First come, first served.
        Fcfs = "fcfs",
        /// On each node, jobs of the nearest cluster first, and within a cluster the best `-p`
        /// first (Q5, Q17).
        Cluster = "cluster",
        /// Jobs of the least served pool first (X10).
        Pool = "pool",
        /// Best `-p` first; [`OwnerPriorityRule`] defines which is the best.
        Priority = "priority",
        /// Highest value of a formula first (I15).
        Formula = "formula",
        /// Highest sum of weighted factors first (F1).
        Multifactor = "multifactor",
        /// Highest sum of components first, as in Maui (M11).
        Components = "components",
    }
}

named! {
    /// Order of queues (I22).
    TurnPolicy {
        /// Jobs of all queues together.
        Together = "together",
        /// One queue after the other, the highest queue priority first.
        ByQueue = "by_queue",
        /// Queues of higher priority first; round robin among queues of equal priority.
        RoundRobin = "round_robin",
    }
}

/// Sort keys that precede the priority of jobs (X18).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tiers {
    /// Order of queues.
    pub turns: TurnPolicy,
    /// Eligible time beyond which a job precedes all jobs that have not exceeded it (I21); None to
    /// disable this rule.
    pub max_starve: Option<Span>,
}

impl Tiers {
    /// Tests whether no sort key precedes the priority.
    pub fn is_none(&self) -> bool {
        *self == Tiers::default()
    }
}

/// `[order]`: order of the waiting jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Precedence {
    /// Criterion for the order.
    pub order: PriorityOrder,
    /// Formula of [`PriorityOrder::Formula`], over properties of a job.
    pub formula: Option<Expression>,
    /// Jobs with at most this priority cannot run (I15, X17); None for no threshold.
    pub threshold: Option<f64>,
    /// Interval between recomputations of priorities (F9); 0 for every cycle.
    pub update_period: Span,
    /// True if jobs of a queue with a higher priority come first, regardless of the jobs'
    /// priorities (I2b).
    pub lexicographic: bool,
    /// Sort keys that precede the priority.
    pub tiers: Tiers,
    /// Weights of the factors for [`PriorityOrder::Multifactor`].
    pub weights: Factors,
    /// Eligible time at which the wait factor reaches 1 (F2); must be above 0.
    pub max_wait: Span,
    /// Job sizes with a high size factor (F6).
    pub favor: Favor,
    /// Slowdown at which the slowdown factor reaches 1; must be above 1.
    pub slowdown_cap: f64,
    /// Factors of qualities of service (F4). An unknown quality has the factor of `normal`.
    pub qos: BTreeMap<String, f64>,
    /// Priorities that owners may set.
    pub own_say: OwnerPriorityRule,
    /// Factors of queues (F5). For a queue without an entry, the factor is the queue's priority
    /// divided by 1024.
    pub queues: BTreeMap<String, f64>,
    /// Components for [`PriorityOrder::Components`].
    pub components: Box<Components>,
}

named! {
    /// Job sizes with a high size factor (F6).
    Favor {
        /// Jobs that request many nodes.
        Large = "large",
        /// Jobs that request few nodes.
        Small = "small",
    }
}

impl Default for Precedence {
    fn default() -> Precedence {
        Precedence {
            order: PriorityOrder::Multifactor,
            formula: None,
            threshold: None,
            update_period: Span(0),
            lexicographic: false,
            tiers: Tiers::default(),
            weights: Factors::HYBRID,
            max_wait: Span::seconds(7 * 24 * 3600),
            favor: Favor::Large,
            slowdown_cap: 10.0,
            qos: Qualities::default().factors(),
            own_say: OwnerPriorityRule::default(),
            queues: BTreeMap::new(),
            components: Box::default(),
        }
    }
}

impl Precedence {
    /// Tests whether the order depends only on the places in the queue.
    pub fn is_by_rank(&self) -> bool {
        self.order == PriorityOrder::Fcfs && !self.lexicographic && self.tiers.is_none()
    }

    /// Tests whether the order depends on past usage.
    pub fn uses_fair_share(&self) -> bool {
        match self.order {
            PriorityOrder::Fcfs
            | PriorityOrder::Cluster
            | PriorityOrder::Priority
            | PriorityOrder::Pool => false,
            PriorityOrder::Formula => self.formula.as_ref().is_some_and(formula::uses_fair_share),
            PriorityOrder::Multifactor => self.weights[Factor::FairShare] != 0.0,
            PriorityOrder::Components => self
                .components
                .component(components::ComponentKind::FairShare)
                .counts(),
        }
    }

    /// Tests whether the order depends on the jobs' own priorities (`-p`). With
    /// [`PriorityOrder::Multifactor`], they order only the jobs of one owner in one queue.
    pub fn uses_job_priority(&self) -> bool {
        match self.order {
            PriorityOrder::Cluster | PriorityOrder::Priority | PriorityOrder::Multifactor => true,
            PriorityOrder::Formula => self.formula_uses("job_priority"),
            PriorityOrder::Fcfs | PriorityOrder::Pool | PriorityOrder::Components => false,
        }
    }

    /// Tests whether a queue's priority affects the order of its jobs.
    pub fn uses_queue_priority(&self, queue: &str) -> bool {
        if self.lexicographic || self.tiers.turns != TurnPolicy::Together {
            return true;
        }
        match self.order {
            PriorityOrder::Formula => self.formula_uses("queue_priority"),
            PriorityOrder::Multifactor => {
                self.weights[Factor::Queue] != 0.0 && !self.queues.contains_key(queue)
            }
            PriorityOrder::Components => self.components.uses_queue_priority(queue),
            PriorityOrder::Fcfs
            | PriorityOrder::Cluster
            | PriorityOrder::Priority
            | PriorityOrder::Pool => false,
        }
    }

    fn formula_uses(&self, name: &str) -> bool {
        self.formula
            .as_ref()
            .is_some_and(|formula| formula::uses_name(formula, |used| used == name))
    }

    /// Tests whether the order can change with time alone.
    pub fn moves(&self) -> bool {
        if self.tiers.max_starve.is_some() || self.takes_turns() {
            return true;
        }
        match self.order {
            PriorityOrder::Fcfs
            | PriorityOrder::Cluster
            | PriorityOrder::Priority
            | PriorityOrder::Pool => false,
            PriorityOrder::Formula | PriorityOrder::Multifactor | PriorityOrder::Components => true,
        }
    }

    /// Quality of service of a job that requests no quality.
    pub const NORMAL: &str = Qualities::NORMAL;

    /// Creates the order first come, first served.
    pub fn fcfs() -> Precedence {
        Precedence {
            order: PriorityOrder::Fcfs,
            ..Precedence::default()
        }
    }

    /// Creates the order by a formula; equal priorities if the formula is invalid.
    pub fn by_formula(formula: &str) -> Precedence {
        Precedence {
            order: PriorityOrder::Formula,
            formula: Expression::parse(formula).ok(),
            ..Precedence::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(order: PriorityOrder) -> Precedence {
        Precedence {
            order,
            ..Precedence::default()
        }
    }

    #[test]
    fn fair_share_matters_in_orders_with_a_weight_or_formula_for_it() {
        let formulas = ["fair_share_perc", "2 * fairshare_factor", "ncpus"];
        assert_eq!(
            formulas.map(|text| Precedence::by_formula(text).uses_fair_share()),
            [true, true, false]
        );
        assert!(
            by(PriorityOrder::Multifactor).uses_fair_share()
                && !by(PriorityOrder::Formula).uses_fair_share()
        );
        for order in [
            PriorityOrder::Fcfs,
            PriorityOrder::Cluster,
            PriorityOrder::Priority,
            PriorityOrder::Pool,
            PriorityOrder::Components,
        ] {
            assert!(!by(order).uses_fair_share(), "{order:?}");
        }
        let weights = Factors::HYBRID.with(Factor::FairShare, 0.0);
        assert!(
            !Precedence {
                weights,
                ..Precedence::default()
            }
            .uses_fair_share()
        );
    }

    #[test]
    fn only_fcfs_without_other_criteria_orders_by_place() {
        assert!(Precedence::fcfs().is_by_rank() && !by(PriorityOrder::Priority).is_by_rank());
        let turns = Tiers {
            turns: TurnPolicy::ByQueue,
            ..Tiers::default()
        };
        assert!(
            !Precedence {
                tiers: turns,
                ..Precedence::fcfs()
            }
            .is_by_rank()
        );
        assert!(
            !Precedence {
                lexicographic: true,
                ..Precedence::fcfs()
            }
            .is_by_rank()
        );
    }

    /// I21: a starving job comes first as soon as it has waited long enough, without any event.
    #[test]
    fn orders_by_waiting_time_change_with_time_alone() {
        let starving = Tiers {
            max_starve: Some(Span::seconds(60)),
            ..Tiers::default()
        };
        let taking_turns = Tiers {
            turns: TurnPolicy::RoundRobin,
            ..Tiers::default()
        };
        for (tiers, moves) in [
            (starving, true),
            (taking_turns, true),
            (Tiers::default(), false),
        ] {
            assert_eq!(
                Precedence {
                    tiers,
                    ..Precedence::fcfs()
                }
                .moves(),
                moves
            );
        }
        let orders = [
            PriorityOrder::Pool,
            PriorityOrder::Formula,
            PriorityOrder::Multifactor,
            PriorityOrder::Components,
            PriorityOrder::Priority,
        ];
        assert_eq!(
            orders.map(|order| by(order).moves()),
            [true, true, true, true, false]
        );
    }

    #[test]
    fn a_job_priority_counts_if_the_order_uses_it() {
        let orders = [
            PriorityOrder::Cluster,
            PriorityOrder::Priority,
            PriorityOrder::Multifactor,
            PriorityOrder::Fcfs,
            PriorityOrder::Pool,
            PriorityOrder::Components,
        ];
        assert_eq!(
            orders.map(|order| by(order).uses_job_priority()),
            [true, true, true, false, false, false]
        );
        let formulas = ["ncpus + 2 * job_priority", "eligible_time"];
        assert_eq!(
            formulas.map(|text| Precedence::by_formula(text).uses_job_priority()),
            [true, false]
        );
    }

    #[test]
    fn a_queue_priority_counts_unless_a_factor_replaces_it() {
        let uses = |rule: Precedence| rule.uses_queue_priority("short");
        let orders = [
            PriorityOrder::Multifactor,
            PriorityOrder::Fcfs,
            PriorityOrder::Priority,
            PriorityOrder::Pool,
            PriorityOrder::Components,
        ];
        assert_eq!(
            orders.map(|order| uses(by(order))),
            [true, false, false, false, false]
        );
        assert!(uses(Precedence {
            lexicographic: true,
            ..Precedence::fcfs()
        }));
        assert!(
            uses(Precedence::by_formula("queue_priority"))
                && !uses(Precedence::by_formula("ncpus"))
        );
        let queues = [("short".to_string(), 0.5)].into();
        assert!(!uses(Precedence {
            queues,
            ..Precedence::default()
        }));
        let weights = Factors::HYBRID.with(Factor::Queue, 0.0);
        assert!(!uses(Precedence {
            weights,
            ..Precedence::default()
        }));
    }
}
