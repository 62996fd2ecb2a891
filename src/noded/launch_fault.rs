//! The reason why a job cannot start.

use crate::model::job::How;
use crate::wire::message::Payload;
use crate::wire::order::Launch;
use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// The reason why a job cannot start. The variant shows who can correct the fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaunchFault {
    /// The job's owner can correct the fault. The text of a failed file operation is `role of the
    /// file: path: error`.
    Owner(String),
    /// The administrator of this node can correct the fault. The job is started again later.
    Node(String),
}

impl LaunchFault {
    /// The fault of a file operation that failed with `error`. `what` is the role of the file.
    pub fn of(what: &str, on: &Path, error: Errno) -> LaunchFault {
        let text = format!("{what}: {}: {}", on.display(), error.desc());
        match error {
            Errno::ENOMEM
            | Errno::EAGAIN
            | Errno::EMFILE
            | Errno::ENFILE
            | Errno::EIO
            | Errno::ENOSPC => LaunchFault::Node(text),
            _ => LaunchFault::Owner(text),
        }
    }

    /// Returns a function that converts an error of the operation `what` to a fault of this node.
    pub fn node(what: &'static str) -> impl Fn(io::Error) -> LaunchFault {
        move |error| LaunchFault::Node(format!("{what}: {error}"))
    }

    /// The text for the job's error file.
    pub fn text(&self) -> &str {
        match self {
            LaunchFault::Owner(text) | LaunchFault::Node(text) => text,
        }
    }

    /// The outcome of an attempt that failed with this fault.
    pub fn into_outcome(self, launch: &Launch) -> How {
        let status = match launch.payload {
            Payload::Command(_) => 254,
            Payload::Script(_) if launch.shell.is_some() => 254,
            Payload::Script(_) => 127,
        };
        match self {
            LaunchFault::Owner(why) => How::CannotStart { status, why },
            LaunchFault::Node(why) => How::NodeFault(why),
        }
    }
}
