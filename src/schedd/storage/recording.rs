//! The file of `[cycle] record`, which records the input and plan of each scheduling cycle as lines
//! of JSON, for `qsim check --recorded`. A write error never affects scheduling: recording stops,
//! and the error is logged.

use crate::sched::view::change::RecordedEntry;
use crate::server::scheduler_view::Recorder;
use nix::libc::O_NONBLOCK;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// An open recording.
pub struct Recording {
    path: PathBuf,
    /// None when recording has stopped.
    file: Option<BufWriter<File>>,
    /// Number of bytes by which the file may still grow.
    bytes_left: u64,
}

impl Recording {
    /// Opens a recording to append to it, or creates a file that only its owner can read. The file
    /// may grow to `limit` bytes. If it cannot be opened, or is not a regular file, logs the error
    /// and returns None.
    pub fn open(path: &Path, limit: u64) -> Option<Recording> {
        let mut options = OpenOptions::new();
        // If the path is a pipe, opening it without O_NONBLOCK would block.
        options
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(O_NONBLOCK);
        let file = options.open(path);
        let opened = file.and_then(|file| Ok((file.metadata()?, file)));
        match opened {
            Ok((facts, _)) if !facts.is_file() => {
                tracing::error!(
                    "{}: cannot record scheduling cycles: not a regular file",
                    path.display()
                )
            }
            Ok((facts, file)) => {
                let is_partial = facts.len() > 0 && !ends_a_line(&file, facts.len());
                let (file, bytes_left) = (
                    Some(BufWriter::new(file)),
                    limit.saturating_sub(facts.len()),
                );
                let mut recording = Recording {
                    path: path.to_path_buf(),
                    file,
                    bytes_left,
                };
                if is_partial {
                    recording.write(b"");
                }
                return Some(recording);
            }
            Err(error) => tracing::error!(
                "{}: cannot record scheduling cycles: {error}",
                path.display()
            ),
        }
        None
    }
}

impl Recorder for Recording {
    /// Appends a line. If the file would exceed its limit, appends a last line that marks its end,
    /// and stops recording.
    fn write(&mut self, line: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let needed = line.len() as u64 + 1;
        let full = serde_json::to_vec(&RecordedEntry::Full).unwrap_or_default();
        let last = full.len() as u64 + 1;
        let is_full = needed + last > self.bytes_left;
        let written = if !is_full {
            write_line(file, line)
        } else if last <= self.bytes_left {
            write_line(file, &full)
        } else {
            Ok(())
        };
        self.bytes_left = self.bytes_left.saturating_sub(needed);
        match written {
            Ok(()) if !is_full => return,
            Ok(()) => tracing::warn!(
                "{}: recording of scheduling cycles stopped: the file has reached record_size",
                self.path.display()
            ),
            Err(error) => tracing::error!("{}: recording stopped: {error}", self.path.display()),
        }
        self.flush();
        self.file = None;
    }

    /// Passes the written lines to the operating system.
    fn flush(&mut self) {
        if let Some(Err(error)) = self.file.as_mut().map(Write::flush) {
            tracing::error!("{}: recording stopped: {error}", self.path.display());
            self.file = None;
        }
    }
}

/// Whether the last line of a file is complete. A killed schedd or a full disk can leave a partial
/// line.
fn ends_a_line(file: &File, length: u64) -> bool {
    let mut last = [0];
    file.read_exact_at(&mut last, length - 1).is_ok() && last == *b"\n"
}

fn write_line(file: &mut impl Write, line: &[u8]) -> io::Result<()> {
    file.write_all(line)?;
    file.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_last_line_is_ended_before_the_next_line_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        for torn in ["", "\"who", "\"whole\"\n"] {
            std::fs::write(&path, torn).unwrap();
            let mut recording = Recording::open(&path, 1000).unwrap();
            recording.write(b"\"next\"");
            recording.flush();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.lines().last(), Some("\"next\""), "{torn}");
            assert_eq!(
                text.lines().count(),
                1 + usize::from(!torn.is_empty()),
                "{torn}"
            );
        }
        nix::unistd::mkfifo(&folder.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(Recording::open(&folder.path().join("pipe"), 100).is_none());
    }

    #[test]
    fn a_recording_stays_within_its_limit_and_ends_with_a_mark() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        for _ in 0..3 {
            let mut recording = Recording::open(&path, 100).unwrap();
            (0..9).for_each(|_| recording.write(b"\"0123456789012345678\""));
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.len() <= 100 && text.lines().last() == Some("\"full\""),
            "{text}"
        );
        assert!(Recording::open(folder.path(), 100).is_none());
    }
}
