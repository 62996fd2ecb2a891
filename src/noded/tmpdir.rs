//! A job's directory for temporary files: `TMPDIR`.

use super::folder::{AttemptName, Folder};
use super::site::Site;
use crate::sys::filesystem;
use crate::wire::order::Launch;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Creates the directory `pbs.<full id>` in `base` for `owner` (uid, gid). If a file with this name
/// exists (possibly made by an attacker), the directory is `pbs.<full id>.<cookie>` instead,
/// because the attempt's cookie cannot be guessed.
pub fn make(
    base: &Path,
    full_id: &str,
    cookie: &str,
    owner: Option<(u32, u32)>,
) -> io::Result<PathBuf> {
    let plain = base.join(format!("pbs.{full_id}"));
    let made = match create_private(&plain) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let unique = base.join(format!("pbs.{full_id}.{cookie}"));
            create_private(&unique).map(|()| unique)
        }
        other => other.map(|()| plain),
    }?;
    if let Some((uid, gid)) = owner {
        std::os::unix::fs::lchown(&made, Some(uid), Some(gid))?;
    }
    Ok(made)
}

/// The `TMPDIR` of the job's script, for a task that runs on the same host as the script. None for
/// a task on another host, for the script itself, and if the directory does not exist.
pub fn of_script(site: &Site, launch: &Launch) -> Option<PathBuf> {
    if launch.place.task == 0 {
        return None;
    }
    let script = Folder::of(
        &site.state,
        AttemptName {
            task: 0,
            ..AttemptName::of(launch)
        },
    );
    let tmpdir = script.trace().ok()??.tmpdir;
    Some(PathBuf::from(OsString::from_vec(tmpdir.0))).filter(|tmpdir| tmpdir.is_dir())
}

fn create_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Removes a directory with its contents. Symbolic links are removed, not followed. This may take
/// long.
pub fn remove(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || remove_empty(path) {
        return Ok(());
    }
    match filesystem::remove_tree(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes a directory if it is empty. Returns whether the directory was removed.
pub fn remove_empty(path: &Path) -> bool {
    fs::remove_dir(path).is_ok()
}

/// The parent directory of all `TMPDIR`s: `/var/tmp` if that is writable, else `/tmp` if that is
/// writable, else noded's state directory.
pub fn base(state: &Path) -> PathBuf {
    for usual in [Path::new("/var/tmp"), Path::new("/tmp")] {
        if nix::unistd::eaccess(usual, nix::unistd::AccessFlags::W_OK).is_ok() {
            return usual.to_path_buf();
        }
    }
    state.to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn an_existing_link_is_not_used_and_links_are_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let trap = base.path().join("pbs.1.here");
        symlink("/etc", &trap).unwrap();
        let made = make(base.path(), "1.here", "cafe", None).unwrap();
        assert_eq!(made, base.path().join("pbs.1.here.cafe"));
        assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o700);
        fs::write(made.join("x"), "").unwrap();
        symlink("/etc", made.join("y")).unwrap();
        remove(&made).unwrap();
        assert!(!made.exists());
        assert!(Path::new("/etc/passwd").exists());
    }
}
