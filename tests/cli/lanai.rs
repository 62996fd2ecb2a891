//! The command `lanai`.

mod actions;
mod tags;
mod undo;
