//! The operating system interface: all access to clocks and the environment, and all `unsafe` code.

pub mod cgroup;
pub mod clock;
pub mod daemon;
pub mod env;
pub mod fault;
pub mod filesystem;
pub mod home;
pub mod keyring;
pub mod logind;
pub mod packet;
pub mod pipe;
pub mod process;
pub mod procfs;
pub mod program;
pub mod record;
pub mod sensors;
pub mod signals;
pub mod socket;
pub mod terminal;
pub mod user;
pub mod zone;
