//! Frames: the format of messages on sockets between Lanai's processes.
//!
//! A frame consists of `"LN"`, the protocol version (2 bytes), the length of the payload (4 bytes)
//! and the payload in postcard format. Numbers are little-endian. A frame of another protocol or
//! version, or with a payload of more than [`LARGEST`] bytes, ends the connection. A receiver
//! reserves memory only for bytes that have arrived.

use super::message::VERSION;
use crate::sys::{fault, packet};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Maximum payload in bytes: a script of 16 MiB, its environment and a reserve.
pub const LARGEST: usize = 24 << 20;

const MAGIC: [u8; 2] = *b"LN";
const HEADER: usize = 8;

/// Number of bytes after which one call of [`FrameSocket::receive`] reads no more, because other
/// connections must not wait long.
const READ_LIMIT: usize = 1 << 20;

/// Reason why a connection cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The peer has closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// The peer has another protocol version.
    #[error(
        "the other program uses protocol version {theirs}, and this program uses version {VERSION}: \
         restart the older program (schedd --stop) or reinstall"
    )]
    Version {
        /// The protocol version in the frame of the peer.
        theirs: u16,
    },
    /// The received bytes are not a frame.
    #[error("the peer does not use Lanai's protocol")]
    Foreign,
    /// The payload has this number of bytes, more than [`LARGEST`].
    #[error("a message of {0} bytes is larger than the maximum of {LARGEST}")]
    TooLarge(usize),
    /// The payload cannot be encoded or decoded.
    #[error("a malformed message: {0}")]
    Malformed(postcard::Error),
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Encodes a message as a frame.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut bytes = header(0).to_vec();
    bytes = postcard::to_extend(message, bytes).map_err(FrameError::Malformed)?;
    let length = bytes.len() - HEADER;
    if length > LARGEST {
        return Err(FrameError::TooLarge(length));
    }
    bytes[..HEADER].copy_from_slice(&header(length));
    Ok(bytes)
}

fn header(length: usize) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..2].copy_from_slice(&MAGIC);
    bytes[2..4].copy_from_slice(&VERSION.to_le_bytes());
    bytes[4..].copy_from_slice(&(length as u32).to_le_bytes());
    bytes
}

/// Returns the length of the payload; an error if the header is invalid.
fn payload_length(header: &[u8; HEADER]) -> Result<usize, FrameError> {
    let [m0, m1, v0, v1, l0, l1, l2, l3] = *header;
    let theirs = u16::from_le_bytes([v0, v1]);
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    match () {
        () if [m0, m1] != MAGIC => Err(FrameError::Foreign),
        () if theirs != VERSION => Err(FrameError::Version { theirs }),
        () if length > LARGEST => Err(FrameError::TooLarge(length)),
        () => Ok(length),
    }
}

/// Reads one message from a blocking stream.
pub fn read<T: DeserializeOwned>(stream: &mut impl Read) -> Result<T, FrameError> {
    let mut header = [0; HEADER];
    read_exactly(stream, &mut header)?;
    let mut payload = Vec::new();
    let length = payload_length(&header)?;
    stream
        .by_ref()
        .take(length as u64)
        .read_to_end(&mut payload)?;
    if payload.len() < length {
        return Err(FrameError::Closed);
    }
    postcard::from_bytes(&payload).map_err(FrameError::Malformed)
}

fn read_exactly(stream: &mut impl Read, buffer: &mut [u8]) -> Result<(), FrameError> {
    match stream.read_exact(buffer) {
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Err(FrameError::Closed),
        other => Ok(other?),
    }
}

/// Reads one message from a blocking stream, and the file descriptor that came with the message.
pub fn read_with<T: DeserializeOwned>(
    stream: &UnixStream,
) -> Result<(T, Option<OwnedFd>), FrameError> {
    let mut receiver = DescriptorReceiver {
        stream,
        received: None,
    };
    let message = read(&mut receiver)?;
    Ok((message, receiver.received))
}

/// Stream that keeps the last file descriptor that came with its bytes.
struct DescriptorReceiver<'a> {
    stream: &'a UnixStream,
    received: Option<OwnedFd>,
}

impl Read for DescriptorReceiver<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some((length, passed)) = packet::receive(self.stream.as_fd(), buffer, true)? else {
            return Ok(0);
        };
        self.received = passed.or(self.received.take());
        Ok(length)
    }
}

