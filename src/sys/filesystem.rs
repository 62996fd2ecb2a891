//! Files and directories: access rights, atomic replacement, removal, file system types.

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, FallocateFlags, OFlag, fallocate, openat, renameat};
use nix::libc;
use nix::sys::stat::Mode;
use nix::sys::statfs::statfs;
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Creates a directory that only its owner may enter, and missing parents of it. Restricts the mode
/// of an existing directory.
pub fn make_private(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            fs::set_permissions(folder, Permissions::from_mode(0o700))
        }
        other => other,
    }
}

/// Creates a directory that this process's user owns. The user `reader`, if given, may read it, but
/// not write. All users may enter its parent. An existing directory keeps its contents. Fails if
/// the directory is a link or belongs to another user, or if a reader is given and the file system
/// does not support access control lists.
pub fn make_readable_by(folder: &Path, reader: Option<u32>) -> io::Result<()> {
    folder.parent().map_or(Ok(()), make_passable)?;
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        other => other?,
    }
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let own = File::options()
        .read(true)
        .custom_flags(flags)
        .open(folder)?;
    if own.metadata()?.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::Error::other("the directory belongs to another user"));
    }
    own.set_permissions(Permissions::from_mode(0o700))?;
    reader.map_or(Ok(()), |uid| grant_read(&own, uid))
}

/// Gives one user read access to a directory by an access control list. A group would give access
/// to all its members.
fn grant_read(folder: &File, uid: u32) -> io::Result<()> {
    let list = access_list(uid);
    let name = c"system.posix_acl_access";
    let (descriptor, value, length) = (folder.as_raw_fd(), list.as_ptr().cast(), list.len());
    // SAFETY: the descriptor is open; the kernel reads `length` bytes at `value` and the name.
    if unsafe { libc::fsetxattr(descriptor, name.as_ptr(), value, length, 0) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        e if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Err(io::Error::other(
            "the file system does not support access control lists, so the job's owner could not \
             read the directory",
        )),
        e => Err(e),
    }
}

/// An access control list with all rights for the owner, the rights to read and enter for the user
/// `uid`, and no rights for others. Format of `linux/posix_acl_xattr.h`: tag, permissions and id of
/// each entry, sorted by tag.
fn access_list(uid: u32) -> Vec<u8> {
    const VERSION: u32 = 2;
    const NO_ID: u32 = u32::MAX;
    let (owner, user, group, mask, other) = (0x01, 0x02, 0x04, 0x10, 0x20);
    let entries: [(u16, u16, u32); 5] = [
        (owner, 7, NO_ID),
        (user, 5, uid),
        (group, 0, NO_ID),
        (mask, 5, NO_ID),
        (other, 0, NO_ID),
    ];
    let mut list = VERSION.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

/// Whether `folder` is a directory (not a link), belongs to this process's user, and cannot be
/// written by other users.
pub fn is_protected(folder: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(folder)?;
    Ok(found.is_dir()
        && found.uid() == nix::unistd::geteuid().as_raw()
        && found.mode() & 0o022 == 0)
}

/// Creates a directory with mode 755, and its missing parents. Gives all users the right to enter
/// an existing directory.
pub fn make_passable(folder: &Path) -> io::Result<()> {
    if !folder.try_exists()? {
        fs::create_dir_all(folder)?;
        return fs::set_permissions(folder, Permissions::from_mode(0o755));
    }
    let mode = fs::metadata(folder)?.permissions().mode() & 0o7777;
    match mode | 0o111 {
        open if open == mode => Ok(()),
        open => fs::set_permissions(folder, Permissions::from_mode(open)),
    }
}

/// The first directory on the path from the root to `path` that other users may not enter.
pub fn first_closed_ancestor(path: &Path) -> Option<&Path> {
    let mut closed = path.ancestors().collect::<Vec<_>>();
    closed.reverse();
    closed.into_iter().find(|folder| {
        fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o001 == 0)
    })
}

/// Removes a directory with its contents. Symbolic links are removed, not followed. For directories
/// of any depth, this needs only a few descriptors and no recursion, because nested directories are
/// moved up to `path`.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let top = open_folder(AT_FDCWD, path)?;
    let mut moved = 0;
    loop {
        let folders = remove_files(&top)?;
        if folders.is_empty() {
            return fs::remove_dir(path);
        }
        for name in folders {
            let folder = match open_folder(&top, Path::new(OsStr::from_bytes(name.to_bytes()))) {
                // The directory has been removed in the meantime.
                Err(Errno::ENOENT) => continue,
                folder => folder?,
            };
            for inner in remove_files(&folder)? {
                move_up(&folder, &inner, &top, &mut moved)?;
            }
            unlinkat(&top, name.as_c_str(), UnlinkatFlags::RemoveDir)?;
        }
    }
}

fn open_folder(at: impl AsFd, path: &Path) -> nix::Result<OwnedFd> {
    openat(
        at,
        path,
        OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
        Mode::empty(),
    )
}

/// Removes all files and empty directories in a directory. Returns the names of the remaining
/// directories.
fn remove_files(folder: &OwnedFd) -> nix::Result<Vec<CString>> {
    let mut folders = Vec::new();
    for entry in Dir::from_fd(open_folder(folder, Path::new("."))?)?.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match unlinkat(folder, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(Errno::EISDIR | Errno::EPERM) => {
                match unlinkat(folder, name, UnlinkatFlags::RemoveDir) {
                    Ok(()) | Err(Errno::ENOENT) => {}
                    Err(Errno::ENOTEMPTY | Errno::EEXIST) => folders.push(name.to_owned()),
                    Err(e) => return Err(e),
                }
            }
            Err(e) => return Err(e),
        }
    }
    Ok(folders)
}

