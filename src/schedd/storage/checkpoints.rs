//! Emptying the spool's log beside the tick, on a thread and a checkpointer of its own.
//!
//! What is committed meanwhile is left over; that little the writer copies itself, so that the log
//! begins anew: one that only grows costs every commit a change of the file's size.

use crate::spool::Checkpointer;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// The log is copied into the database after so many commits.
const COMMITS: u32 = 200;

/// The thread that empties the log.
pub struct Checkpoints {
    bell: SyncSender<()>,
    commits: u32,
    /// The thread is through with the log as it was.
    done: Arc<AtomicBool>,
}

impl Checkpoints {
    /// Starts it.
    pub fn start(file: PathBuf) -> std::io::Result<Checkpoints> {
        let (bell, rings) = sync_channel(1);
        let done = Arc::new(AtomicBool::new(false));
        let says = done.clone();
        thread::Builder::new()
            .name("checkpoints".into())
            .spawn(move || run(&rings, &file, &says))?;
        Ok(Checkpoints {
            bell,
            commits: 0,
            done,
        })
    }

    /// One more commit.
    pub fn committed(&mut self) {
        self.commits += 1;
        if self.commits >= COMMITS && self.bell.try_send(()).is_ok() {
            self.commits = 0;
        }
    }

    /// Whether the thread has just left little of the log; asked once.
    pub fn take_done(&self) -> bool {
        self.done.swap(false, Ordering::Relaxed)
    }
}

fn run(rings: &Receiver<()>, file: &Path, says: &AtomicBool) {
    let mut checkpointer = None;
    while rings.recv().is_ok() {
        if checkpointer.is_none() {
            checkpointer = Checkpointer::open(file).ok();
        }
        let done = checkpointer.as_ref().map(Checkpointer::checkpoint);
        says.store(matches!(done, Some(Ok(()))), Ordering::Relaxed);
        if let Some(Err(error)) = done {
            tracing::debug!("the spool's log was not emptied: {error}");
        }
    }
}
