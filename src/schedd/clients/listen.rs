//! Where clients find schedd: its socket, and the record that leads there.

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
    /// The service manager's, who goes on listening while no schedd runs.
    given: bool,
}

impl Listener {
    /// Listens at the socket that this process was given, else at one of its own.
    pub fn open(setup: &Setup, home: &Home) -> io::Result<Listener> {
        if setup.shared {
            // Everybody finds the record and the socket; the spool beside them is closed.
            filesystem::make_passable(&home.state)?;
        }
        let Some(socket) = socket::given()? else {
            return Listener::bind(setup, home);
        };
        let path = socket.local_addr()?.as_pathname().map(Path::to_path_buf);
        let path = path.ok_or_else(|| io::Error::other("the socket handed over has no path"))?;
        announce(home, &path);
        let inode = std::fs::metadata(&path)?.ino();
        Ok(Listener {
            socket,
            path,
            inode,
            given: true,
        })
    }

    /// Listens in the runtime folder, and says so in the record.
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

    /// The socket.
    pub fn socket(&self) -> &UnixListener {
        &self.socket
    }

    /// Listens again if the socket is no longer where clients look for it: a runtime folder goes
    /// when its user logs out. Where it cannot be made again, the state folder serves.
    pub fn rebind_if_vanished(&mut self, setup: &Setup, home: &Home) {
        if std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.ino() == self.inode) {
            return;
        }
        tracing::warn!("{} has vanished: listening anew", self.path.display());
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
            Err(error) => tracing::error!("clients cannot reach schedd: {error}"),
        }
    }

    /// Takes the socket away, if it is ours.
    pub fn remove(&self) {
        if !self.given {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Writes the record that leads to this socket.
fn announce(home: &Home, path: &Path) {
    let Err(error) = record::write(home, path) else {
        return;
    };
    // Without a record clients look in the runtime folder: a full disk need not keep them out.
    tracing::warn!("{} was not written: {error}", home.record().display());
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
