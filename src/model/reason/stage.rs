//! The stages of a job's way to its nodes.

use serde::{Deserialize, Serialize};

/// A stage that a job goes through on its way to its nodes, in their order. The first that refuses
/// is why it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CycleStage {
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

impl CycleStage {
    /// All, in their order.
    pub const ALL: [CycleStage; 9] = [
        CycleStage::State,
        CycleStage::Admission,
        CycleStage::Priority,
        CycleStage::Throttle,
        CycleStage::Match,
        CycleStage::Allocate,
        CycleStage::Backfill,
        CycleStage::Preempt,
        CycleStage::Launch,
    ];

    /// As commands and scenarios name it.
    pub fn name(self) -> &'static str {
        match self {
            CycleStage::State => "state",
            CycleStage::Admission => "admission",
            CycleStage::Priority => "priority",
            CycleStage::Throttle => "throttle",
            CycleStage::Match => "match",
            CycleStage::Allocate => "allocate",
            CycleStage::Backfill => "backfill",
            CycleStage::Preempt => "preempt",
            CycleStage::Launch => "launch",
        }
    }
}
