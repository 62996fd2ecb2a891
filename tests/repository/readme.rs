//! Runs the tour of the README exactly as printed.

use crate::support::{root, transcript};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Stops the daemons of the tour, however it ends.
struct StopOnDrop<'a> {
    schedd: &'a Path,
    home: &'a Path,
}

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        let _ = Command::new(self.schedd)
            .arg("--stop")
            .env("LANAI_HOME", self.home)
            .output();
    }
}

/// Text of all ```` ```console ```` blocks.
fn console_blocks(markdown: &str) -> String {
    let blocks = markdown.split("```console\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap_or_default())
        .collect()
}

#[test]
fn the_commands_in_the_readme_print_the_output_shown() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let steps = transcript::read(&console_blocks(&readme));
    assert!(
        steps.len() > 10,
        "README.md has only {} commands in console blocks",
        steps.len()
    );
    let programs = Path::new(env!("CARGO_BIN_EXE_lanai")).parent().unwrap();
    let schedd = &programs.join("schedd");
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("lanai");
    std::fs::create_dir(&home).unwrap();
    // The profile of the account that runs the tests is not part of the tour.
    std::fs::write(home.join("lanai.toml"), "[launch]\nlogin = false\n").unwrap();
    let daemons = StopOnDrop {
        schedd,
        home: &home,
    };
    let path = PathBuf::from(format!("{}:/usr/bin:/bin", programs.display()));
    let failures = transcript::run(
        &steps,
        folder.path(),
        &[("PATH", &path), ("LANAI_HOME", &home), ("HOME", &home)],
    );
    drop(daemons);
    assert!(
        failures.is_empty(),
        "the output differs from README.md:\n\n{}",
        failures.join("\n\n")
    );
}
