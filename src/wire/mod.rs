//! Requests between processes, over Unix sockets.

pub mod client;
pub mod message;
