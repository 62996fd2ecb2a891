//! The commands.
//!
//! [`programs`] is the table of them, and [`multicall`] the one program that contains them all. The
//! directories come in the order of their imports: each imports only those before it.

// Exit statuses and error messages, job ids, and the connection to the spool and to schedd.
pub mod client;

// How command lines, scripts and their values are read.
pub mod arguments;

// Waiting for a job: `-W block`, `-I`, and the tasks of `pbsdsh`.
pub mod session;

// How jobs, queues, nodes and events are displayed.
pub mod output;

// Forecasts, priorities, limits, usage and efficiency.
pub mod report;

// One file per command.
pub mod commands;

pub mod programs;

pub mod multicall;

#[cfg(test)]
pub(crate) mod example;
