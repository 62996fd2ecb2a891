//! Requests between processes, over Unix sockets.

pub mod message;

pub mod frame;

pub mod peer;

pub mod client;
