//! Answers to questions: why a job waits, when jobs start, what is free, which limits apply.

pub mod fair_share_status;
pub mod forecast;
pub mod holes;
pub mod limits_in_force;
pub(crate) mod node_survey;
pub(crate) mod obstacles;
pub mod why;
