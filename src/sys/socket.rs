//! Unix sockets at paths of any length.
//!
//! A socket address has space for a path of 107 bytes. For longer paths, this module opens the
//! directory and uses `/proc/self/fd/N/name`, where N is the descriptor of the directory.

use super::{env, fault};
use nix::fcntl::{OFlag, open};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr};
use nix::sys::stat::Mode;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The number of the first descriptor that systemd passes to a service.
const FIRST_INHERITED: i32 = 3;
/// Maximum length of a path in a socket address.
const MAX_PATH: usize = 107;

/// Listens at a socket `path` with the file mode `mode`. Replaces an existing socket.
pub fn bind(path: &Path, mode: u32) -> io::Result<UnixListener> {
    fault::point("socket.bind")?;
    let (_folder, short) = short_path(path)?;
    let temporary = short.with_file_name(format!(
        ".{}.{}",
        name(path)?.to_string_lossy(),
        std::process::id()
    ));
    let _ = std::fs::remove_file(&temporary);
    let listener = UnixListener::bind(&temporary)?;
    std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(mode))?;
    // Rename the socket only when it has its mode, so that `path` never has another mode. The
    // rename replaces an old socket, so that `path` is never missing.
    std::fs::rename(&temporary, &short)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The listening socket that this process has inherited from systemd; None unless systemd has
/// passed exactly one socket. Call this only once, because the caller owns the descriptor.
pub fn given() -> io::Result<Option<UnixListener>> {
    let is_for_us =
        env::text("LISTEN_PID").is_some_and(|pid| pid == std::process::id().to_string());
    if !is_for_us || env::text("LISTEN_FDS").is_none_or(|count| count != "1") {
        return Ok(None);
    }
    // SAFETY: by systemd's protocol, this descriptor is open and belongs to this process.
    let listener = unsafe { UnixListener::from_raw_fd(FIRST_INHERITED) };
    nix::fcntl::fcntl(
        &listener,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC),
    )?;
    listener.set_nonblocking(true)?;
    Ok(Some(listener))
}

/// Connects to the socket at `path`.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    fault::point("socket.connect")?;
    let (_folder, short) = short_path(path)?;
    UnixStream::connect(short)
}

/// Connects to the socket at `path` without blocking. Fails if the queue of the listener is full.
pub fn connect_nonblocking(path: &Path) -> io::Result<UnixStream> {
    fault::point("socket.connect")?;
    let (_folder, short) = short_path(path)?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = nix::sys::socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    nix::sys::socket::connect(socket.as_raw_fd(), &UnixAddr::new(&short)?)?;
    Ok(UnixStream::from(socket))
}

/// A path to the socket `path` that fits in an address. If a descriptor is returned, the path is
/// only valid while the descriptor is open.
fn short_path(path: &Path) -> io::Result<(Option<OwnedFd>, PathBuf)> {
    // The temporary name in `bind` is up to 16 bytes longer.
    if path.as_os_str().len() + 16 <= MAX_PATH {
        return Ok((None, path.to_path_buf()));
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let folder = open(
        folder,
        OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name(path)?);
    Ok((Some(folder), short))
}

fn name(path: &Path) -> io::Result<&OsStr> {
    let name = path.file_name().filter(|name| name.as_bytes().len() < 64);
    name.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{}: the file name of a socket must have 1 to 63 bytes",
                path.display()
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_at_short_and_long_paths_accept_connections() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("x".repeat(200));
        std::fs::create_dir(&deep).unwrap();
        for path in [folder.path().join("s.sock"), deep.join("s.sock")] {
            let listener = bind(&path, 0o600).unwrap();
            let _near = connect(&path).unwrap();
            listener.accept().unwrap();
            let _near = connect_nonblocking(&path).unwrap();
            listener.accept().unwrap();
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn binding_again_replaces_the_old_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        let _dead = bind(&path, 0o600).unwrap();
        let alive = bind(&path, 0o600).unwrap();
        let _near = connect(&path).unwrap();
        alive.accept().unwrap();
    }
}
