//! The standard error of a program: kept in memory up to a limit, for its last line.

use crate::sys::process;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

/// The size limit in bytes, and the length limit of the reported line in characters.
const MAX_SIZE: u64 = 64 << 10;
pub(super) const MAX_LINE: usize = 300;

/// The stored standard error.
#[derive(Debug)]
pub struct StandardError(File);

impl StandardError {
    /// An empty store.
    pub fn new() -> io::Result<StandardError> {
        process::scratch(MAX_SIZE).map(StandardError)
    }

    /// The standard error for a child process.
    pub fn stdio(&self) -> io::Result<Stdio> {
        Ok(self.0.try_clone()?.into())
    }

    /// The last line; None if there is none.
    pub fn last(&self) -> Option<String> {
        let mut bytes = vec![0; MAX_SIZE as usize];
        let length = self.0.read_at(&mut bytes, 0).ok()?;
        let text = String::from_utf8_lossy(&bytes[..length]);
        let last = text.trim_end_matches('\0').trim_end().lines().next_back()?;
        let plain = last
            .trim()
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c });
        Some(plain.take(MAX_LINE).collect::<String>()).filter(|line| !line.is_empty())
    }
}
