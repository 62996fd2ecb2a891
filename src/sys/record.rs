//! The record of the spool (schedd's database): the process that has locked the spool, and the
//! socket of that process. Clients read the record to find schedd.

use super::home::Home;
use super::{clock, filesystem};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// The process that has locked the spool. That process writes the record when it listens. After a
/// crash of the process, the record remains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolRecord {
    /// The name of the process's host, for messages.
    pub host: String,
    /// The identity of the process's host (see [`machine`]).
    pub machine: String,
    /// The boot id of the host's kernel.
    pub boot: String,
    /// The pid of the process.
    pub pid: u32,
    /// The path of the process's socket.
    pub socket: PathBuf,
}

/// Reads the record of the process that has locked the spool, or did so last. None if there is no
/// valid record.
pub fn read(home: &Home) -> Option<SpoolRecord> {
    serde_json::from_str(&std::fs::read_to_string(home.record()).ok()?).ok()
}

/// Writes the record of this process, which must have locked the spool.
pub fn write(home: &Home, socket: &Path) -> io::Result<()> {
    let record = SpoolRecord {
        host: host(),
        machine: machine(),
        boot: clock::boot_id(),
        pid: std::process::id(),
        socket: socket.to_path_buf(),
    };
    filesystem::replace(&home.record(), &serde_json::to_vec_pretty(&record)?, 0o644)
}

/// Removes the record. Called when the daemon exits normally.
pub fn erase(home: &Home) {
    let _ = std::fs::remove_file(home.record());
}

/// This host's name.
pub fn host() -> String {
    nix::unistd::gethostname()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_else(|_| "localhost".into())
}

/// The identity of this host: the machine id, else the host's name. Machine ids differ even if
/// hosts have the same name.
pub fn machine() -> String {
    let test = if cfg!(debug_assertions) {
        crate::sys::env::text("LANAI_TEST_MACHINE")
    } else {
        None
    };
    let id = test.or_else(|| std::fs::read_to_string("/etc/machine-id").ok());
    id.map(|id| id.trim().to_string())
        .filter(|id| !id.is_empty())
        .unwrap_or_else(host)
}
