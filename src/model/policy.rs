//! Everything the administrator may tune about scheduling, by name. A policy is a name in a table,
//! never an `if` spread over stages.

pub mod quality;
pub mod site_time;

use crate::model::account::charge::UsageRules;
use crate::model::expression::Expression;
use crate::model::job::eligible_time::Accrual;
use crate::model::limit::Limits;
use crate::model::request::placement_policy::{Distribution, NodeAccess, NodeAllocation};
use crate::model::time::Span;
use quality::{Flag, Qualities};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

pub mod components;
mod factors;
pub mod fair_share;
pub mod formula;
mod order;
mod own_say;

pub mod preemption;

mod preset;

pub use crate::model::account::pool_terms::PoolTerms;
pub use crate::model::account::starvation::Starvation;
pub use components::Components;
pub use factors::{FACTORS, Factor, FactorRow, Factors};
pub use fair_share::FairShare;
pub use order::{Favor, Precedence, PriorityOrder, Tiers, TurnPolicy};
pub use own_say::{OwnSay, UserPriority};
pub use preemption::PreemptionPolicy;
pub use preset::Preset;

/// The policy of a cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Who goes first.
    #[serde(default)]
    pub precedence: Precedence,
    /// The qualities of service there are.
    #[serde(default)]
    pub qualities: Qualities,
    /// How lower jobs may start around blocked ones.
    pub backfill: Backfill,
    /// Which nodes a job gets.
    pub placement: PlacementPolicy,
    /// What a job without walltime is planned with (PBS: five years).
    pub default_walltime: Span,
    /// How usage makes jobs go later.
    #[serde(default)]
    pub fair_share: FairShare,
    /// What usage counts, and for how long.
    #[serde(default)]
    pub usage: UsageRules,
    /// Which of a job's waiting counts as eligible time.
    #[serde(default)]
    pub accrual: Accrual,
    /// How much may run or wait on somebody's behalf.
    #[serde(default)]
    pub limits: Limits,
    /// Who makes way for whom.
    #[serde(default)]
    pub preemption: PreemptionPolicy,
    /// When who has less than its fair share makes others give way.
    #[serde(default)]
    pub starvation: Starvation,
}

impl Policy {
    /// Whether the priority of a queue has any effect: on the order of jobs, or on who preempts.
    pub fn uses_queue_priority(&self, queue: &str) -> bool {
        let PreemptionPolicy {
            triggers, levels, ..
        } = &self.preemption;
        let has_express = levels
            .iter()
            .flatten()
            .any(|condition| *condition == preemption::LevelCondition::Express);
        let preempts = triggers.contains(&preemption::PreemptTrigger::Levels) && has_express;
        preempts || self.precedence.uses_queue_priority(queue)
    }

    /// What to say of a queue's priority that has no effect.
    pub fn unused_queue_priority(&self, queue: &str) -> String {
        let order = self.precedence.order.name();
        let why = if self.precedence.queues.contains_key(queue) {
            "its `factor` in [[queue]] counts instead".to_string()
        } else {
            format!("[order] by = \"{order}\" does not use it")
        };
        format!("the priority of queue `{queue}` has no effect: {why}")
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            precedence: Precedence::default(),
            qualities: Qualities::default(),
            backfill: Backfill::default(),
            placement: PlacementPolicy::default(),
            default_walltime: Span::seconds(5 * 365 * 24 * 3600),
            fair_share: FairShare::default(),
            usage: UsageRules::default(),
            accrual: Accrual::default(),
            limits: Limits::default(),
            preemption: PreemptionPolicy::default(),
            starvation: Starvation::default(),
        }
    }
}

/// `[backfill]`: how lower jobs may start around blocked ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backfill {
    /// Who of those that fit around the promises starts.
    pub policy: Filling,
    /// In which order they are tried.
    pub order: FillOrder,
    /// By what `bestfit` and `greedy` measure.
    pub metric: Metric,
    /// How many blocked jobs are promised a start: 1 is EASY, [`Backfill::ALL`] is conservative.
    pub depth: u32,
    /// What becomes of a promise when its job is overtaken.
    pub keep: BookingRetention,
    /// How many jobs are tried behind the first blocked one; 0 for all.
    pub consider: u32,
    /// Freed room is kept for wide jobs for a while.
    pub chunk: Option<SetAside>,
    /// Depths of their own for jobs of some qualities of service; others share `depth`.
    pub groups: Vec<BookingGroup>,
}

impl Backfill {
    /// Every blocked job is promised a start.
    pub const ALL: u32 = u32::MAX;

