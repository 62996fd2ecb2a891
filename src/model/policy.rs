//! Scheduling policy: settings from a preset and `lanai.toml`. The scheduler depends only on these
//! settings, never on the preset itself.

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
mod owner_priority;

pub mod preemption;

mod preset;

pub use crate::model::account::pool_terms::PoolTerms;
pub use crate::model::account::starvation::Starvation;
pub use components::Components;
pub use factors::{FACTORS, Factor, FactorRow, Factors};
pub use fair_share::FairShare;
pub use order::{Favor, Precedence, PriorityOrder, Tiers, TurnPolicy};
pub use owner_priority::{OwnerPriorityRule, UserPriority};
pub use preemption::PreemptionPolicy;
pub use preset::Preset;

/// Policy of a scheduling cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Order of the waiting jobs.
    #[serde(default)]
    pub precedence: Precedence,
    /// Defined qualities of service.
    #[serde(default)]
    pub qualities: Qualities,
    /// Backfill around blocked jobs.
    pub backfill: Backfill,
    /// Selection of nodes for a job.
    pub placement: PlacementPolicy,
    /// Walltime that the scheduler assumes for a job without a walltime (PBS: five years).
    pub default_walltime: Span,
    /// Effect of past usage on priority.
    #[serde(default)]
    pub fair_share: FairShare,
    /// Quantity counted as usage, and its decay.
    #[serde(default)]
    pub usage: UsageRules,
    /// Kinds of waiting that count as eligible time.
    #[serde(default)]
    pub accrual: Accrual,
    /// Limits on running and waiting jobs.
    #[serde(default)]
    pub limits: Limits,
    /// Rules for which jobs may preempt which other jobs.
    #[serde(default)]
    pub preemption: PreemptionPolicy,
    /// Conditions under which usage below the fair share triggers preemption.
    #[serde(default)]
    pub starvation: Starvation,
}

impl Policy {
    /// Tests whether a queue's priority affects the order of jobs or preemption.
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

    /// Returns the warning for a queue with a priority that has no effect.
    pub fn unused_queue_priority(&self, queue: &str) -> String {
        let order = self.precedence.order.name();
        let why = if self.precedence.queues.contains_key(queue) {
            "its `factor` in [[queue]] is used instead".to_string()
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

/// `[backfill]`: rules for starting jobs ahead of blocked jobs with a higher priority. A booking is
/// a planned start of a blocked job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backfill {
    /// Selection of the jobs that start around bookings.
    pub policy: Filling,
    /// Order in which backfill candidates are tried.
    pub order: FillOrder,
    /// Metric for `bestfit` and `greedy`.
    pub metric: Metric,
    /// Number of blocked jobs with a booking: 1 is EASY backfill, [`Backfill::ALL`] is conservative
    /// backfill.
    pub depth: u32,
    /// Whether a job keeps its booking when a job of higher priority is submitted.
    pub keep: BookingRetention,
    /// Maximum number of jobs considered behind the first blocked job; 0 for all.
    pub consider: u32,
    /// Rule that keeps freed resources for wide jobs for some time; None if resources are not kept.
    pub chunk: Option<SetAside>,
    /// Separate depths for jobs of some qualities of service. `depth` applies to all other jobs
    /// together, except in queues with a depth of their own.
    pub groups: Vec<BookingGroup>,
}

impl Backfill {
    /// Depth with which every blocked job gets a booking.
    pub const ALL: u32 = u32::MAX;

    /// Returns these rules with a further group for each quality of service that has the flag
    /// `NoReservation` or `ReserveAlways` (M27, M33).
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
    /// Selection of the jobs that start around bookings (M30, X3).
    Filling {
        /// No job starts ahead of a blocked job (strict order).
        None = "none",
        /// Every job that fits starts; there are no bookings (Qube, YTsaurus).
        Skip = "skip",
        /// Each job starts that fits and delays no booking. Jobs are tried in the order of
        /// [`FillOrder`].
        FirstFit = "firstfit",
        /// Each job starts that fits and delays no booking. Jobs with a larger metric are tried
        /// first.
        BestFit = "bestfit",
        /// The combination of jobs with the largest total metric starts first. The search is
        /// bounded.
        Greedy = "greedy",
        /// Every job that fits starts. It is preempted if a due booking needs its resources (M34).
        Preempt = "preempt",
    }
}

named! {
    /// Order in which backfill candidates are tried, except with `bestfit` and `greedy`.
    FillOrder {
        /// Queue order.
        Priority = "priority",
        /// Shortest walltime first.
        Shortest = "shortest",
    }
}

named! {
    /// Metric of a backfill candidate (M30).
    Metric {
        /// Number of processors.
        Procs = "procs",
        /// Processors times walltime.
        ProcSeconds = "procseconds",
        /// Walltime.
        Seconds = "seconds",
        /// Processor equivalents: the number of processors of the cluster times the fraction of the
        /// cluster that the job requests. The resource with the largest fraction counts.
        Pe = "pe",
        /// Processor equivalents times walltime.
        PeSeconds = "peseconds",
    }
}

named! {
    /// Whether a job keeps its booking when a job of higher priority is submitted (M32).
    BookingRetention {
        /// Each cycle makes new bookings for the blocked jobs with the highest priority in that
        /// cycle.
        CurrentHighest = "currenthighest",
        /// A job keeps its booking until it starts.
        Highest = "highest",
        /// No bookings.
        Never = "never",
    }
}

/// Rule that keeps freed resources for wide jobs for some time (M35).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// Minimum number of processors of a wide job.
    pub size: u32,
    /// Time after resources become free during which only wide jobs may use them.
    pub duration: Span,
}

/// Number of bookings for jobs of some qualities of service (M33).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookingGroup {
    /// Names of the qualities of service.
    pub qos: Vec<String>,
    /// Number of blocked jobs of these qualities with a booking.
    pub depth: u32,
}

