//! Lanai, a batch system for a login node and the cluster behind it.
//!
//! The modules form layers, which `tests/repository/architecture.rs` enforces. In `a <- b`, `b` may
//! import `a`:
//!
//! * `model <- sched <- server <- {sim, schedd}`: `model` contains data types, `sched` makes
//!   scheduling decisions, `server` handles client requests and node reports. These three do no
//!   I/O. The simulator `sim` and the daemon `schedd` use all three
//! * `model <- config <- {server, spool, wire, sim, schedd, noded, cli}`: `config` reads
//!   `lanai.toml` and the settings of qmgr; `sched` uses only the policy types of `model`
//! * `config <- update <- {server, spool}`: `update` describes changes of the stored state
//! * `model <- wire <- {server, spool, sim, schedd, noded, cli}`: `wire` sends data types through
//!   sockets
//! * `wire <- spool <- {schedd, cli}`: `spool` stores data types on disk
//! * `wire <- shown <- {server, schedd, cli}`: `shown` formats jobs as the text and JSON that
//!   commands print
//! * `sys`: system calls; `model`, `config`, `sched` and `server` make none

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
