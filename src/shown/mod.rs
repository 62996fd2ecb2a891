//! How jobs are displayed: by commands to users, by schedd to hooks and notification programs.

pub mod attributes;

pub mod comment;

pub mod exec_host;
pub mod reason;

pub mod timestamp;

pub mod job_json;
