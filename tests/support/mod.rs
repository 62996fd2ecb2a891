//! Helpers shared by the tests.

pub mod blocks;
pub mod grammars;
pub mod source;
pub mod transcript;

pub mod installation;
pub mod mailbox;
pub mod people;
pub mod played;
pub mod sandbox;
pub mod terminal;
pub mod tmux;

use proptest::test_runner::RngSeed;
use std::path::{Path, PathBuf};

/// Root directory of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Seed of the property tests unless `PROPTEST_CASES` is set.
const SEED: u64 = 20;

/// Settings for at least `minimum` cases of a property, with a fixed seed. If `PROPTEST_CASES` is
/// set, it may raise the number, and the seed is random.
pub fn cases(minimum: u32) -> proptest::test_runner::Config {
    let default = proptest::test_runner::Config::default();
    let is_random = std::env::var("PROPTEST_CASES").is_ok();
    let cases = if is_random {
        default.cases.max(minimum)
    } else {
        minimum
    };
    let rng_seed = if is_random {
        default.rng_seed
    } else {
        RngSeed::Fixed(SEED)
    };
    proptest::test_runner::Config {
        cases,
        rng_seed,
        failure_persistence: None,
        ..default
    }
}

/// All files below `folder`, sorted by path. Empty if the folder does not exist.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .into_iter()
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}
