//! Reserved disk space for a full disk: the spool's log owns space beyond its end, so that ends of
//! jobs and deletions can still be written while new jobs are refused and none start.
//!
//! Unlike a placeholder file to delete, this space cannot be lost to other writers.

use crate::spool::SpoolError;
use crate::sys::filesystem;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Size of the reserve: enough for thousands of job ends.
const RESERVE_BYTES: u64 = 4 << 20;

/// The reserved space beyond the log's end.
pub struct Reserve {
    log: PathBuf,
    /// Why it is incomplete; None if it is complete.
    lack: Option<SpoolError>,
    /// Whether the last renewal failed for lack of file descriptors.
    unknown: bool,
}

impl Reserve {
    /// Reserves space for this log, if the disk has room.
    pub fn of(log: PathBuf) -> Reserve {
        let mut reserve = Reserve {
            log,
            lack: None,
            unknown: false,
        };
        reserve.renew();
        reserve
    }

    /// Whether the reserve is complete. If not, only commitments to running jobs may be written.
    pub fn is_whole(&self) -> bool {
        self.lack.is_none()
    }

    /// Why it is incomplete.
    pub fn lack(&self) -> Option<&SpoolError> {
        self.lack.as_ref()
    }

    /// Restores the used part of the reserve, if the disk has room.
    pub fn renew(&mut self) {
        let lack = match filesystem::preallocate(&self.log, RESERVE_BYTES) {
            Ok(()) => None,
            // Some file systems do not support preallocation.
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::NotFound) => {
                (!has_room(&self.log)).then_some(SpoolError::Full)
            }
            // This is no problem of the disk, and the spool's own files are open.
            Err(error) if filesystem::lacks_descriptors(&error) => return self.note_unknown(),
            Err(error) => Some(SpoolError::of_file(error, self.folder())),
        };
        self.unknown = false;
        match lack {
            Some(why) => self.used(why),
            None if self.lack.take().is_some() => {
                tracing::info!("the spool has enough disk space again")
            }
            None => {}
        }
    }

    /// Records that the disk is full or unwritable, for this reason.
    pub fn used(&mut self, why: SpoolError) {
        if self.lack.is_none() {
            tracing::error!("{why}; until then new jobs are refused and none start");
        }
        self.lack = Some(why);
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
    fn a_reserve_is_whole_again_once_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        std::fs::write(&log, "x").unwrap();
        let mut reserve = Reserve::of(log);
        assert!(reserve.is_whole());
        reserve.used(SpoolError::Full);
        assert!(!reserve.is_whole());
        reserve.renew();
        assert!(reserve.is_whole());
    }
}