/// Writes one message to a blocking stream.
pub fn write<T: Serialize>(stream: &mut impl Write, message: &T) -> Result<(), FrameError> {
    Ok(stream.write_all(&encode(message)?)?)
}

/// A nonblocking socket with buffered input and output.
#[derive(Debug)]
pub struct FrameSocket {
    stream: UnixStream,
    incoming: Vec<u8>,
    /// Number of bytes in `incoming` that were already returned as messages. Removing them after
    /// each message would move the rest of the buffer each time.
    taken: usize,
    outgoing: Vec<u8>,
    sent: usize,
}

impl FrameSocket {
    /// Wraps a connected stream.
    pub fn new(stream: UnixStream) -> io::Result<FrameSocket> {
        stream.set_nonblocking(true)?;
        Ok(FrameSocket {
            stream,
            incoming: Vec::new(),
            taken: 0,
            outgoing: Vec::new(),
            sent: 0,
        })
    }

    /// Returns the stream, to query the peer's credentials.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Queues a message and writes as much as the socket accepts now.
    pub fn send<T: Serialize>(&mut self, message: &T) -> Result<(), FrameError> {
        let bytes = encode(message)?;
        if self.wants_write() {
            self.outgoing.extend_from_slice(&bytes);
        } else {
            (self.outgoing, self.sent) = (bytes, 0);
        }
        Ok(self.flush()?)
    }

    /// Sends a message with a copy of a file descriptor. Fails if other output is pending, because
    /// the descriptor must be sent with the first byte of its message.
    pub fn send_with<T: Serialize>(
        &mut self,
        message: &T,
        passed: BorrowedFd,
    ) -> Result<(), FrameError> {
        let bytes = encode(message)?;
        if self.wants_write() {
            return Err(FrameError::Io(ErrorKind::WouldBlock.into()));
        }
        packet::send(self.stream.as_fd(), &bytes[..1], Some(passed), false)?;
        self.outgoing.extend_from_slice(&bytes[1..]);
        Ok(self.flush()?)
    }

    /// Returns the stream; None if input or output is pending.
    pub fn into_stream(self) -> Option<UnixStream> {
        (self.partial() == 0 && !self.wants_write()).then_some(self.stream)
    }

    /// Sends an empty frame, from which a peer of another version learns the protocol version of
    /// this process.
    pub fn send_version(&mut self) {
        self.outgoing.extend_from_slice(&header(0));
        let _ = self.flush();
    }

    /// Writes as much pending output as the socket accepts now.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.wants_write() {
            match self.write_some() {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if self.sent == self.outgoing.len() {
            self.outgoing = Vec::new();
            self.sent = 0;
        }
        Ok(())
    }

    fn write_some(&mut self) -> io::Result<usize> {
        let rest = &self.outgoing[self.sent..];
        let rest = &rest[..fault::length("socket.write", rest.len())?];
        (&self.stream).write(rest)
    }

