//! noded's state directory. A running noded locks the directory, and stores in it what must survive
//! a restart.

use super::folder;
use super::spawner::LaunchLock;
use crate::sys::{clock, fault, filesystem, process};
use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit for the spawner of an earlier noded to end, and for its shepherds to create the
/// directories of their attempts.
const BUILDING_TIMEOUT_MS: u64 = 10_000;

/// The state directory, locked while this value exists.
#[derive(Debug)]
pub struct StateFolder {
    folder: PathBuf,
    /// See [`LaunchLock`].
    pub launch_lock: LaunchLock,
    _lock: Flock<File>,
}

impl StateFolder {
    /// Locks the directory, creating it if needed, and removes unfinished directories of attempts
    /// in it. With `others`, sets a mode with which other users can reach their scripts in the
    /// directory. If another noded has locked the directory, the error contains the pid of that
    /// noded. A directory on a network file system is an error.
    pub fn lock(folder: &Path, others: bool) -> Result<StateFolder> {
        let mode = if others { 0o711 } else { 0o700 };
        for (part, mode) in [
            (folder.to_path_buf(), mode),
            (folder::attempts(folder), mode),
            (folder::tombstones(folder), 0o700),
        ] {
            DirBuilder::new()
                .recursive(true)
                .create(&part)
                .with_context(|| describe(folder))?;
            fs::set_permissions(&part, Permissions::from_mode(mode))
                .with_context(|| describe(folder))?;
        }
        if let Some(kind) = filesystem::network(folder).with_context(|| describe(folder))? {
            bail!(
                "{} is on a network file system ({kind}): choose a directory on a local disk \
                 with --state",
                describe(folder)
            );
        }
        let lock = lock(folder)?;
        let launch_lock = lock_launches(folder)?;
        remove_unfinished(folder).with_context(|| describe(folder))?;
        Ok(StateFolder {
            folder: folder.to_path_buf(),
            launch_lock,
            _lock: lock,
        })
    }

    /// The directory's identity: 32 random hexadecimal digits, created once and synced to disk
    /// before use.
    pub fn identity(&self) -> Result<String> {
        let path = self.folder.join("identity");
        match fs::read_to_string(&path) {
            Ok(text) if is_identity(text.trim_end()) => Ok(text.trim_end().to_string()),
            Ok(_) => bail!(
                "{} is damaged: restore this file, or remove it if no job of this noded is running",
                path.display()
            ),
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.new_identity(&path),
            Err(e) => Err(e).with_context(|| path.display().to_string()),
        }
    }

    fn new_identity(&self, path: &Path) -> Result<String> {
        fault::point("noded.identity")?;
        let identity = format!(
            "{:032x}",
            u128::from_be_bytes(process::random().with_context(|| path.display().to_string())?)
        );
        filesystem::replace(path, format!("{identity}\n").as_bytes(), 0o600)
            .with_context(|| path.display().to_string())?;
        File::open(path)
            .and_then(|file| file.sync_all())
            .with_context(|| path.display().to_string())?;
        // The state directory may be new, so its entry in the parent directory must be synced, too.
        for folder in self.folder.ancestors().take(2) {
            File::open(folder)
                .and_then(|folder| folder.sync_all())
                .with_context(|| path.display().to_string())?;
        }
        Ok(identity)
    }

    /// The highest known epoch of a schedd; 0 if none is known.
    pub fn epoch(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join("epoch")).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// Stores the highest known epoch.
    pub fn set_epoch(&self, epoch: u64) -> Result<()> {
        fault::point("noded.epoch")?;
        let path = self.folder.join("epoch");
        filesystem::replace(&path, epoch.to_string().as_bytes(), 0o600)?;
        Ok(File::open(&self.folder)?.sync_all()?)
    }
}

fn is_identity(text: &str) -> bool {
    text.len() == 32
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn lock(folder: &Path) -> Result<Flock<File>> {
    let path = folder.join("lock");
    // Mode 0600, because any user who can open the file can lock it.
    let open = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path);
    let file = open.with_context(|| path.display().to_string())?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut lock) => {
            // The pid is needed only for the message below, so a full disk must not prevent the
            // start.
            let _ = lock
                .set_len(0)
                .and_then(|()| write!(lock, "{}", std::process::id()));
            Ok(lock)
        }
        Err((_, nix::Error::EWOULDBLOCK)) => {
            let pid = fs::read_to_string(&path).unwrap_or_default();
            bail!(
                "another noded (process {pid}) uses {}: stop that noded, or start this \
                 noded with another --state and --socket",
                folder.display()
            )
        }
        Err((_, e)) => Err(e).with_context(|| format!("cannot lock {}", path.display())),
    }
}

fn describe(folder: &Path) -> String {
    format!("state directory {}", folder.display())
}

/// Waits until no launch of an earlier noded is in progress, and takes the launch lock. The
/// directory then contains all attempts that have begun.
fn lock_launches(folder: &Path) -> Result<LaunchLock> {
    let path = folder.join("building.lock");
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600);
    for _ in 0..BUILDING_TIMEOUT_MS / 10 {
        if let Ok(lock) = Flock::lock(options.open(&path)?, FlockArg::LockExclusiveNonblock) {
            let shared = lock.try_clone()?;
            // The lock ends when the last process closes the file. Dropping `lock` would end the
            // lock for all processes.
            std::mem::forget(lock);
            return Ok(shared);
        }
        clock::sleep(Duration::from_millis(10));
    }
    bail!(
        "a spawner or shepherd of an earlier noded still holds {}: kill lanai-spawner",
        path.display()
    )
}

/// Removes unfinished directories of attempts. Call this only while no shepherd creates one.
fn remove_unfinished(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder::attempts(folder))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(".new-") {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_second_noded_contains_the_pid_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = StateFolder::lock(folder.path(), false).unwrap();
        let error = StateFolder::lock(folder.path(), false)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!("process {}", std::process::id())),
            "{error}"
        );
        drop(first);
    }

    #[test]
    fn an_identity_is_unique_and_permanent_and_a_damaged_one_is_an_error() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let states = folders
            .each_ref()
            .map(|folder| StateFolder::lock(folder.path(), false).unwrap());
        let [first, second] = states.each_ref().map(|state| state.identity().unwrap());
        assert!(
            is_identity(&first) && is_identity(&second) && first != second,
            "{first} {second}"
        );
        assert_eq!(states[0].identity().unwrap(), first);
        for damage in ["", "0123", &first.to_uppercase().replace('0', "g")] {
            fs::write(folders[0].path().join("identity"), damage).unwrap();
            let error = states[0].identity().unwrap_err().to_string();
            assert!(error.contains("identity is damaged"), "{error}");
        }
    }

    #[test]
    fn the_highest_epoch_is_stored_and_unfinished_directories_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let half = folder::attempts(folder.path()).join(".new-77");
        fs::create_dir_all(&half).unwrap();
        let held = StateFolder::lock(folder.path(), false).unwrap();
        assert!(!half.exists());
        assert_eq!(held.epoch(), 0);
        held.set_epoch(41).unwrap();
        assert_eq!(held.epoch(), 41);
    }
}
