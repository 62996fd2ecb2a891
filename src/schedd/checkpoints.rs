//! Emptying the spool's log beside the tick, on a thread and a checkpointer of its own.

use crate::spool::Checkpointer;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// The log is copied into the database after so many commits.
const COMMITS: u32 = 200;

/// The thread that empties the log.
pub struct Checkpoints {
    bell: SyncSender<()>,
    commits: u32,
}

impl Checkpoints {
    /// Starts it.
    pub fn start(file: PathBuf) -> std::io::Result<Checkpoints> {
        let (bell, rings) = sync_channel(1);
        thread::Builder::new().name("checkpoints".into()).spawn(move || run(&rings, &file))?;
        Ok(Checkpoints { bell, commits: 0 })
    }

    /// One more commit.
    pub fn committed(&mut self) {
        self.commits += 1;
        if self.commits >= COMMITS && self.bell.try_send(()).is_ok() {
            self.commits = 0;
        }
    }
}

fn run(rings: &Receiver<()>, file: &Path) {
    let mut checkpointer = None;
    while rings.recv().is_ok() {
        if checkpointer.is_none() {
            checkpointer = Checkpointer::open(file).ok();
        }
        let done = checkpointer.as_ref().map(Checkpointer::checkpoint);
        if let Some(Err(error)) = done {
            tracing::debug!("the spool's log was not emptied: {error}");
        }
    }
}
