//! The operating system: the only clock, the only environment, the only `unsafe`.

pub mod env;
pub mod home;
