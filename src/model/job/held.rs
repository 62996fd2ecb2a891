//! Totals of the resources allocated to an attempt.

use super::attempt::NodeShare;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Totals of the resources allocated to an attempt, whether the job uses the resources or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Number of nodes on which the attempt has resources.
    pub nodes: u32,
    /// Number of processors.
    pub cores: u32,
    /// Number of GPUs.
    pub gpus: u32,
    /// Memory in kilobytes.
    pub mem_kb: u64,
}

impl Held {
    /// Returns the totals over `shares`.
    pub fn of(shares: &[NodeShare]) -> Held {
        let nodes: BTreeSet<&str> = shares.iter().map(|share| share.node.as_str()).collect();
        Held {
            nodes: nodes.len() as u32,
            cores: saturated(taken(shares, "ncpus")),
            gpus: saturated(taken(shares, "ngpus")),
            mem_kb: taken(shares, "mem") / 1024,
        }
    }
}

/// Returns the total amount of a resource in shares.
fn taken(shares: &[NodeShare], name: &str) -> u64 {
    shares
        .iter()
        .flat_map(|share| &share.taken)
        .filter(|(taken, _)| taken == name)
        .filter_map(|(_, value)| u64::try_from(value.amount()?).ok())
        .fold(0, u64::saturating_add)
}

fn saturated(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
