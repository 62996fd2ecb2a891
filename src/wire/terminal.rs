//! Messages between `qsub -I` and the shepherd of its job: the process on the node that watches the
//! job. schedd and noded set up the connection; the messages do not pass through them.
//!
//! qsub sends the first message, which contains its window size. Before this message, the shepherd
//! neither starts the job's program nor reads the terminal.

use crate::sys::terminal::TerminalSize;
use serde::{Deserialize, Serialize};

/// A message of qsub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TerminalInput {
    /// The window size. qsub sends it first, and after every change.
    Window(TerminalSize),
    /// Bytes that the user typed.
    Typed(Vec<u8>),
}

/// A message of the shepherd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TerminalOutput {
    /// Bytes that the job wrote to the terminal.
    Shown(Vec<u8>),
    /// The job has ended. This is the last message.
    Over {
        /// `Exit_status`, as computed by the shepherd.
        status: i32,
    },
}

/// Limit of each buffer of an interactive session, in bytes. While a buffer is full, qsub or the
/// shepherd reads nothing more from the source of this buffer.
pub const AHEAD: usize = 64 << 10;
