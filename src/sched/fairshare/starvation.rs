//! Starvation: pools and operations that stay below their fair share, and the allocations that they
//! may preempt (YTsaurus, Y1 to Y29).
//!
//! The cluster is divided among *pools* (accounts), and the part of a pool among its *operations*:
//! jobs, or arrays with all their subjobs. A pool or operation is *below* its fair share if its
//! usage is less than the fair share multiplied by a tolerance. If it has been below for a timeout,
//! it *starves*. The allocations of an operation (its running jobs) are divided by age. The oldest
//! allocations are kept, and the newest may be preempted for any starving operation. The
//! allocations in between may be preempted only for operations that starve *aggressively*, that is,
//! have been below for a longer timeout.
//!
//! Example: array A uses all 10 CPUs for 10 subjobs. Array B, also with 10 subjobs, is submitted.
//! The fair share of each array is 5 CPUs. After 30 seconds B starves, and the newest subjob of A
//! is preempted; 5 seconds later the next one is. After four preemptions B uses 4 CPUs, which is
//! its fair share of 5 multiplied by the tolerance of 0.8, and preemption stops. B gets the fifth
//! CPU when a subjob of A ends.

// The demand and the usage of operations.
mod demand;

pub use demand::PendingChanges;

// The fair shares of pools and operations.
mod fair_share;

pub use fair_share::{Entitled, FairShares, OperationShare, PoolShare, amounts_of, is_of_pools};

// The starvation status of pools and operations.
mod time_below;

pub use time_below::StarvationStatus;

// The allocations that an operation may lose to starving operations.
pub mod groups;

// Pools and operations that are exempt from preemption.
mod exemption;

pub use exemption::{Exposure, PreemptionExemption};

#[cfg(test)]
mod tests;
