//! What is shown of a job, whoever shows it: commands to people, schedd to hooks and notifications.

pub mod attributes;

pub mod comment;

pub mod exec_host;
pub mod reason;

pub mod timestamp;

pub mod job_json;
