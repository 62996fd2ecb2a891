//! What goes before the worth of jobs (X18).

use crate::model::time::Span;
use serde::{Deserialize, Serialize};

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

/// What goes before the worth of jobs.
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
