//! Where clients find schedd: its socket, and the record that leads there.

use super::setup::Setup;
use crate::sys::{filesystem, record, socket};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The listening socket.
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
    inode: u64,
}

impl Listener {
    /// Listens in the runtime folder, and says so in the record.
    pub fn bind(setup: &Setup) -> io::Result<Listener> {
        let path = setup.home.runtime.join("schedd.sock");
        let (socket, inode) = bind(setup, &path)?;
        if let Err(error) = record::write(&setup.home, &path) {
            // Without a record clients look here anyway: a full disk need not keep them out.
            tracing::warn!("{} was not written: {error}", setup.home.record().display());
        }
        Ok(Listener { socket, path, inode })
    }

    /// The socket.
    pub fn socket(&self) -> &UnixListener {
        &self.socket
    }

    /// Listens again if the socket is no longer where clients look for it: a runtime folder goes
    /// when its user logs out. Where it cannot be made again, the state folder serves.
    pub fn rebind_if_vanished(&mut self, setup: &Setup) {
        if std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.ino() == self.inode) {
            return;
        }
        tracing::warn!("{} has vanished: listening anew", self.path.display());
        let again = Listener::bind(setup).or_else(|_| {
            let path = setup.home.state.join("schedd.sock");
            let (socket, inode) = bind(setup, &path)?;
            record::write(&setup.home, &path)?;
            Ok::<_, io::Error>(Listener { socket, path, inode })
        });
        match again {
            Ok(listener) => *self = listener,
            Err(error) => tracing::error!("clients cannot reach schedd: {error}"),
        }
    }

    /// Takes the socket away.
    pub fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn bind(setup: &Setup, path: &Path) -> io::Result<(UnixListener, u64)> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    if setup.shared {
        // Everybody finds the record and the socket; the spool beside them is closed.
        filesystem::make_passable(&setup.home.state)?;
        filesystem::make_passable(folder)?;
    } else {
        filesystem::make_private(folder)?;
    }
    let socket = socket::bind(path, if setup.shared { 0o666 } else { 0o600 })?;
    Ok((socket, std::fs::metadata(path)?.ino()))
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
