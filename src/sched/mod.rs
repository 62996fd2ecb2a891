//! Pure decisions: a function of state, policy and time that returns a plan.
//!
//! No clock, no files, no randomness, no order that depends on hashing: the same state gives the
//! same plan in schedd, in the simulator and in every test.
//!
//! Each directory imports only those above it in this list; `tests/repository/architecture.rs`
//! enforces it.

// Amounts of resources, as arrays of integers.
pub(in crate::sched) mod amounts;

// The arithmetic of fair share: accounts, shares, usage.
pub mod share_tree;

// The input of a cycle, and the plan that it returns.
pub mod view;

// Entitlement, usage, and pools below their fair share.
pub mod fairshare;

// Which nodes a request gets.
pub mod placement;

// Which waiting job comes first.
pub mod priority;

// Planned starts, and what may start without delaying them.
pub mod backfill;

// One scheduling cycle, stage by stage.
pub mod cycle;

// Why a job waits, and when it starts.
pub mod explain;

// Clusters and jobs for tests: `tests/all.rs` and `benches/cycle.rs` compile the file too.
#[cfg(test)]
pub mod fixture;