/// `[placement]`: selection of nodes for a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlacementPolicy {
    /// Amount of a node's resources that counts as in use.
    pub availability: Availability,
    /// Values by resource name that replace `availability` for single resources.
    pub availabilities: BTreeMap<String, Availability>,
    /// Method of choice among the suitable nodes.
    pub allocation: NodeAllocation,
    /// Expression that ranks nodes if `allocation` is `priority`. Nodes with the highest value are
    /// used first.
    pub rank: Option<Expression>,
    /// Program of the site that chooses nodes if `allocation` is `local`.
    pub program: Option<PathBuf>,
    /// Time limit of the program; None for the default.
    #[serde(default)]
    pub program_timeout: Option<Span>,
    /// Distribution of tasks over the nodes.
    pub distribution: Distribution,
    /// Node sharing for jobs that do not request a kind of sharing.
    pub access: NodeAccess,
    /// Node sets within which the nodes of a job should lie; None without node sets.
    pub sets: Option<NodeSets>,
    /// Expression that excludes a node for a job if the expression is true (Q26).
    pub veto: Option<Expression>,
}

impl PlacementPolicy {
    /// Tests whether measured usage on nodes affects placement.
    pub fn uses_measurements(&self) -> bool {
        [self.availability]
            .iter()
            .chain(self.availabilities.values())
            .any(|availability| *availability != Availability::Dedicated)
    }
}

named! {
    /// Amount of a node's resources that counts as in use (M6, M7, X21).
    Availability {
        /// Amount allocated to jobs.
        Dedicated = "dedicated",
        /// Measured amount in use.
        Utilized = "utilized",
        /// The larger of the allocated and the measured amount.
        Combined = "combined",
    }
}

/// Node sets: nodes with the same value of a resource (M47).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSets {
    /// Choice of the node set for a job.
    pub choice: SetChoice,
    /// Resource that defines the sets by its values.
    pub by: String,
    /// Values in order of preference; empty for all existing values.
    pub values: Vec<String>,
    /// Time that a job waits for nodes of a single set before it may span several sets; None for no
    /// limit.
    pub delay: Option<Span>,
}

named! {
    /// Choice of the node set for a job (M47).
    SetChoice {
        /// Any single set.
        OneOf = "oneof",
        /// First set that is large enough.
        FirstOf = "firstof",
        /// Nodes from any of the sets.
        AnyOf = "anyof",
    }
}
