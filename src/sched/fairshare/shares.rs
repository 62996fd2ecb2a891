//! Fair-share: from who owns which share of the machine, and who has used how much of it, to how
//! well everybody has been served.
//!
//! A tree of accounts and users, a method, and the usage by member go in; a table of [`Standings`]
//! comes out, with a factor from 0 (served too much) to 1 (not served at all) for everybody. It
//! orders the queue and forbids nobody anything: who has used the most starts at once where nobody
//! else wants the room (F19). How usage fades is decided before it comes here.

mod tree;

pub use tree::Tree;

mod charged;

pub(in crate::sched) mod table;

pub use table::{Standing, Standings, standings};

mod index;

pub use index::{Due, Seat, Seating};

// The methods (X8).
pub mod linear;

pub mod classic;

mod fair_tree;

pub mod target;

// When does who has had too much have had no more than their share?
mod balance;

// All of it, row by row.
mod entries;

pub use entries::stakes;

// What everybody is owed of what is there now.
pub mod water_filling;

mod dominant;

pub use dominant::Whole;

// In words.
mod outline;

pub use outline::outline;

#[cfg(test)]
mod tests;
