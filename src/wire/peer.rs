//! The credentials of a socket's peer, from the kernel.

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::io;
use std::os::unix::net::UnixStream;

/// Verified credentials. [`of`] is the only constructor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    uid: u32,
    gid: u32,
}

/// The credentials of the process that connected, or listens, at the other end.
pub fn of(stream: &UnixStream) -> io::Result<Peer> {
    let credentials = getsockopt(stream, PeerCredentials)?;
    Ok(Peer {
        uid: credentials.uid(),
        gid: credentials.gid(),
    })
}

impl Peer {
    /// User id of the peer.
    pub fn uid(self) -> u32 {
        self.uid
    }

    /// Effective group id of the peer.
    pub fn gid(self) -> u32 {
        self.gid
    }
}
