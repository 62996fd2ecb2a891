//! The daemon: one loop, one writer, the working state in memory.
//!
//! The [`event_loop`] gathers what arrives: requests of [`clients`], reports of [`nodes`], timers.
//! A [`tick`] lets the server ([`crate::server`]) handle all of it, commits the result to the spool
//! ([`commit`]) and answers. Then the cycle ([`deciding`]) plans, its plan is committed, and the
//! nodes get their orders. [`state`] has the parts of the daemon.

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
