//! What several tests share.

pub mod blocks;
pub mod grammars;
pub mod source;
pub mod transcript;

pub mod people;
pub mod played;
pub mod sandbox;

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// So many cases of a property, or more where `PROPTEST_CASES` says so.
pub fn cases(least: u32) -> proptest::test_runner::Config {
    let default = proptest::test_runner::Config::default();
    let asked = std::env::var("PROPTEST_CASES").is_ok();
    let cases = if asked { default.cases.max(least) } else { least };
    proptest::test_runner::Config { cases, failure_persistence: None, ..default }
}

/// All files under `folder`, in the order of their paths; none if there is no such folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
