//! Lanai, a batch system for the machine people log in to.
//!
//! The layers, which `tests/repository/architecture.rs` enforces:
//!
//! * `model <- sched <- {sim, schedd}`: nouns, then pure decisions, then those who ask for them
//! * `model <- config <- {spool, wire, sim, schedd, noded, cli}`: `lanai.toml` and what qmgr
//!   overrides; `sched` knows only the policy types of `model`
//! * `config <- update <- spool`: what is stored, as data
//! * `model <- {spool, wire} <- {schedd, noded, cli}`: nouns, then disk and sockets, then processes
//! * `wire <- shown <- {schedd, cli}`: what is shown of a job, to people and to programs
//! * `sys` lies under all that does I/O, and never under `model` or `sched`

#![deny(missing_docs)]

pub mod model;

pub mod config;

pub mod sched;

pub mod sim;

pub mod update;

pub mod spool;

pub mod wire;

pub mod shown;

pub mod schedd;

pub mod noded;

pub mod cli;

pub mod sys;
