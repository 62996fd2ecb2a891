//! Messages that the spawner and its shepherds send to noded.

use super::folder::AttemptName;
use crate::model::job::AttemptOutcome;
use crate::sys::packet;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The longest message, in bytes. An outcome with all its notes fits in it.
const MAX_MESSAGE: usize = 16 << 10;

/// A message to noded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpawnerMessage {
    /// A shepherd has been forked. A descriptor that becomes readable at its end comes with this.
    Forked(AttemptName),
    /// The job runs in this session.
    Running(AttemptName, u32),
    /// The processes of the job, which has this session, are all suspended (true) or running.
    Stopped(AttemptName, u32, bool),
    /// The script of a job on several hosts has ended, and stage-out begins: schedd releases the
    /// other hosts.
    StagingOut(AttemptName),
    /// The job's outcome is recorded. Its shepherd still has to clean up.
    Over(AttemptName),
    /// The attempt could not be recorded.
    Failed(AttemptName, String),
    /// The job's outcome, and why it cannot be recorded.
    Unrecorded(AttemptName, AttemptOutcome, String),
    /// A directory of the job that could not be removed, and why.
    LeftBehind(AttemptName, String),
}

/// Reads the next message at noded's end of a socket. None when the other end is closed.
pub fn receive(socket: BorrowedFd) -> io::Result<Option<(SpawnerMessage, Option<OwnedFd>)>> {
    let mut buffer = [0; MAX_MESSAGE];
    let Some((length, passed)) = packet::receive(socket, &mut buffer, false)? else {
        return Ok(None);
    };
    let message = postcard::from_bytes(&buffer[..length]).map_err(io::Error::other)?;
    Ok(Some((message, passed)))
}

/// Sends a message to noded. False if it has to be sent again; true also when noded is gone.
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

/// Sends a message to noded. Fails when noded is gone, or has no room for the message now.
pub fn deliver(noded: &OwnedFd, message: &SpawnerMessage) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    packet::send(noded.as_fd(), &bytes, None, false)
}
