//! The hook programs that `qmgr` imported. They are files in the installation, named after the hook
//! and a digest of the content.

use crate::model::hook::Hook;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Stores a program for a hook in a private directory. Returns the program's path. Earlier programs
/// of the hook stay until [`remove_unused`] removes them.
pub fn store_program(folder: &Path, hook: &str, content: &[u8]) -> io::Result<PathBuf> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let digest: String = Sha256::digest(content)
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let (path, draft) = (
        folder.join(format!("{hook}-{digest}")),
        folder.join(format!(".{hook}-{digest}")),
    );
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o700)
        .open(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&draft, &path)?;
    fs::File::open(folder)?.sync_all()?;
    Ok(path)
}

/// Removes the programs that no hook uses.
pub fn remove_unused(folder: &Path, hooks: &[Hook]) {
    let used: BTreeSet<&Path> = hooks
        .iter()
        .filter_map(|hook| hook.command.first().map(Path::new))
        .collect();
    let kept = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    for path in kept.filter(|path| !used.contains(path.as_path())) {
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(
                "cannot remove the unused hook program {}: {error}",
                path.display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn stored_programs_are_private_and_removed_when_no_hook_uses_them() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("hooks");
        let (first, second) = (
            store_program(&folder, "h", b"one").unwrap(),
            store_program(&folder, "h", b"two").unwrap(),
        );
        assert_ne!(first, second);
        assert_eq!(fs::read(&second).unwrap(), b"two");
        for path in [&folder, &second] {
            assert_eq!(
                fs::metadata(path).unwrap().permissions().mode() & 0o777,
                0o700
            );
        }
        let hook = Hook {
            command: vec![second.display().to_string()],
            ..Hook::blank("h")
        };
        remove_unused(&folder, &[hook]);
        assert!(second.exists() && !first.exists());
    }
}
