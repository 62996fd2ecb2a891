//! How command lines are read: options, directives, scripts and their values.

pub mod getopt;

pub mod date;

pub mod period;

pub mod paths;

pub mod resources;

pub mod job_options;

pub mod directives;

pub mod script;

pub mod environment;

pub mod reservations;
