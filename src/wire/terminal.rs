//! What `qsub -I` and the shepherd of its job say to each other, on a connection that schedd and
//! noded have made for them and take no further part in.
//!
//! qsub speaks first, with the size of its window: before that nothing is read from the job's
//! terminal, and its program does not even start.

use crate::sys::terminal::TerminalSize;
use serde::{Deserialize, Serialize};

/// What the person's side says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TerminalInput {
    /// The window has this size: first of all, and whenever it changes.
    Window(TerminalSize),
    /// Bytes that were typed.
    Typed(Vec<u8>),
}

/// What the job's side says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TerminalOutput {
    /// Bytes to be shown.
    Shown(Vec<u8>),
    /// The job is over: nothing follows.
    Over {
        /// `Exit_status`, as far as the shepherd can tell.
        status: i32,
    },
}

/// How many bytes either side keeps for the other before it stops reading more.
pub const AHEAD: usize = 64 << 10;
