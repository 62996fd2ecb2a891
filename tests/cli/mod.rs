//! Tests of the commands: accepted input, output and exit status.

mod administrator;
mod commands;
mod completion;
mod configured_values;
mod dialects;
mod drain;
mod error_hints;
mod estimates;
mod forecast;
mod interactive;
mod job_commands;
mod lanai;
mod lanai_output;
mod lanai_queries;
mod lanai_report;
mod lanai_top;
mod metrics;
mod qmgr;
mod qterm;
mod tracejob;
mod watch;
mod why;
