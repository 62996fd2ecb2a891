//! What schedd keeps on disk beside its jobs, and how it reads all of it at its start.

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
