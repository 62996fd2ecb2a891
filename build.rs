//! Links each command's name to the client program in cargo's output directory.
//!
//! `cargo build` builds one client program, `lanai`, which selects the command by the name it is
//! called with. With these links `target/debug/qsub` runs like an installed `qsub`.

#![allow(
    clippy::disallowed_methods,
    reason = "cargo names the folder in the environment"
)]

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The source file of the table of programs.
const TABLE: &str = "src/cli/programs.rs";

/// The client program, relative to a link beside it.
const CLIENT: &str = "lanai";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={TABLE}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    // OUT_DIR is DIRECTORY/build/PACKAGE/out; DIRECTORY contains the programs.
    let mut above = out.ancestors();
    let Some(folder) = above
        .find(|path| path.ends_with("build"))
        .and_then(Path::parent)
    else {
        return Ok(());
    };
    for name in fs::read_to_string(TABLE)?.lines().filter_map(name) {
        if !Path::new("src/bin")
            .join(name)
            .with_extension("rs")
            .exists()
        {
            link(&folder.join(name))?;
        }
    }
    Ok(())
}

/// The name of a program in a line `name: "qsub",` of the table.
fn name(line: &str) -> Option<&str> {
    let value = line.trim().strip_prefix("name: \"")?;
    value.strip_suffix("\",")
}

/// Replaces any file at `path` by a link to the client program.
fn link(path: &Path) -> io::Result<()> {
    if fs::read_link(path).is_ok_and(|target| target == Path::new(CLIENT)) {
        return Ok(());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => symlink(CLIENT, path),
    }
}
