//! Data that commands display about scheduling: forecasts, priorities, fair shares, limits.

pub mod fair_share_status;
pub mod outlook;
pub mod past_job;
pub mod priority_score;
pub mod queue_place;
pub mod share_status;
