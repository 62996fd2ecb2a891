//! Session keyrings: the kernel's store for keys and tickets that all processes of a session share.

use nix::errno::Errno;
use nix::libc;
use std::io;

/// Leaves the session keyring that this process has inherited and joins a new, empty one. Where the
/// kernel has no keyrings, or denies them to this process and its children, nothing changes.
pub fn join_session() -> io::Result<()> {
    match keyctl(libc::KEYCTL_JOIN_SESSION_KEYRING, 0, 0) {
        Ok(()) | Err(Errno::ENOSYS | Errno::EPERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Links the keyring of this process's user into its session keyring, as `pam_keyinit` does.
pub fn link_user() -> io::Result<()> {
    Ok(keyctl(
        libc::KEYCTL_LINK,
        libc::KEY_SPEC_USER_KEYRING,
        libc::KEY_SPEC_SESSION_KEYRING,
    )?)
}

fn keyctl(operation: u32, first: i32, second: i32) -> nix::Result<()> {
    let (first, second) = (i64::from(first), i64::from(second));
    // SAFETY: both operations take numbers only; the name of a joined keyring is null: anonymous.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, operation, first, second, 0, 0) };
    Errno::result(result).map(drop)
}
