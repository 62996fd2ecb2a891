//! Checkpoints the write-ahead log of the spool (SQLite) in a separate thread, outside the event
//! loop.
//!
//! Without checkpoints the log would grow, and a growing log slows down each commit. Commits during
//! a checkpoint remain in the log. schedd's own connection copies these commits to the database
//! after the checkpoint; then the log restarts at its beginning.

use crate::spool::Checkpointer;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Minimum number of commits between checkpoints.
const CHECKPOINT_COMMITS: u32 = 200;

/// Controls the checkpoint thread.
pub struct Checkpoints {
    trigger: SyncSender<()>,
    commits: u32,
    /// Set when the thread has completed a checkpoint.
    done: Arc<AtomicBool>,
}

impl Checkpoints {
    /// Starts the thread.
    pub fn start(file: PathBuf) -> std::io::Result<Checkpoints> {
        let (trigger, requests) = sync_channel(1);
        let done = Arc::new(AtomicBool::new(false));
        let completed = done.clone();
        thread::Builder::new()
            .name("checkpoints".into())
            .spawn(move || run(&requests, &file, &completed))?;
        Ok(Checkpoints {
            trigger,
            commits: 0,
            done,
        })
    }

    /// Counts a commit, and starts a checkpoint if one is due.
    pub fn committed(&mut self) {
        self.commits += 1;
        if self.commits >= CHECKPOINT_COMMITS && self.trigger.try_send(()).is_ok() {
            self.commits = 0;
        }
    }

    /// Whether a checkpoint has completed since the last call.
    pub fn take_done(&self) -> bool {
        self.done.swap(false, Ordering::Relaxed)
    }
}

fn run(requests: &Receiver<()>, file: &Path, completed: &AtomicBool) {
    let mut checkpointer = None;
    while requests.recv().is_ok() {
        if checkpointer.is_none() {
            checkpointer = Checkpointer::open(file).ok();
        }
        let done = checkpointer.as_ref().map(Checkpointer::checkpoint);
        completed.store(matches!(done, Some(Ok(()))), Ordering::Relaxed);
        if let Some(Err(error)) = done {
            tracing::debug!("cannot checkpoint the spool's write-ahead log: {error}");
        }
    }
}
