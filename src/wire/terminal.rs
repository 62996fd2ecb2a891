//! Messages between `qsub -I` and its job's shepherd, on a connection that schedd and noded have
//! set up and are not involved in.
//!
//! qsub sends the first message, with its window size: before that the job's terminal is not read,
//! and its program does not start.

use crate::sys::terminal::TerminalSize;
use serde::{Deserialize, Serialize};

/// A message of qsub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TerminalInput {
    /// The window size: the first message, and after every change.
    Window(TerminalSize),
    /// Typed bytes.
    Typed(Vec<u8>),
}

/// A message of the shepherd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TerminalOutput {
    /// Output bytes.
    Shown(Vec<u8>),
    /// The job has ended; the last message.
    Over {
        /// `Exit_status`, as known to the shepherd.
        status: i32,
    },
}

/// Number of bytes that either side buffers for the other before it stops reading.
pub const AHEAD: usize = 64 << 10;
