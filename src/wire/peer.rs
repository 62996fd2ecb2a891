//! The credentials of the process at the other end of a socket (the peer), from the kernel.

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::io;
use std::os::unix::net::UnixStream;

/// Credentials of a peer. Only [`of`] creates them, from the data of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    uid: u32,
    gid: u32,
}

/// Returns the credentials of the process that connected, or that listened, at the other end.
pub fn of(stream: &UnixStream) -> io::Result<Peer> {
    let credentials = getsockopt(stream, PeerCredentials)?;
    Ok(Peer {
        uid: credentials.uid(),
        gid: credentials.gid(),
    })
}

impl Peer {
    /// Returns the effective user id of the peer.
    pub fn uid(self) -> u32 {
        self.uid
    }

    /// Returns the effective group id of the peer.
    pub fn gid(self) -> u32 {
        self.gid
    }
}
