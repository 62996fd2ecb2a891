//! Commands: what they accept, print and return.

mod administrator;
mod commands;
mod configured_values;
mod dialects;
mod forecast;
mod interactive;
mod job_commands;
mod qmgr;
mod qterm;
mod tracejob;
mod watch;
mod why;
