//! The arithmetic of fair share: shares, usage and fair-share factors of accounts and users. This
//! module does not depend on nodes and queues. Its input from jobs is their charges, and the
//! demands of the jobs of a pool.
//!
//! The input is a tree of accounts and users, a method, and the usage of each member (a user under
//! an account). The output is a [`ShareTable`] with a factor from 0 to 1 for each account and
//! member. A higher factor gives a higher priority. The factor orders the queue and stops no job: a
//! member far above its share still starts a job at once if no other job needs the resources (F19).
//! Module [`usage`] decays the usage before it is compared with the shares.

mod tree;

pub use tree::Tree;

mod charged;

pub(in crate::sched) mod table;

pub use table::{ShareRow, ShareTable, share_table};

mod index;

pub use index::{FairShareEntry, ShareIndex, TreeIndex};

// The methods that compute factors (X8).
pub mod linear;

pub mod classic;

mod fair_tree;

pub mod target;

// How long an account or user above its share must run no jobs to return to its share.
mod balance;

// The rows of the fair-share report.
mod entries;

pub use entries::entries;

// Fair shares of the resources of the cluster at the moment.
pub mod water_filling;

mod dominant;

pub use dominant::ClusterTotal;

// The configured tree as text.
mod outline;

pub use outline::outline;

// The decayed usage of each member.
pub mod usage;

#[cfg(test)]
mod tests;
