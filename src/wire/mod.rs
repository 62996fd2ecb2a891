//! Messages between Lanai's processes, sent over Unix sockets.

pub mod message;

pub mod ahead;

pub mod batch;

pub mod order;

pub mod raw;
pub mod task;

pub mod terminal;

pub mod frame;

pub mod peer;

pub mod client;
