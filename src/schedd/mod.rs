//! The scheduler daemon: one event loop, one writer to the database, working state in memory.
//!
//! The [`event_loop`] collects inputs: client requests ([`clients`]), node reports ([`nodes`]) and
//! expired timers. A [`tick`], one pass of the loop, passes the inputs to the server
//! ([`crate::server`]), commits the changes to the spool ([`commit`]), replies to clients, and then
//! runs the scheduling cycle ([`deciding`]). The plan of the cycle is committed, too, before nodes
//! get orders. [`state`] defines the daemon's data.

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

pub use control::stop;
pub use start::{command, main};
