//! Other worlds for the one scheduler: the past in a trace. Nothing here decides where or when a job
//! runs: that is [`crate::sched::cycle`], the same that runs in schedd.

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
