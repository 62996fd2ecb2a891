//! Reports: why a job waits, when jobs start, which resources are free, and which limits apply.

pub mod fair_share_status;
pub mod forecast;
pub mod holes;
pub mod limits_in_force;
pub(in crate::sched) mod node_survey;
pub(in crate::sched) mod obstacles;
mod predicted_ends;
pub mod run_times;
pub mod why;
