//! The standard error of a program. Its beginning is stored in memory, to report the last line.

use crate::sys::process;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

/// Maximum size of the stored standard error in bytes.
const MAX_SIZE: u64 = 64 << 10;
/// Maximum length of the reported line in characters.
pub(super) const MAX_LINE: usize = 300;

/// The stored standard error.
#[derive(Debug)]
pub struct StandardError(File);

impl StandardError {
    /// Creates an empty file in memory.
    pub fn new() -> io::Result<StandardError> {
        process::fixed_size_file(MAX_SIZE).map(StandardError)
    }

    /// The descriptor that becomes the standard error of a child process.
    pub fn stdio(&self) -> io::Result<Stdio> {
        Ok(self.0.try_clone()?.into())
    }

    /// The last line with text in the stored beginning, shortened to `MAX_LINE` characters; None if
    /// there is none.
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
