//! The stages of a job's way to its nodes.

use serde::{Deserialize, Serialize};

/// A stage that a job goes through on its way to its nodes, in their order. The first that refuses
/// is why it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Is it free to start: no hold, no dependency, no time to wait for?
    State,
    /// Could it ever run, and does its queue start jobs now?
    Admission,
    /// Who goes before it?
    Priority,
    /// Has its owner, or its array, had enough for now?
    Throttle,
    /// Which nodes suit, and have enough?
    Match,
    /// Do they lie together as asked, and is nobody promised them?
    Allocate,
    /// May it pass jobs that wait for room?
    Backfill,
    /// Could others make way?
    Preempt,
    /// Does its node begin it?
    Launch,
}

impl Stage {
    /// All, in their order.
    pub const ALL: [Stage; 9] = [
        Stage::State,
        Stage::Admission,
        Stage::Priority,
        Stage::Throttle,
        Stage::Match,
        Stage::Allocate,
        Stage::Backfill,
        Stage::Preempt,
        Stage::Launch,
    ];

    /// As commands and scenarios name it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::State => "state",
            Stage::Admission => "admission",
            Stage::Priority => "priority",
            Stage::Throttle => "throttle",
            Stage::Match => "match",
            Stage::Allocate => "allocate",
            Stage::Backfill => "backfill",
            Stage::Preempt => "preempt",
            Stage::Launch => "launch",
        }
    }
}
