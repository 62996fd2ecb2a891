//! Who goes first.

use super::components::{self, Components};
use super::factors::{Factor, Factors};
use super::formula;
use super::own_say::OwnSay;
use crate::model::expression::Expression;
use crate::model::policy::quality::Qualities;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

named! {
    /// Who goes first; ties end in the job's number.
    PriorityOrder {
        /// First come, first served.
        Fcfs = "fcfs",
        /// On each node those of its own cluster first, then the highest `-p` (Q5).
        Cluster = "cluster",
        /// Jobs of the pool that has been served worst first (X10).
        Pool = "pool",
        /// The highest `-p` first.
        Priority = "priority",
        /// The highest value of a formula first (I15).
        Formula = "formula",
        /// The highest sum of weighted factors first (F1).
        Multifactor = "multifactor",
        /// The highest sum of components first, as in Maui (M11).
        Components = "components",
    }
}

named! {
    /// Whether queues take turns (I22).
    TurnPolicy {
        /// The jobs of all queues together.
        Together = "together",
        /// One queue after the other, that of the highest priority first.
        ByQueue = "by_queue",
        /// One job of each queue in turn, of those of the same priority.
        RoundRobin = "round_robin",
    }
}

/// What precedes the priority of jobs (X18).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tiers {
    /// Whether queues take turns.
    pub turns: TurnPolicy,
    /// Who has waited for longer comes before all others (I21); None for nobody.
    pub max_starve: Option<Span>,
}

impl Tiers {
    /// Whether everybody is alike.
    pub fn is_none(&self) -> bool {
        *self == Tiers::default()
    }
}

/// `[order]`: who goes first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Precedence {
    /// By what.
    pub order: PriorityOrder,
    /// What [`PriorityOrder::Formula`] goes by, an expression over what is known of a job.
    pub formula: Option<Expression>,
    /// Who is worth this or less cannot run (I15, X17); None for no such bar.
    pub threshold: Option<f64>,
    /// For how long what jobs are worth is held still (F9); 0 for not at all.
    pub update_period: Span,
    /// Whether the jobs of a queue of higher priority come first, whatever they are worth (I2b).
    pub lexicographic: bool,
    /// What goes before what jobs are worth.
    pub tiers: Tiers,
    /// What the factors count for with [`PriorityOrder::Multifactor`].
    pub weights: Factors,
    /// Who has waited for so long has a wait factor of 1 (F2); above zero.
    pub max_wait: Span,
    /// Which jobs have a high size factor (F6).
    pub favor: Favor,
    /// A slowdown above this counts as this; above 1.
    pub slowdown_cap: f64,
    /// The factors of qualities of service (F4); of others, and of jobs without, that of `normal`.
    pub qos: BTreeMap<String, f64>,
    /// What owners may say of their jobs.
    pub own_say: OwnSay,
    /// The factors of queues (F5); of others 0.
    pub queues: BTreeMap<String, f64>,
    /// What counts with [`PriorityOrder::Components`].
    pub components: Box<Components>,
}

named! {
    /// Which jobs the size factor favours (F6).
    Favor {
        /// Those that ask for many nodes.
        Large = "large",
        /// Those that ask for few.
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
            own_say: OwnSay::default(),
            queues: BTreeMap::new(),
            components: Box::default(),
        }
    }
}

impl Precedence {
    /// Whether who came first goes first, and nothing else counts.
    pub fn is_by_rank(&self) -> bool {
        self.order == PriorityOrder::Fcfs && !self.lexicographic && self.tiers.is_none()
    }

    /// Whether it matters what owners have used.
    pub fn heeds_shares(&self) -> bool {
        match self.order {
            PriorityOrder::Fcfs
            | PriorityOrder::Cluster
            | PriorityOrder::Priority
            | PriorityOrder::Pool => false,
            PriorityOrder::Formula => self.formula.as_ref().is_some_and(formula::heeds_shares),
            PriorityOrder::Multifactor => self.weights[Factor::FairShare] != 0.0,
            PriorityOrder::Components => self
                .components
                .component(components::ComponentKind::FairShare)
                .counts(),
        }
    }

    /// Whether the priority that an owner gives a job (`-p`) counts, at least among the owner's
    /// jobs.
    pub fn uses_job_priority(&self) -> bool {
        match self.order {
            PriorityOrder::Cluster | PriorityOrder::Priority | PriorityOrder::Multifactor => true,
            PriorityOrder::Formula => self.formula_uses("job_priority"),
            PriorityOrder::Fcfs | PriorityOrder::Pool | PriorityOrder::Components => false,
        }
    }

    /// Whether the priority of a queue counts in the order of its jobs.
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
            .is_some_and(|formula| formula::asks_for(formula, |asked| asked == name))
    }

    /// Whether what a job is worth changes though nothing happens.
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

    /// The quality of service of a job that says nothing of it.
    pub const NORMAL: &str = Qualities::NORMAL;

    /// First come, first served.
    pub fn fcfs() -> Precedence {
        Precedence {
            order: PriorityOrder::Fcfs,
            ..Precedence::default()
        }
    }

    /// By the value of a formula; of none, as if all were worth the same, if it cannot be read.
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
    fn what_has_been_used_matters_where_the_order_says_so() {
        let formulas = ["fair_share_perc", "2 * fairshare_factor", "ncpus"];
        assert_eq!(
            formulas.map(|text| Precedence::by_formula(text).heeds_shares()),
            [true, true, false]
        );
        assert!(
            by(PriorityOrder::Multifactor).heeds_shares()
                && !by(PriorityOrder::Formula).heeds_shares()
        );
        for order in [
            PriorityOrder::Fcfs,
            PriorityOrder::Cluster,
            PriorityOrder::Priority,
            PriorityOrder::Pool,
            PriorityOrder::Components,
        ] {
            assert!(!by(order).heeds_shares(), "{order:?}");
        }
        let weights = Factors::HYBRID.with(Factor::FairShare, 0.0);
        assert!(
            !Precedence {
                weights,
                ..Precedence::default()
            }
            .heeds_shares()
        );
    }

    #[test]
    fn who_came_first_goes_first_where_nothing_else_counts() {
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

    /// I21: who starves is first once it has waited for long enough, though nothing else happens.
    #[test]
    fn time_alone_changes_what_hangs_on_waiting() {
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
    fn a_job_priority_counts_where_the_order_asks_for_it() {
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
    fn a_queue_priority_counts_unless_something_else_stands_for_it() {
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
