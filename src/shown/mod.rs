//! Display of jobs: attributes, comments and times, for commands, hooks and notification programs.

pub mod attributes;

pub mod comment;

pub mod exec_host;
pub mod reason;

pub mod timestamp;

pub mod job_json;
