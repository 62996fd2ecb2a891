//! The scheduler: a pure function of state, policy and time that returns a plan.
//!
//! The scheduler uses no clock, no files, no randomness and no order that depends on hashing:
//! the same input gives the same plan in schedd, in the simulator and in every test.
//!
//! Each module imports only modules that this file lists above the module itself;
//! `tests/repository/architecture.rs` enforces this rule.

// Amounts of resources, as arrays of integers.
pub(in crate::sched) mod amounts;

// The arithmetic of fair share: accounts, shares, usage.
pub mod share_tree;

// The input of a cycle, and the plan that it returns.
pub mod view;

// Fair shares and usage of accounts, users and jobs, and starvation preemption.
pub mod fairshare;

// Node selection for the request of a job.
pub mod placement;

// The order of the waiting jobs.
pub mod priority;

// Planned starts, and the jobs that may start without delaying a planned start.
pub mod backfill;

// One scheduling cycle, stage by stage.
pub mod cycle;

// Why a job waits, and when it starts.
pub mod explain;

// Clusters and jobs for tests. `tests/all.rs` and `benches/cycle.rs` also compile `fixture.rs`.
#[cfg(test)]
pub mod fixture;
