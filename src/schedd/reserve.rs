//! Disk set aside for the day the disk is full: given up then, so that ends of jobs and deletions
//! can still be written while new jobs are refused.

use crate::sys::filesystem;
use crate::sys::home::Home;
use std::path::PathBuf;

/// How much: the rows of thousands of ends.
const BYTES: u64 = 4 << 20;

/// A file of zeros.
pub struct Reserve {
    file: PathBuf,
    held: bool,
}

impl Reserve {
    /// Sets the reserve aside, if there is room.
    pub fn of(home: &Home) -> Reserve {
        let mut reserve = Reserve { file: home.spool().join("reserve"), held: false };
        reserve.renew();
        reserve
    }

    /// Sets it aside again, once there is room.
    pub fn renew(&mut self) {
        if self.held {
            return;
        }
        self.held = filesystem::set_aside(&self.file, BYTES).is_ok();
        if !self.held {
            let _ = std::fs::remove_file(&self.file);
        }
    }

    /// Gives it up.
    pub fn release(&mut self) {
        let _ = std::fs::remove_file(&self.file);
        self.held = false;
    }
}
