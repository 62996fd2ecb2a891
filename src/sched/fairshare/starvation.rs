//! Pools below their fair share, and allocations above it (YTsaurus, Y1 to Y29).
//!
//! The cluster is divided among pools (the accounts) and the operations in each pool: jobs, or
//! arrays with all their subjobs. A party with less than its fair share, within a tolerance, is
//! *below* it; after a timeout it *starves*. The allocations of an operation are divided by age:
//! the oldest are kept, the newest may be preempted for starving parties, and those in between for
//! *aggressively* starving ones.
//!
//! Example: 10 CPUs, all in use by array A with 10 subjobs; array B with as many is submitted. The
//! fair share of each is 5. After 30 seconds B starves, and A's newest subjob is preempted; 5
//! seconds later the next. After four of them B has 4, which is 5 times the tolerance of .8, and
//! preemption ends. B gets the rest when subjobs of A end by themselves.

// The parties, their demand and their usage.
mod demand;

pub use demand::PendingChanges;

// The fair shares.
mod fair_share;

pub use fair_share::{Entitled, FairShares, OperationShare, PoolShare, amounts_of, is_of_pools};

// Since when a party is below its fair share.
mod time_below;

pub use time_below::StarvationStatus;

// Which allocations an operation may lose, and to which parties.
pub mod groups;

// Parties exempt from preemption.
mod exemption;

pub use exemption::{Exposure, PreemptionExemption};

#[cfg(test)]
mod tests;
