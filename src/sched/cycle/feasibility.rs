//! Feasibility: refuses a request that could never run. Checks the request against all configured
//! nodes as if they ran no jobs. Nodes that are down count, because they may come back.

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
