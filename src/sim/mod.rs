//! Simulations that use the production scheduler: the replay of a workload trace, the run of a
//! scenario in a file, and the replay of a recording of a live schedd. As in schedd,
//! [`crate::sched::cycle`] decides where and when a job runs.

// Workload traces in the Standard Workload Format.
pub mod swf;

pub mod trace;

// The simulated machine, and the replay of a trace on it.
pub mod machine;

pub mod submission;

pub mod engine;

pub mod replay;

pub mod shorthand;

// Results: metrics, reports and plots.
pub mod metrics;

pub mod report;

mod lanes;

pub mod plot;

// A simulated cluster with users, nodes and jobs that follow a scenario.
pub mod world;

pub mod scenario;

pub mod expectation;

pub mod check;

pub mod schedule;

// Recordings of a live schedd's cycles.
pub mod recorded;

// How accurate predicted run times of past jobs are.
pub mod run_time_accuracy;

// How accurate forecasts are, measured on a trace.
pub mod accuracy;
