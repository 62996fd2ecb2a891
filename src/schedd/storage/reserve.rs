//! Reserved disk space. The log file of the spool (schedd's database) has allocated blocks beyond
//! its end. If the disk is full, ends and deletions of jobs can still be written there, while new
//! jobs are refused and no jobs start.
//!
//! A placeholder file would not do, because another program could take the space as soon as schedd
//! deletes the file.

use crate::spool::SpoolError;
use crate::sys::filesystem;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Size of the reserve: enough for thousands of job ends.
const RESERVE_BYTES: u64 = 4 << 20;

/// The reserved space beyond the log's end.
pub struct Reserve {
    log: PathBuf,
    /// Why the reserve is incomplete; None if it is complete.
    why_incomplete: Option<SpoolError>,
    /// Whether the last renewal failed because schedd had no free file descriptors.
    unknown: bool,
}

impl Reserve {
    /// Reserves space for this log, if the disk has enough free space.
    pub fn of(log: PathBuf) -> Reserve {
        let mut reserve = Reserve {
            log,
            why_incomplete: None,
            unknown: false,
        };
        reserve.renew();
        reserve
    }

    /// Whether the reserve is complete. While it is incomplete, schedd accepts and starts no jobs.
    pub fn is_complete(&self) -> bool {
        self.why_incomplete.is_none()
    }

    /// Why the reserve is incomplete; None if it is complete.
    pub fn why_incomplete(&self) -> Option<&SpoolError> {
        self.why_incomplete.as_ref()
    }

    /// Restores the used part of the reserve, if the disk has enough free space.
    pub fn renew(&mut self) {
        let why_incomplete = match filesystem::preallocate(&self.log, RESERVE_BYTES) {
            Ok(()) => None,
            // If the file system does not support preallocation, or the log does not exist yet,
            // only the free space is checked.
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::NotFound) => {
                (!has_room(&self.log)).then_some(SpoolError::Full)
            }
            // Without free descriptors the reserve cannot be checked, and its state stays
            // unchanged. schedd can still write to the spool, because the spool's files are open
            // already.
            Err(error) if filesystem::lacks_descriptors(&error) => return self.note_unknown(),
            Err(error) => Some(SpoolError::of_file(error, self.folder())),
        };
        self.unknown = false;
        match why_incomplete {
            Some(why) => self.mark_incomplete(why),
            None if self.why_incomplete.take().is_some() => {
                tracing::info!("the spool has enough disk space again")
            }
            None => {}
        }
    }

    /// Marks the reserve as incomplete, because the disk is full or cannot be written.
    pub fn mark_incomplete(&mut self, why: SpoolError) {
        if self.why_incomplete.is_none() {
            tracing::error!("{why}; meanwhile schedd refuses new jobs and starts no jobs");
        }
        self.why_incomplete = Some(why);
    }

    fn note_unknown(&mut self) {
        if !std::mem::replace(&mut self.unknown, true) {
            tracing::error!("{}", SpoolError::Descriptors);
        }
    }

    fn folder(&self) -> &Path {
        self.log.parent().unwrap_or(&self.log)
    }
}

fn has_room(log: &Path) -> bool {
    log.parent()
        .is_some_and(|folder| filesystem::free(folder).is_ok_and(|free| free >= RESERVE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewing_completes_the_reserve_if_the_disk_has_space() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        std::fs::write(&log, "x").unwrap();
        let mut reserve = Reserve::of(log);
        assert!(reserve.is_complete());
        reserve.mark_incomplete(SpoolError::Full);
        assert!(!reserve.is_complete());
        reserve.renew();
        assert!(reserve.is_complete());
    }
}
