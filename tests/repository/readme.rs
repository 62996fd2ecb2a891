//! Runs the tour of the README exactly as printed.

use crate::support::{root, transcript};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Stops the daemons of the tour, however it ends.
struct Ending<'a> {
    schedd: &'a Path,
    home: &'a Path,
}

impl Drop for Ending<'_> {
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
fn the_commands_of_the_readme_print_what_it_shows() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let steps = transcript::read(&console_blocks(&readme));
    assert!(steps.len() > 10, "the tour has gone from README.md");
    let programs = Path::new(env!("CARGO_BIN_EXE_lanai")).parent().unwrap();
    let schedd = &programs.join("schedd");
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("lanai");
    std::fs::create_dir(&home).unwrap();
    // The profile of the account that runs the tests is not part of the tour.
    std::fs::write(home.join("lanai.toml"), "[launch]\nlogin = false\n").unwrap();
    let ending = Ending {
        schedd,
        home: &home,
    };
    let path = PathBuf::from(format!("{}:/usr/bin:/bin", programs.display()));
    let complaints = transcript::run(
        &steps,
        folder.path(),
        &[("PATH", &path), ("LANAI_HOME", &home), ("HOME", &home)],
    );
    drop(ending);
    assert!(
        complaints.is_empty(),
        "README.md says otherwise:\n\n{}",
        complaints.join("\n\n")
    );
}
