//! schedd's socket, and the record: a file in which clients find the socket's path.

use crate::server::setup::Setup;
use crate::sys::home::Home;
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
    /// Whether the service manager owns the socket and listens while no schedd runs.
    given: bool,
}

impl Listener {
    /// Listens at the socket that this process inherited, or else at a new socket.
    pub fn open(setup: &Setup, home: &Home) -> io::Result<Listener> {
        if setup.shared {
            // All users must be able to reach the record and the socket in this directory.
            filesystem::make_passable(&home.state)?;
        }
        let Some(socket) = socket::given()? else {
            return Listener::bind(setup, home);
        };
        let path = socket.local_addr()?.as_pathname().map(Path::to_path_buf);
        let path = path.ok_or_else(|| io::Error::other("the inherited socket has no path"))?;
        announce(home, &path);
        let inode = std::fs::metadata(&path)?.ino();
        Ok(Listener {
            socket,
            path,
            inode,
            given: true,
        })
    }

    /// Listens in the runtime directory and writes the record.
    fn bind(setup: &Setup, home: &Home) -> io::Result<Listener> {
        let path = home.runtime.join("schedd.sock");
        let (socket, inode) = bind(setup, &path)?;
        announce(home, &path);
        Ok(Listener {
            socket,
            path,
            inode,
            given: false,
        })
    }

    /// The socket to accept connections from.
    pub fn socket(&self) -> &UnixListener {
        &self.socket
    }

    /// Listens at a new socket if the socket has been removed, as happens to runtime directories
    /// when users log out. If the runtime directory cannot be recreated, the new socket is in the
    /// state directory.
    pub fn rebind_if_vanished(&mut self, setup: &Setup, home: &Home) {
        if std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.ino() == self.inode) {
            return;
        }
        tracing::warn!(
            "schedd's socket {} was removed; schedd creates a new one",
            self.path.display()
        );
        let again = Listener::bind(setup, home).or_else(|_| {
            let path = home.state.join("schedd.sock");
            let (socket, inode) = bind(setup, &path)?;
            record::write(home, &path)?;
            Ok::<_, io::Error>(Listener {
                socket,
                path,
                inode,
                given: false,
            })
        });
        match again {
            Ok(listener) => *self = listener,
            Err(error) => tracing::error!(
                "schedd cannot create a socket, and clients cannot connect: {error}"
            ),
        }
    }

    /// Removes the socket, unless it was inherited.
    pub fn remove(&self) {
        if !self.given {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Writes the record with the path of this socket.
fn announce(home: &Home, path: &Path) {
    let Err(error) = record::write(home, path) else {
        return;
    };
    tracing::warn!("cannot write {}: {error}", home.record().display());
    // Without a record, clients try the runtime directory. Therefore a record of another socket is
    // erased, so that clients can reach schedd even if the disk is full.
    if record::read(home).is_some_and(|old| old.socket != path) {
        record::erase(home);
    }
}

fn bind(setup: &Setup, path: &Path) -> io::Result<(UnixListener, u64)> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    if setup.shared {
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
