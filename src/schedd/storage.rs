//! What schedd stores besides jobs, and the loading of the spool at startup.

pub mod checkpoints;
pub mod cycles;
pub mod expiry;
pub mod fair_shares;
pub mod faults;
pub mod history;
pub mod promises;
pub mod recording;
pub mod recover;
pub mod reserve;
pub mod verdicts;
