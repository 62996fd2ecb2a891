//! Messages that the spawner and its shepherds send to noded.

use super::folder::AttemptName;
use crate::model::job::AttemptOutcome;
use crate::sys::packet;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The maximum size of a message in bytes. A message with an outcome and its notes is smaller.
const MAX_MESSAGE: usize = 16 << 10;

/// A message to noded, from the spawner or a shepherd (the process that runs an attempt).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpawnerMessage {
    /// A shepherd has been forked. The message carries a descriptor that becomes readable when the
    /// shepherd ends.
    Forked(AttemptName),
    /// The job runs in the session with this number.
    Running(AttemptName, u32),
    /// All processes of the job are suspended (true) or running (false). The number is the job's
    /// session.
    Stopped(AttemptName, u32, bool),
    /// The script of a job on several hosts has ended, and stage-out begins. schedd can release the
    /// other hosts.
    StagingOut(AttemptName),
    /// The job's outcome is recorded. The shepherd has not ended yet: it still serves the terminal
    /// or removes directories.
    Over(AttemptName),
    /// The attempt never begins, for this reason: no shepherd could be forked, or the attempt could
    /// not be recorded.
    Failed(AttemptName, String),
    /// The job's outcome, and why the outcome cannot be recorded.
    Unrecorded(AttemptName, AttemptOutcome, String),
    /// A directory of the job could not be removed, for this reason.
    LeftBehind(AttemptName, String),
}

/// Reads the next message at noded's end of a socket. None if the other end is closed. Fails with
/// [`io::ErrorKind::WouldBlock`] if no message has arrived.
pub fn receive(socket: BorrowedFd) -> io::Result<Option<(SpawnerMessage, Option<OwnedFd>)>> {
    let mut buffer = [0; MAX_MESSAGE];
    let Some((length, passed)) = packet::receive(socket, &mut buffer, false)? else {
        return Ok(None);
    };
    let message = postcard::from_bytes(&buffer[..length]).map_err(io::Error::other)?;
    Ok(Some((message, passed)))
}

/// Sends a message to noded. If the socket is full, waits if `wait` is set, and otherwise returns
/// false without sending the message. Returns true in all other cases, even if noded has ended.
pub fn send_message(
    noded: &OwnedFd,
    message: &SpawnerMessage,
    passed: Option<&OwnedFd>,
    wait: bool,
) -> bool {
    let Ok(bytes) = postcard::to_stdvec(message) else {
        return true;
    };
    let sent = packet::send(noded.as_fd(), &bytes, passed.map(AsFd::as_fd), wait);
    !matches!(sent, Err(e) if e.kind() == io::ErrorKind::WouldBlock)
}

/// Sends a message to noded. Fails if noded has ended or the socket is full.
pub fn deliver(noded: &OwnedFd, message: &SpawnerMessage) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    packet::send(noded.as_fd(), &bytes, None, false)
}
