//! Parsing of command lines: options, directives, scripts and their values.

#![allow(
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    reason = "doc comments of options are help texts, in which brackets are no links"
)]

pub mod directives;

pub mod slurm;

pub mod getopt;

pub mod date;

pub mod period;

pub mod paths;

pub mod resources;

pub mod job_options;

pub mod script;

pub mod environment;

pub mod reservations;