    /// Tests whether output is pending.
    pub fn wants_write(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    /// Returns the number of pending output bytes.
    pub fn backlog(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// Returns the number of input bytes that were not returned as messages yet.
    pub fn partial(&self) -> usize {
        self.incoming.len() - self.taken
    }

    /// Returns the messages that have arrived completely. If the peer has closed the connection and
    /// no message is left, returns [`FrameError::Closed`].
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<Vec<T>, FrameError> {
        self.receive_some(usize::MAX)
    }

    /// Like [`FrameSocket::receive`], but returns at most `most` messages. Polling the socket does
    /// not report messages that remain in the buffer, so call [`FrameSocket::has_more`].
    pub fn receive_some<T: DeserializeOwned>(&mut self, most: usize) -> Result<Vec<T>, FrameError> {
        let ended = if self.has_more() {
            false
        } else {
            self.read_available()?
        };
        let mut messages = Vec::new();
        let mut at = self.taken;
        while messages.len() < most
            && let Some(header) = self.incoming[at..].first_chunk::<HEADER>()
        {
            let end = at + HEADER + payload_length(header)?;
            let Some(payload) = self.incoming.get(at + HEADER..end) else {
                break;
            };
            messages.push(postcard::from_bytes(payload).map_err(FrameError::Malformed)?);
            at = end;
        }
        self.taken = at;
        self.discard_taken();
        if ended && messages.is_empty() {
            return Err(FrameError::Closed);
        }
        Ok(messages)
    }

    fn discard_taken(&mut self) {
        if self.partial() == 0 {
            (self.incoming, self.taken) = (Vec::new(), 0);
        } else if self.taken > self.incoming.len() / 2 {
            self.incoming.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Tests whether a complete message, or an invalid header, is buffered.
    pub fn has_more(&self) -> bool {
        let Some(header) = self.incoming[self.taken..].first_chunk::<HEADER>() else {
            return false;
        };
        payload_length(header).map_or(true, |length| self.partial() >= HEADER + length)
    }

    /// Reads the available input. Returns whether the peer has closed the connection.
    fn read_available(&mut self) -> Result<bool, FrameError> {
        let mut buffer = [0; 16 << 10];
        let mut received = 0;
        while received < READ_LIMIT {
            let room = fault::length("socket.read", buffer.len())?;
            match (&self.stream).read(&mut buffer[..room]) {
                Ok(0) => return Ok(true),
                Ok(n) => {
                    self.incoming.extend_from_slice(&buffer[..n]);
                    received += n;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(true),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(false)
    }
}

impl AsFd for FrameSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (FrameSocket, UnixStream) {
        let (a, b) = UnixStream::pair().unwrap();
        (FrameSocket::new(a).unwrap(), b)
    }

    #[test]
    fn a_message_is_received_when_its_frame_is_complete() {
        let (mut link, mut far) = pair();
        let bytes = encode(&"hello".to_string()).unwrap();
        far.write_all(&bytes[..9]).unwrap();
        assert!(link.receive::<String>().unwrap().is_empty());
        far.write_all(&bytes[9..]).unwrap();
        far.write_all(&bytes).unwrap();
        drop(far);
        assert_eq!(link.receive::<String>().unwrap(), ["hello", "hello"]);
        assert!(matches!(link.receive::<String>(), Err(FrameError::Closed)));
    }

    #[test]
    fn unread_messages_stay_buffered() {
        let (mut link, mut far) = pair();
        (0..5).for_each(|number: u8| far.write_all(&encode(&number).unwrap()).unwrap());
        drop(far);
        assert_eq!(link.receive_some::<u8>(2).unwrap(), [0, 1]);
        assert!(link.has_more());
        assert_eq!(link.receive_some::<u8>(2).unwrap(), [2, 3]);
        assert_eq!(link.receive_some::<u8>(2).unwrap(), [4]);
        assert!(!link.has_more());
        assert!(matches!(
            link.receive_some::<u8>(2),
            Err(FrameError::Closed)
        ));
    }

    #[test]
    fn many_small_messages_are_received_quickly() {
        let (mut link, _far) = pair();
        (0..100_000u32).for_each(|number| link.incoming.extend(encode(&number).unwrap()));
        let begun = crate::sys::clock::monotonic();
        for number in 0..100_000 {
            assert_eq!(link.receive_some::<u32>(1).unwrap(), [number]);
        }
        assert_eq!((link.partial(), link.has_more()), (0, false));
        let took = crate::sys::clock::monotonic().0 - begun.0;
        assert!(took < 2000, "{took} ms");
    }

    #[test]
    fn a_descriptor_arrives_with_its_message() {
        let (mut link, far) = pair();
        let (passed, other) = UnixStream::pair().unwrap();
        link.send(&1u8).unwrap();
        link.send_with(&2u8, passed.as_fd()).unwrap();
        drop(passed);
        assert!(read_with::<u8>(&far).unwrap().1.is_none());
        let (number, caught) = read_with::<u8>(&far).unwrap();
        assert_eq!(number, 2);
        UnixStream::from(caught.unwrap()).write_all(b"x").unwrap();
        let mut byte = [0];
        (&other).read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
    }

    #[test]
    fn frames_of_other_protocols_and_versions_and_oversized_frames_are_errors() {
        for (bytes, expected) in [
            (*b"GET / HT", "does not use"),
            (
                [b'L', b'N', VERSION as u8, 0, 255, 255, 255, 255],
                "larger than",
            ),
            ([b'L', b'N', 9, 9, 0, 0, 0, 0], "uses protocol"),
        ] {
            let (mut link, mut far) = pair();
            far.write_all(&bytes).unwrap();
            let error = link.receive::<String>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_malformed_payload_is_an_error() {
        let (mut link, mut far) = pair();
        let mut bytes = encode(&u8::MAX).unwrap();
        *bytes.last_mut().unwrap() = 0xff;
        far.write_all(&bytes).unwrap();
        assert!(matches!(
            link.receive::<String>(),
            Err(FrameError::Malformed(_))
        ));
    }
}
