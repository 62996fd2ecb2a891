//! Stages of a scheduling cycle.

use serde::{Deserialize, Serialize};

/// Stage of a scheduling cycle. Each job passes the stages in order, except that the limits of
/// backfill are checked before matching. The first stage that refuses the job gives the reason why
/// the job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CycleStage {
    /// State: holds, dependencies and start times.
    State,
    /// Admission: whether the job can ever run, and whether its queue starts jobs at present.
    Admission,
    /// Priority: order of the jobs, and the threshold that their priorities must exceed.
    Priority,
    /// Throttling: limits, for example of users and arrays.
    Throttle,
    /// Matching: suitable nodes with enough free resources.
    Match,
    /// Allocation: whether the nodes that are not booked for other jobs allow the arrangement that
    /// the job requests.
    Allocate,
    /// Backfill: whether the job may start ahead of blocked jobs.
    Backfill,
    /// Preemption: whether preempting running jobs would free enough resources.
    Preempt,
    /// Launch: start by noded.
    Launch,
}

impl CycleStage {
    /// All stages, in order.
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

    /// Returns the name used by commands and scenarios.
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
