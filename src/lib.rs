//! Lanai, a batch system for a login node and the cluster behind it.
//!
//! The modules form layers, which `tests/repository/architecture.rs` enforces. In `a <- b`, `b` may
//! import `a`:
//!
//! * `model <- sched <- server <- {sim, schedd}`: data types, scheduling decisions, the handling of
//!   requests and reports, and the programs that use all three. The first three do no I/O
//! * `model <- config <- {spool, wire, sim, schedd, noded, cli}`: `lanai.toml` and what qmgr
//!   overrides; `sched` uses only the policy types of `model`
//! * `config <- update <- {server, spool}`: changes of the stored state, as data
//! * `model <- {spool, wire} <- {schedd, noded, cli}`: data types, then disk and sockets, then
//!   programs
//! * `wire <- shown <- {schedd, cli}`: the text and JSON that commands print of a job
//! * `sys`: system calls; `model` and `sched` never use them

#![deny(missing_docs)]

pub mod model;

pub mod config;

pub mod sched;

pub mod server;

pub mod sim;

pub mod update;

pub mod spool;

pub mod wire;

pub mod shown;

pub mod schedd;

pub mod noded;

pub mod cli;

pub mod sys;
