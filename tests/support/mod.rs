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

use proptest::test_runner::RngSeed;
use std::path::{Path, PathBuf};

/// Root directory of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Seed of the property tests unless `PROPTEST_CASES` is set.
const SEED: u64 = 20;

/// Settings for at least `least` cases of a property, with a fixed seed. If `PROPTEST_CASES` is
/// set, it may raise the number, and the seed is random.
pub fn cases(least: u32) -> proptest::test_runner::Config {
    let default = proptest::test_runner::Config::default();
    let asked = std::env::var("PROPTEST_CASES").is_ok();
    let cases = if asked {
        default.cases.max(least)
    } else {
        least
    };
    let rng_seed = if asked {
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
