//! Files written by version 0.1 are read with their original values: a spool, a recording, a
//! configuration and a scenario. The files in `v0.1` are never edited. They hold the names that
//! Lanai stores (tables, JSON keys, reason codes, configuration keys); renaming one fails here.

mod configuration;
mod recording;
mod scenario;
mod spool;

use crate::support::root;
use std::path::PathBuf;

/// Path of a file written by version 0.1.
fn old_file(name: &str) -> PathBuf {
    root().join("tests/compatibility/v0.1").join(name)
}

/// Text of a file written by version 0.1.
fn old_text(name: &str) -> String {
    let path = old_file(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
