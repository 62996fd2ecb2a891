//! Room on disk for the day the disk is full: the spool's log owns some beyond its end, so that
//! ends of jobs and deletions can still be written while new jobs are refused and none start.
//!
//! Nobody can take that room away meanwhile, as they could if a file were given up for it.

use crate::spool::SpoolError;
use crate::sys::filesystem;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// How much: the rows of thousands of ends.
const BYTES: u64 = 4 << 20;

/// The room beyond the log's end.
pub struct Reserve {
    log: PathBuf,
    /// Why it is not there in full.
    lack: Option<SpoolError>,
    /// The last attempt to renew it found no file descriptor.
    unknown: bool,
}

impl Reserve {
    /// The reserve of the spool whose log this is, set aside if there is room.
    pub fn of(log: PathBuf) -> Reserve {
        let mut reserve = Reserve {
            log,
            lack: None,
            unknown: false,
        };
        reserve.renew();
        reserve
    }

    /// Whether it is there in full. If not, only what keeps a promise may be written.
    pub fn is_whole(&self) -> bool {
        self.lack.is_none()
    }

    /// Why it is not there in full.
    pub fn lack(&self) -> Option<&SpoolError> {
        self.lack.as_ref()
    }

    /// Sets aside what has been used of it, if there is room.
    pub fn renew(&mut self) {
        let lack = match filesystem::allot(&self.log, BYTES) {
            Ok(()) => None,
            // Not on every file system can a file own more than it holds.
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::NotFound) => {
                (!has_room(&self.log)).then_some(SpoolError::Full)
            }
            // This says nothing about the disk, and the spool's own files are open.
            Err(error) if filesystem::lacks_descriptors(&error) => return self.note_unknown(),
            Err(error) => Some(SpoolError::of_file(error, self.folder())),
        };
        self.unknown = false;
        match lack {
            Some(why) => self.used(why),
            None if self.lack.take().is_some() => tracing::info!("the spool has room again"),
            None => {}
        }
    }

    /// The disk takes no more, for this reason.
    pub fn used(&mut self, why: SpoolError) {
        if self.lack.is_none() {
            tracing::error!("{why}; until then new jobs are refused and none are started");
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
        .is_some_and(|folder| filesystem::free(folder).is_ok_and(|free| free >= BYTES))
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
