//! Who has less than its fair share for too long, and who has more than it needs (YTsaurus, Y1 to
//! Y29).
//!
//! The cluster is poured out among pools - the accounts - and among the operations in each: a job,
//! or an array with all its elements. Who has less than its fair share, but for a tolerance, is
//! *below* it; who has been for long enough *starves*. What an operation runs is divided by age:
//! the oldest are its own, the newest make way for others that starve, and those in between for who
//! starves *aggressively*.
//!
//! Example: 10 processors, all of them with array A, of which 10 elements run; array B comes and
//! wants as many. Each is owed 5. After 30 seconds B starves, and A's newest makes way; 5 seconds
//! later the next; after four B has 4, which is as near to 5 as the tolerance of .8 asks, and that
//! is all. What B lacks then it gets when some of A's end by themselves.

// Who shares, what do they want, and what have they?
mod demand;

pub use demand::PendingChanges;

// What is everybody owed?
mod fair_share;

pub use fair_share::{Entitled, FairShares, OperationShare, PoolShare, amounts_of, is_of_pools};

// Since when has somebody less?
mod time_below;

pub use time_below::StarvationStatus;

// Which of its allocations can an operation lose, and to whom?
pub mod groups;

// Who is left alone?
mod exemption;

pub use exemption::{Exposure, PreemptionExemption};

#[cfg(test)]
mod tests;
