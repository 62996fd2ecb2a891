//! Other worlds for the one scheduler. Nothing here decides where or when a job runs: that is
//! [`crate::sched::cycle`], the same that runs in schedd.

// A cluster that is not there, with people and machines that do what a scenario says.
pub mod world;

pub mod scenario;

pub mod expectation;

pub mod check;

pub mod schedule;

// What a live schedd has written down of its cycles, decided once more.
pub mod recorded;
