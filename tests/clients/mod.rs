//! Compatibility with PBS: libraries, site scripts, and recordings of a real PBS.

mod libraries;
mod pbs_contract;
mod site_scripts;
pub mod transcripts;
