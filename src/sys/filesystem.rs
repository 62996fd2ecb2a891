//! Files: private folders, atomic replacement, what kind of file system lies beneath.

use nix::sys::statfs::statfs;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Makes a folder, and those above it, that only its owner may enter.
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

/// Writes a file so that a reader finds the old contents or the new, never a part.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    let mut file: File = File::options().write(true).create(true).truncate(true).mode(mode).open(&beside)?;
    file.write_all(bytes)?;
    fs::rename(&beside, path)
}

/// The name of the network file system that `path` lies on, if it is one.
pub fn network(path: &Path) -> io::Result<Option<&'static str>> {
    if cfg!(debug_assertions) && super::env::var("LANAI_TEST_NETWORK_FS").is_some() {
        return Ok(Some("nfs"));
    }
    let kind = statfs(path)?.filesystem_type().0 as u32;
    Ok(NETWORK.iter().find(|&&(magic, _)| magic == kind).map(|&(_, name)| name))
}

/// Magic numbers of `statfs`, as in the kernel's `magic.h` and the file systems' own sources.
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

/// Sets aside `bytes` of disk under `path`, so that they can be given back when the disk is full.
pub fn set_aside(path: &Path, bytes: u64) -> io::Result<()> {
    let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.len() >= bytes {
        return Ok(());
    }
    nix::fcntl::posix_fallocate(&file, 0, bytes as i64)?;
    Ok(())
}
