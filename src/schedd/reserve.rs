//! Room on disk for the day the disk is full: the spool's log owns some beyond its end, so that
//! ends of jobs and deletions can still be written while new jobs are refused and none start.
//!
//! Nobody can take that room away meanwhile, as they could if a file were given up for it.

use crate::sys::filesystem;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// How much: the rows of thousands of ends.
const BYTES: u64 = 4 << 20;

/// The room beyond the log's end.
pub struct Reserve {
    log: PathBuf,
    whole: bool,
}

impl Reserve {
    /// The reserve of the spool whose log this is, set aside if there is room.
    pub fn of(log: PathBuf) -> Reserve {
        let mut reserve = Reserve { log, whole: true };
        reserve.renew();
        reserve
    }

    /// Whether it is there in full. If not, only what keeps a promise may be written.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Sets aside what has been used of it, if there is room.
    pub fn renew(&mut self) {
        let whole = match filesystem::allot(&self.log, BYTES) {
            Ok(()) => true,
            // Not on every file system can a file own more than it holds.
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::NotFound) => has_room(&self.log),
            Err(_) => false,
        };
        match (self.whole, whole) {
            (true, false) => self.used(),
            (false, true) => tracing::info!("the disk has room again"),
            _ => {}
        }
        self.whole = whole;
    }

    /// The disk took nothing more: all of it is in use.
    pub fn used(&mut self) {
        if self.whole {
            tracing::error!("the disk is full: new jobs are refused and none are started");
        }
        self.whole = false;
    }
}

fn has_room(log: &Path) -> bool {
    log.parent().is_some_and(|folder| filesystem::free(folder).is_ok_and(|free| free >= BYTES))
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
        reserve.used();
        assert!(!reserve.is_whole());
        reserve.renew();
        assert!(reserve.is_whole());
    }
}
