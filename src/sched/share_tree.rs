//! The arithmetic of fair share: shares and usage of accounts and users, and their factors.
//! Independent of jobs, nodes and queues.
//!
//! The input is a tree of accounts and users, a method, and the usage by member. The output is a
//! [`ShareTable`] with a factor for each member, from 0 (far above its share) to 1 (no usage). The
//! factor orders the queue and stops no job: a member far above its share still starts a job at
//! once if no other job needs the resources (F19). [`usage`] decays the usage beforehand.

mod tree;

pub use tree::Tree;

mod charged;

pub(in crate::sched) mod table;

pub use table::{ShareRow, ShareTable, share_table};

mod index;

pub use index::{FairShareEntry, ShareIndex, TreeIndex};

// The methods (X8).
pub mod linear;

pub mod classic;

mod fair_tree;

pub mod target;

// When a member above its share returns to its share.
mod balance;

// The rows of the fair-share report.
mod entries;

pub use entries::entries;

// Fair shares of the present resources.
pub mod water_filling;

mod dominant;

pub use dominant::ClusterTotal;

// The configured tree as text.
mod outline;

pub use outline::outline;

// Usage by member, decayed.
pub mod usage;

#[cfg(test)]
mod tests;
