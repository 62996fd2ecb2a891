//! What is shown of a job, whoever shows it: commands to people, schedd to hooks and notifications.

pub mod attributes;

pub mod comment;

pub mod place;
pub mod reason;

pub mod when;

pub mod data;
