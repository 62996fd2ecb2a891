//! Who is at the other end of a socket: the kernel's word, never the peer's own.

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::io;
use std::os::unix::net::UnixStream;

/// The attested other end. [`of`] is its only constructor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    uid: u32,
    gid: u32,
}

/// Asks the kernel who connected, or who listens, at the other end.
pub fn of(stream: &UnixStream) -> io::Result<Peer> {
    let credentials = getsockopt(stream, PeerCredentials)?;
    Ok(Peer {
        uid: credentials.uid(),
        gid: credentials.gid(),
    })
}

impl Peer {
    /// The user.
    pub fn uid(self) -> u32 {
        self.uid
    }

    /// The user's effective group.
    pub fn gid(self) -> u32 {
        self.gid
    }
}
