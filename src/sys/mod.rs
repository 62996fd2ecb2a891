//! The operating system: the only clock, the only environment, the only `unsafe`.

pub mod clock;
pub mod daemon;
pub mod env;
pub mod fault;
pub mod filesystem;
pub mod home;
pub mod record;
pub mod signals;
pub mod socket;
