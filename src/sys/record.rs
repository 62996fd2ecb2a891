//! The record next to the spool: the process that holds the spool, and its socket. Clients read it.

use super::home::Home;
use super::{clock, filesystem};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// The holder of the spool. The holder writes it when it listens; a crash leaves it behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolRecord {
    /// The host's name, for messages.
    pub host: String,
    /// The host's identity: its machine id, else its name.
    pub machine: String,
    /// The kernel's boot id.
    pub boot: String,
    /// The daemon's pid.
    pub pid: u32,
    /// Its socket.
    pub socket: PathBuf,
}

/// The record of the current or last holder of the spool.
pub fn read(home: &Home) -> Option<SpoolRecord> {
    serde_json::from_str(&std::fs::read_to_string(home.record()).ok()?).ok()
}

/// Writes the record. The caller must hold the lock.
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

/// Removes the record at an orderly exit.
pub fn erase(home: &Home) {
    let _ = std::fs::remove_file(home.record());
}

/// This host's name.
pub fn host() -> String {
    nix::unistd::gethostname()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_else(|_| "localhost".into())
}

/// The identity of this host, unique even among hosts of the same name.
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
