//! Other worlds for the one scheduler: the past in a trace, a scenario in a file, a recorded run.
//! Nothing here decides where or when a job runs: that is [`crate::sched::cycle`], the same that
//! runs in schedd.

// What is known of the past: the Standard Workload Format, and what of it can be run again.
pub mod swf;

pub mod trace;

// The machine it is run on, and the passing of its time.
pub mod machine;

pub mod submission;

pub mod engine;

pub mod replay;

pub mod shorthand;

// What came of it.
pub mod metrics;

pub mod report;

mod lanes;

pub mod plot;

// A cluster that is not there, with people and machines that do what a scenario says.
pub mod world;

pub mod scenario;

pub mod expectation;

pub mod check;

pub mod schedule;

// What a live schedd has written down of its cycles, decided once more.
pub mod recorded;
