//! Files installed by `make install`, and the client program that the commands link to.

use crate::support::sandbox::{bin, finish};
use crate::support::{files, root};
use lanai::cli::programs::PROGRAMS;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// Runs a target of the Makefile with the programs under test.
fn make(target: &str, folder: &Path) {
    let built = bin("lanai").parent().unwrap().to_path_buf();
    let done = Command::new("make")
        .current_dir(root())
        .args(["--no-print-directory", target, "PREFIX=/opt/lanai"])
        .arg(format!("BUILT={}", built.display()))
        .arg(format!("DESTDIR={}", folder.display()))
        .output()
        .unwrap();
    assert!(done.status.success(), "make {target}: {done:?}");
}

/// Version printed by a program.
fn version(program: &Path) -> String {
    finish(Command::new(program).arg("--version").output().unwrap()).out
}

#[test]
fn every_program_is_installed_once_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    make("install", folder.path());
    let programs = folder.path().join("opt/lanai/bin");
    for program in PROGRAMS {
        let path = programs.join(program.name);
        let is_link = path.symlink_metadata().unwrap().is_symlink();
        let is_file = program.main.is_none() || program.name == "lanai";
        assert_eq!(is_link, !is_file, "{}", program.name);
        assert!(
            version(&path).contains(env!("CARGO_PKG_VERSION")),
            "{path:?}"
        );
    }
    assert_eq!(files(&programs).len(), PROGRAMS.len());
    make("uninstall", folder.path());
    assert_eq!(files(folder.path()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_copied_or_renamed_command_keeps_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("qstat");
    // Copied by another process: a child of a parallel test could hold the copy open for writing.
    let copied = Command::new("cp").arg(bin("qstat")).arg(&copy).status();
    assert!(copied.unwrap().success());
    let renamed = folder.path().join("qstat.real");
    symlink(bin("qstat"), &renamed).unwrap();
    for program in [copy, renamed] {
        let done = finish(Command::new(&program).arg("-Z").output().unwrap());
        let first = done.err.lines().next().unwrap_or_default();
        assert_eq!(
            (done.code, first),
            (2, "qstat: invalid option -- 'Z'"),
            "{program:?}"
        );
    }
}

#[test]
fn under_another_name_the_client_program_lists_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("qfoo");
    symlink(bin("lanai"), &other).unwrap();
    let done = finish(Command::new(other).output().unwrap());
    assert_eq!((done.code, &*done.out), (2, ""));
    assert!(
        done.err.starts_with("qfoo: not a command of Lanai\n\n"),
        "{}",
        done.err
    );
    assert!(done.err.contains("\n  qsub "), "{}", done.err);
}
