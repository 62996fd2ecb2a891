//! The nouns: jobs, requests, resources, nodes, queues, reasons. No I/O, no clock.
//!
//! Each directory imports only those above it in this list; `tests/architecture.rs` enforces it.

#[macro_use]
mod named;

pub mod account;
pub mod credentials;
pub mod expression;
pub mod hook;
pub mod indices;
pub mod job;
pub mod limit;
pub mod node;
pub mod policy;
pub mod queue;
pub mod reason;
pub mod refusal;
pub mod report;
pub mod request;
pub mod reservation;
pub mod resource;
pub mod signal;
pub mod spelling;
pub mod text;
pub mod time;
pub mod trigger;
