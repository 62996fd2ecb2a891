//! The commands.
//!
//! [`programs`] lists all programs; [`multicall`] is the one program that contains all commands.
//! The directories are in import order: a directory imports only directories before it.

// Exit statuses, error messages, job ids, and the connections to the spool and to schedd.
pub mod client;

// Parsing of command lines, scripts and their values.
pub mod arguments;

// Waiting for a job or its tasks: `qsub -W block=true`, `qsub -I` and `pbsdsh`.
pub mod session;

// Display of jobs, queues, nodes and events.
pub mod output;

// Reports: forecasts, priorities, limits, usage and efficiency.
pub mod report;

// One file for each command, or for several similar commands.
pub mod commands;

// The command `lanai` and its subcommands.
pub mod lanai;

pub mod programs;

// Completion of command lines by the shell.
pub mod completion;

pub mod multicall;

#[cfg(test)]
pub(crate) mod example;
