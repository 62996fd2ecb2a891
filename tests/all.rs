//! All integration tests as one program, so that the library is linked once.

#![allow(
    clippy::disallowed_methods,
    reason = "tests start programs and read the clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cli;
mod clients;
mod compatibility;
mod daemons;
mod jobs;
mod policy;
mod properties;
mod repository;
mod security;
mod support;

// The fixture is not part of the library. Its paths resolve from the root of this crate.
#[allow(dead_code, reason = "the integration tests use a part of it")]
#[path = "../src/sched/fixture.rs"]
mod fixture;

use lanai::{model, sched};
use std::path::Path;

/// Every test file is declared as a module by its parent file; an undeclared file would never run.
#[test]
fn every_test_file_is_a_module() {
    let folder = support::root().join("tests");
    let sources = support::files(&folder)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let forgotten: Vec<_> = sources
        .filter(|path| path.parent() != Some(&folder) || !path.ends_with("all.rs"))
        .filter(|path| !is_declared(&folder, path))
        .collect();
    assert!(
        forgotten.is_empty(),
        "declare each with `mod ...;` in the module above it: {forgotten:#?}"
    );
}

/// True if the parent module of `path` declares it with a `mod` line.
fn is_declared(tests: &Path, path: &Path) -> bool {
    let module = if path.ends_with("mod.rs") {
        path.parent().unwrap().to_path_buf()
    } else {
        path.with_extension("")
    };
    let above = module.parent().unwrap();
    let declaring = if above == tests {
        tests.join("all.rs")
    } else if above.join("mod.rs").exists() {
        above.join("mod.rs")
    } else {
        above.with_extension("rs")
    };
    let line = format!("mod {};", module.file_name().unwrap().to_str().unwrap());
    std::fs::read_to_string(declaring)
        .unwrap_or_default()
        .lines()
        .any(|declared| declared.strip_prefix("pub ").unwrap_or(declared) == line)
}
