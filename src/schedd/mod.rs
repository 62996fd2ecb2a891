//! The scheduler daemon: one loop, one writer, working state in memory.
//!
//! The [`event_loop`] collects client requests ([`clients`]), node reports ([`nodes`]) and timers.
//! A [`tick`] passes them to the server ([`crate::server`]), commits the result to the spool
//! ([`commit`]) and replies. Then the scheduling cycle ([`deciding`]) plans, its plan is committed,
//! and nodes get their orders. [`state`] defines the parts of the daemon.

pub mod accounts;
mod check;
mod client_requests;
mod clients;
mod commit;
mod configuration;
mod control;
mod deciding;
mod event_loop;
mod forecasts;
mod hook_approval;
mod housekeeping;
mod inbox;
mod nested;
mod nodes;
mod programs;
mod reload;
mod shutdown;
mod start;
mod state;
mod storage;
mod tick;
mod timers;

pub use start::{command, main};
