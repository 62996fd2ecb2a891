//! Who goes first.

use super::{Components, OwnSay, Tiers, components};
use crate::model::quality::Qualities;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

named! {
    /// Who goes first; ties end in the job's number.
    Order {
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

/// `[order]`: who goes first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Precedence {
    /// By what.
    pub order: Order,
    /// What [`Order::Formula`] goes by, an expression over what is known of a job.
    pub formula: Option<String>,
    /// For how long what jobs are worth is held still (F9); 0 for not at all.
    pub update_period: Span,
    /// Whether the jobs of a queue of higher priority come first, whatever they are worth (I2b).
    pub lexicographic: bool,
    /// What goes before what jobs are worth.
    pub tiers: Tiers,
    /// What the factors count for with [`Order::Multifactor`].
    pub weights: Weights,
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
    /// What counts with [`Order::Components`].
    pub components: Components,
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

/// What factors count for; one that counts 0 does not count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// How long a job has been waiting.
    pub wait_time: f64,
    /// What its owner has had of what is theirs (F3).
    pub fair_share: f64,
    /// Its quality of service.
    pub qos: f64,
    /// Its queue.
    pub queue: f64,
    /// How many nodes it asks for.
    pub job_size: f64,
    /// What its owner says of it (F7).
    pub user: f64,
    /// How many times its walltime it will have taken, its wait included.
    pub slowdown: f64,
}

impl Default for Weights {
    fn default() -> Weights {
        Weights {
            wait_time: 1000.0,
            fair_share: 10000.0,
            qos: 5000.0,
            queue: 500.0,
            job_size: 1000.0,
            user: 1000.0,
            slowdown: 0.0,
        }
    }
}

impl Default for Precedence {
    fn default() -> Precedence {
        Precedence {
            order: Order::Fcfs,
            formula: None,
            update_period: Span(0),
            lexicographic: false,
            tiers: Tiers::default(),
            weights: Weights::default(),
            max_wait: Span::seconds(7 * 24 * 3600),
            favor: Favor::Large,
            slowdown_cap: 100.0,
            qos: Qualities::default().factors(),
            own_say: OwnSay::default(),
            queues: BTreeMap::new(),
            components: Components::default(),
        }
    }
}

impl Precedence {
    /// Whether who came first goes first, and nothing else counts.
    pub fn is_by_rank(&self) -> bool {
        self.order == Order::Fcfs && !self.lexicographic && self.tiers.is_none()
    }

    /// Whether it matters what owners have used.
    pub fn heeds_shares(&self) -> bool {
        match self.order {
            Order::Multifactor => self.weights.fair_share != 0.0,
            Order::Components => self.components.component(components::Kind::FairShare).counts(),
            Order::Fcfs | Order::Cluster | Order::Pool | Order::Priority | Order::Formula => false,
        }
    }

    /// Whether what a job is worth changes though nothing happens.
    pub fn moves(&self) -> bool {
        if self.tiers.max_starve.is_some() || self.takes_turns() {
            return true;
        }
        match self.order {
            Order::Fcfs | Order::Cluster | Order::Priority | Order::Pool => false,
            Order::Formula | Order::Multifactor | Order::Components => true,
        }
    }

    /// The quality of service of a job that says nothing of it.
    pub const NORMAL: &str = Qualities::NORMAL;

    /// By the value of a formula.
    pub fn by_formula(formula: &str) -> Precedence {
        Precedence { order: Order::Formula, formula: Some(formula.to_string()), ..Precedence::default() }
    }
}
