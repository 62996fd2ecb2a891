//! Files that version 0.1 wrote are read with the values that they had then: a spool, a recording,
//! a configuration and a scenario. The files in `v0.1` are never edited. They hold the names that
//! Lanai stores (tables, JSON keys, reason codes, configuration keys); renaming one fails here.

mod configuration;
mod recording;
mod scenario;
mod spool;

use crate::support::root;
use std::path::PathBuf;

/// The path of a file that version 0.1 wrote.
fn old_file(name: &str) -> PathBuf {
    root().join("tests/compatibility/v0.1").join(name)
}

/// The text of a file that version 0.1 wrote.
fn old_text(name: &str) -> String {
    let path = old_file(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
