//! Packets between a daemon and its children. A packet arrives completely or not at all, and can
//! carry a descriptor. [`send`] and [`receive`] also work with stream sockets; a packet is then any
//! part of the stream.

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Creates two connected sockets.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?)
}

/// Sends one packet, with a copy of the descriptor `passed` if given. `bytes` must not be empty,
/// because an empty packet looks like the end of the connection. If the socket is full, blocks with
/// `wait`, and otherwise returns [`io::ErrorKind::WouldBlock`].
pub fn send(
    socket: BorrowedFd,
    bytes: &[u8],
    passed: Option<BorrowedFd>,
    wait: bool,
) -> io::Result<()> {
    let raw: Vec<RawFd> = passed.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control = if raw.is_empty() {
        &rights[..0]
    } else {
        &rights[..]
    };
    let flags = MsgFlags::MSG_NOSIGNAL
        | if wait {
            MsgFlags::empty()
        } else {
            MsgFlags::MSG_DONTWAIT
        };
    loop {
        match sendmsg::<()>(
            socket.as_raw_fd(),
            &[IoSlice::new(bytes)],
            control,
            flags,
            None,
        ) {
            Err(Errno::EINTR) => {}
            other => return Ok(other.map(drop)?),
        }
    }
}

/// Receives one packet. Returns its length and its descriptor, if any. None if the other end is
/// closed and no packet is left. If no packet has arrived, blocks with `wait`, and otherwise
/// returns [`io::ErrorKind::WouldBlock`]. If the packet is larger than `buffer`, returns
/// [`io::ErrorKind::InvalidData`]; the packet is then lost.
pub fn receive(
    socket: BorrowedFd,
    buffer: &mut [u8],
    wait: bool,
) -> io::Result<Option<(usize, Option<OwnedFd>)>> {
    let mut control = cmsg_space!([RawFd; 1]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC
        | if wait {
            MsgFlags::empty()
        } else {
            MsgFlags::MSG_DONTWAIT
        };
    let mut parts = [IoSliceMut::new(buffer)];
    let message = match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags) {
        Err(Errno::ECONNRESET) => return Ok(None),
        other => other?,
    };
    let mut passed = None;
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = part {
            let mut owned = raw.into_iter().map(|fd| {
                // SAFETY: the kernel has just created this descriptor for this process, and no
                // other value owns it.
                unsafe { OwnedFd::from_raw_fd(fd) }
            });
            passed = owned.next_back();
        }
    }
    let truncated = message.flags.contains(MsgFlags::MSG_TRUNC);
    match message.bytes {
        _ if truncated => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the packet is too large",
        )),
        0 => Ok(None),
        length => Ok(Some((length, passed))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;

    #[test]
    fn a_descriptor_is_received_with_its_packet() {
        let (near, far) = pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"carried").unwrap();
        send(near.as_fd(), b"x", Some(file.as_fd()), true).unwrap();
        send(near.as_fd(), b"yy", None, true).unwrap();
        drop(near);
        let mut buffer = [0; 8];
        let (length, passed) = receive(far.as_fd(), &mut buffer, true).unwrap().unwrap();
        assert_eq!(&buffer[..length], b"x");
        let mut copy = std::fs::File::from(passed.unwrap());
        copy.rewind().unwrap();
        let mut text = String::new();
        copy.read_to_string(&mut text).unwrap();
        assert_eq!(text, "carried");
        assert!(
            receive(far.as_fd(), &mut buffer, true)
                .unwrap()
                .unwrap()
                .1
                .is_none()
        );
        assert!(receive(far.as_fd(), &mut buffer, true).unwrap().is_none());
    }
}
