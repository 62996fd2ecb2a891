//! Could it ever run? Holds the request against all nodes as configured, with nobody there; nodes
//! that are down count, for they may come back.

use super::state::CycleState;
use crate::model::reason::Reason;
use crate::sched::placement::shortage;
use crate::sched::view::shape::Shape;

/// Refuses a request that can never run.
pub fn check(shape: &Shape, cycle: &mut CycleState) -> Result<(), Reason> {
    if cycle.is_possible(shape) {
        Ok(())
    } else {
        Err(shortage::never(cycle.vacant(), shape))
    }
}