/// Moves the directory `name` from `folder` to `top`, with an unused name.
fn move_up(folder: &OwnedFd, name: &CStr, top: &OwnedFd, moved: &mut u64) -> nix::Result<()> {
    loop {
        *moved += 1;
        match renameat(folder, name, top, format!(".removed-{moved}").as_str()) {
            Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::ENOTDIR) => {}
            renamed => return renamed,
        }
    }
}

/// Replaces a file atomically: readers find the old or the new contents. The file gets the mode
/// `mode`, regardless of the umask.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = write_new(&temporary, bytes, mode).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(bytes)
}

/// The type of the network file system of `path`; None for other file systems.
pub fn network(path: &Path) -> io::Result<Option<&'static str>> {
    if cfg!(debug_assertions) && super::env::var("LANAI_TEST_NETWORK_FS").is_some() {
        return Ok(Some("nfs"));
    }
    let kind = statfs(path)?.filesystem_type().0 as u32;
    Ok(NETWORK
        .iter()
        .find(|&&(magic, _)| magic == kind)
        .map(|&(_, name)| name))
}

/// Network file systems, with the magic numbers that `statfs` returns, from the kernel's `magic.h`
/// and the sources of the file systems.
const NETWORK: &[(u32, &str)] = &[
    (0x6969, "nfs"),
    (0xFF53_4D42, "cifs"),
    (0xFE53_4D42, "smb2"),
    (0x517B, "smb"),
    (0x5346_414F, "afs"),
    (0x7375_7245, "coda"),
    (0x0BD0_0BD0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x00C3_6400, "ceph"),
    (0x1983_0326, "beegfs"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x0116_1970, "gfs2"),
    (0x7461_636F, "ocfs2"),
];

/// Preallocates `bytes` beyond the end of an existing file, so that the file can grow even on a
/// full disk.
pub fn preallocate(path: &Path, bytes: u64) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    let wanted = i64::try_from(file.metadata()?.len() + bytes).map_err(io::Error::other)?;
    Ok(fallocate(
        &file,
        FallocateFlags::FALLOC_FL_KEEP_SIZE,
        0,
        wanted,
    )?)
}

/// Tests whether files in a directory can be written: creates, writes and removes a file.
pub fn probe(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".probe.{}", std::process::id()));
    let written = write_new(&path, &[0; 4096], 0o600);
    let _ = fs::remove_file(&path);
    written
}

/// Whether the error means that this process or the host has too many open files.
pub fn lacks_descriptors(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(nix::libc::EMFILE | nix::libc::ENFILE)
    )
}

/// Free bytes of the file system of `path`, for users other than root.
pub fn free(path: &Path) -> io::Result<u64> {
    let found = statfs(path)?;
    Ok(found
        .blocks_available()
        .saturating_mul(found.block_size().unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_passable_directory_gives_other_users_only_the_right_to_enter() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let deep = folder.path().join("a/b");
        make_private(&deep).unwrap();
        assert_eq!(first_closed_ancestor(&deep.join("x")), Some(folder.path()));
        make_passable(&deep).unwrap();
        assert_eq!(mode(&deep), 0o711);
        make_passable(folder.path()).unwrap();
        assert_eq!(first_closed_ancestor(&deep.join("x")), None);
    }

    #[test]
    fn an_existing_directory_is_kept_and_a_link_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("a/1.CK");
        make_readable_by(&own, None).unwrap();
        fs::write(own.join("kept"), "").unwrap();
        make_readable_by(&own, None).unwrap();
        assert!(own.join("kept").exists() && mode(&own) == 0o700);
        std::os::unix::fs::symlink(&own, folder.path().join("a/2.CK")).unwrap();
        assert!(make_readable_by(&folder.path().join("a/2.CK"), None).is_err());
    }

    #[test]
    fn a_tree_of_any_depth_is_removed_and_no_link_in_it_is_followed() {
        let kept = tempfile::tempdir().unwrap();
        fs::write(kept.path().join("kept"), "").unwrap();
        let base = tempfile::tempdir().unwrap();
        let tree = base.path().join("tree");
        fs::create_dir_all(tree.join("wide/a/b")).unwrap();
        fs::create_dir_all(tree.join(".removed-1/x")).unwrap();
        std::os::unix::fs::symlink(kept.path(), tree.join("wide/a/link")).unwrap();
        let mut folder = open_folder(AT_FDCWD, &tree).unwrap();
        for _ in 0..2000 {
            nix::sys::stat::mkdirat(&folder, "d", Mode::S_IRWXU).unwrap();
            folder = open_folder(&folder, Path::new("d")).unwrap();
        }
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && kept.path().join("kept").exists());
        assert_eq!(
            remove_tree(&tree).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn a_replaced_file_has_the_given_mode_and_a_failure_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        replace(&path, b"new", 0o666).unwrap();
        assert_eq!(
            (mode(&path), fs::read(&path).unwrap()),
            (0o666, b"new".to_vec())
        );
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        assert!(replace(&taken, b"new", 0o600).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn preallocation_takes_disk_space_but_keeps_the_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "x").unwrap();
        if let Err(error) = preallocate(&path, 1 << 20) {
            return assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        }
        let found = fs::metadata(&path).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found.blocks() * 512 >= 1 << 20, "{} blocks", found.blocks());
    }
}
