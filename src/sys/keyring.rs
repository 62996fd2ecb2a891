//! Session keyrings, in which the kernel stores keys and tickets for all processes of a session.

use nix::errno::Errno;
use nix::libc;
use std::io;

/// Replaces the inherited session keyring of this process by a new, empty keyring. Does nothing if
/// the kernel has no keyrings, or denies them to this process.
pub fn join_session() -> io::Result<()> {
    match keyctl(libc::KEYCTL_JOIN_SESSION_KEYRING, 0, 0) {
        Ok(()) | Err(Errno::ENOSYS | Errno::EPERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Links the keyring of the user into this process's session keyring, like `pam_keyinit`.
pub fn link_user() -> io::Result<()> {
    Ok(keyctl(
        libc::KEYCTL_LINK,
        libc::KEY_SPEC_USER_KEYRING,
        libc::KEY_SPEC_SESSION_KEYRING,
    )?)
}

fn keyctl(operation: u32, first: i32, second: i32) -> nix::Result<()> {
    let (first, second) = (i64::from(first), i64::from(second));
    // SAFETY: the operations that are used take numbers, or a null pointer for an anonymous
    // keyring.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, operation, first, second, 0, 0) };
    Errno::result(result).map(drop)
}