    /// Adds a group for each quality of service with a flag on planned starts (M27, M33).
    pub fn with_qualities(&self, qualities: &Qualities) -> Backfill {
        let mut groups = Vec::new();
        for quality in &qualities.all {
            let depth = quality.flags.iter().find_map(|flag| match flag {
                Flag::NoReservation => Some(0),
                Flag::ReserveAlways => Some(Backfill::ALL),
                _ => None,
            });
            if let Some(depth) = depth {
                let qos = vec![quality.name.clone()];
                groups.push(BookingGroup { qos, depth });
            }
        }
        groups.extend(self.groups.iter().cloned());
        Backfill {
            groups,
            ..self.clone()
        }
    }
}

impl Default for Backfill {
    fn default() -> Backfill {
        Backfill {
            policy: Filling::FirstFit,
            order: FillOrder::Priority,
            metric: Metric::Procs,
            depth: 1,
            keep: BookingRetention::CurrentHighest,
            consider: 0,
            chunk: None,
            groups: Vec::new(),
        }
    }
}

named! {
    /// Who of those that fit around the promises starts (M30, X3).
    Filling {
        /// Nothing passes a blocked job (strict order).
        None = "none",
        /// Whatever fits starts, and nobody is promised anything (Qube, YTsaurus).
        Skip = "skip",
        /// The first in order that delays no promise.
        FirstFit = "firstfit",
        /// Those first that use most by the metric.
        BestFit = "bestfit",
        /// The combination that uses most by the metric, within a bounded search.
        Greedy = "greedy",
        /// Whatever fits starts, to be preempted when a promise is due (M34).
        Preempt = "preempt",
    }
}

named! {
    /// In which order fillers are tried.
    FillOrder {
        /// That of the queue.
        Priority = "priority",
        /// The shortest walltime first.
        Shortest = "shortest",
    }
}

named! {
    /// What a filler is worth (M30).
    Metric {
        /// Its processors.
        Procs = "procs",
        /// Processors times walltime.
        ProcSeconds = "procseconds",
        /// Its walltime.
        Seconds = "seconds",
        /// Processor equivalents: its largest share of any resource, times all processors.
        Pe = "pe",
        /// Those times walltime.
        PeSeconds = "peseconds",
    }
}

named! {
    /// What becomes of a promise when its job is overtaken (M32).
    BookingRetention {
        /// Only the jobs that are highest now have one.
        CurrentHighest = "currenthighest",
        /// Once given it is kept.
        Highest = "highest",
        /// Nobody is promised anything.
        Never = "never",
    }
}

/// Freed room is kept for wide jobs (M35).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// For jobs of at least so many processors.
    pub size: u32,
    /// For so long after it became free.
    pub duration: Span,
}

/// Promises for jobs of some qualities of service (M33).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookingGroup {
    /// Which.
    pub qos: Vec<String>,
    /// How many of their jobs are promised a start.
    pub depth: u32,
}

/// `[placement]`: which nodes a job gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlacementPolicy {
    /// What of a node counts as taken.
    pub availability: Availability,
    /// The same for some resources alone.
    pub availabilities: BTreeMap<String, Availability>,
    /// Which of the nodes that would do.
    pub allocation: NodeAllocation,
    /// The expression that ranks nodes, highest first, for `priority`.
    pub rank: Option<Expression>,
    /// The program that chooses, for `local`.
    pub program: Option<PathBuf>,
    /// How long it may take; None for the usual time.
    #[serde(default)]
    pub program_timeout: Option<Span>,
    /// How tasks are dealt to the nodes.
    pub distribution: Distribution,
    /// Who may share a node, where the job does not say.
    pub access: NodeAccess,
    /// Nodes that a job's nodes should have in common.
    pub sets: Option<NodeSets>,
    /// The expression that forbids a job a node where it is true (Q26).
    pub veto: Option<Expression>,
}

impl PlacementPolicy {
    /// Whether what nodes measure changes where jobs may go.
    pub fn heeds_measures(&self) -> bool {
        [self.availability]
            .iter()
            .chain(self.availabilities.values())
            .any(|availability| *availability != Availability::Dedicated)
    }
}

named! {
    /// What of a node counts as taken (M6, M7, X21).
    Availability {
        /// What jobs were given.
        Dedicated = "dedicated",
        /// What is measured to be in use.
        Utilized = "utilized",
        /// The larger of both.
        Combined = "combined",
    }
}

/// Nodes that a job's nodes should have in common (M47).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSets {
    /// How many sets a job may span.
    pub choice: SetChoice,
    /// The resource whose values make the sets.
    pub by: String,
    /// The values, in order of preference; empty for all that there are.
    pub values: Vec<String>,
    /// How long a job waits for a set before it spans several; None for ever.
    pub delay: Option<Span>,
}

named! {
    /// Which set a job gets (M47).
    SetChoice {
        /// Any one.
        OneOf = "oneof",
        /// The first that is large enough.
        FirstOf = "firstof",
        /// Nodes of any of them.
        AnyOf = "anyof",
    }
}
