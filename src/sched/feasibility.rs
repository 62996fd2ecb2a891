//! Could it ever run? Holds the request against all nodes as configured, with nobody there; nodes
//! that are down count, for they may come back.

use super::ledger::Ledger;
use super::matching;
use super::shape::Shape;
use super::shortage;
use crate::model::reason::Reason;

/// Refuses what no waiting can help. A cluster without nodes tells nothing about any request.
pub fn screen(shape: &Shape, ledger: &Ledger) -> Result<(), Reason> {
    if ledger.vacant.is_void() || ledger.is_known_to_wait(shape) || matching::fits(&ledger.vacant, shape) {
        return Ok(());
    }
    Err(shortage::never(&ledger.vacant, shape))
}
