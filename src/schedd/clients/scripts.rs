//! Stores large job scripts in a separate thread, one after the other. Thus the event loop neither
//! hashes these scripts nor waits until they are on disk.
//!
//! A submission waits until its script is on disk. Then it continues as a request with the script's
//! digest, and is answered when the job is on disk, too. The request holds a reference to the
//! stored script (a lease). When the last reference is dropped, the job is on disk or was refused;
//! then a script without a job is removed.

use crate::server::caller::Caller;
use crate::server::effects::Token;
use crate::spool::scripts;
use crate::spool::{SpoolError, SpoolReader};
use crate::sys::home::Home;
use crate::wire::message::{NewJob, Payload, StoredScript};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Maximum number of waiting submissions with large scripts. Further submissions with large scripts
/// are not read from their connections.
const MAX_WAITING: usize = 8;
/// Maximum number of waiting submissions with large scripts of one user.
const MAX_WAITING_PER_USER: usize = 2;

/// Interval of checks for dropped references, while there are references.
const LEASE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Controls the thread that stores scripts.
pub struct Scripts {
    tasks: Sender<ScriptTask>,
    results: Receiver<Stored>,
    /// Becomes readable when there is a result.
    wakeup: UnixStream,
    /// Number of waiting submissions per user.
    waiting: BTreeMap<u32, usize>,
}

enum ScriptTask {
    Store(Pending),
    /// Remove the scripts that no job uses.
    Sweep,
}

/// A submission with a script to store.
struct Pending {
    token: Token,
    caller: Caller,
    submission: Box<NewJob>,
}

/// A submission after its script was stored, or could not be stored.
pub struct Stored {
    /// The waiting client.
    pub token: Token,
    /// The client's user.
    pub caller: Caller,
    /// The submission, or why its script was not stored.
    pub submission: Result<Box<NewJob>, SpoolError>,
}

impl Scripts {
    /// Starts the thread.
    pub fn start(home: &Home) -> io::Result<Scripts> {
        let (tasks, to_do) = channel();
        let (done, results) = channel();
        let (wakeup, far) = UnixStream::pair()?;
        wakeup.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        let worker = Worker {
            tasks: to_do,
            results: done,
            wakeup: far,
            scripts: scripts::ScriptFolder::of(&home.spool()),
            database: crate::spool::file(home),
            leases: Vec::new(),
        };
        thread::Builder::new()
            .name("scripts".into())
            .spawn(move || worker.run())?;
        Ok(Scripts {
            tasks,
            results,
            wakeup,
            waiting: BTreeMap::new(),
        })
    }

    /// Queues a submission until its script is stored.
    pub fn store(&mut self, token: Token, caller: Caller, submission: Box<NewJob>) {
        *self.waiting.entry(caller.owner.uid).or_default() += 1;
        let _ = self.tasks.send(ScriptTask::Store(Pending {
            token,
            caller,
            submission,
        }));
    }

    /// Makes the thread remove the scripts that no job uses, such as those of jobs that have left
    /// the history.
    pub fn sweep(&self) {
        let _ = self.tasks.send(ScriptTask::Sweep);
    }

    /// Takes the submissions with scripts that were stored, or could not be stored.
    pub fn take_stored(&mut self) -> Vec<Stored> {
        let mut bytes = [0; 64];
        while self.wakeup.read(&mut bytes).is_ok_and(|count| count > 0) {}
        let stored: Vec<Stored> = self.results.try_iter().collect();
        for uid in stored.iter().map(|stored| stored.caller.owner.uid) {
            match self.waiting.get_mut(&uid) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.waiting.remove(&uid)),
            }
        }
        stored
    }

    /// Whether the limits on waiting submissions allow no further large script of a user.
    pub fn is_full_for(&self, uid: u32) -> bool {
        let own = self.waiting.get(&uid).copied().unwrap_or(0);
        own >= MAX_WAITING_PER_USER || self.waiting.values().sum::<usize>() >= MAX_WAITING
    }

    /// Whether no submission waits.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl AsFd for Scripts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}

/// The state of the thread, the only writer to the script directory.
struct Worker {
    tasks: Receiver<ScriptTask>,
    results: Sender<Stored>,
    wakeup: UnixStream,
    scripts: scripts::ScriptFolder,
    database: PathBuf,
    /// The scripts to which requests can still refer.
    leases: Vec<Arc<StoredScript>>,
}

impl Worker {
    fn run(mut self) {
        // Removes scripts of jobs that an earlier schedd did not commit.
        self.sweep();
        while let Ok(task) = self.next_task() {
            match task {
                Some(ScriptTask::Store(pending)) => self.store(pending),
                Some(ScriptTask::Sweep) => self.sweep(),
                None => {}
            }
            self.end_leases();
        }
    }

    /// Waits for the next task. None when leases must be checked; an error when schedd exits.
    fn next_task(&self) -> Result<Option<ScriptTask>, RecvTimeoutError> {
        if self.leases.is_empty() {
            return self
                .tasks
                .recv()
                .map(Some)
                .map_err(|_| RecvTimeoutError::Disconnected);
        }
        match self.tasks.recv_timeout(LEASE_CHECK_INTERVAL) {
            Ok(task) => Ok(Some(task)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn store(
        &mut self,
        Pending {
            token,
            caller,
            mut submission,
        }: Pending,
    ) {
        let stored = match std::mem::replace(&mut submission.payload, Payload::Script(Vec::new())) {
            Payload::Script(text) => self.lease(&text).map(Some),
            Payload::Command(_) => Ok(None),
        };
        let submission = stored.map(|stored| {
            submission.stored = stored;
            submission
        });
        let _ = self.results.send(Stored {
            token,
            caller,
            submission,
        });
        // If the socket's buffer is full, the event loop will wake up anyway.
        let _ = (&self.wakeup).write(&[1]);
    }

    fn lease(&mut self, text: &[u8]) -> Result<Arc<StoredScript>, SpoolError> {
        let digest = self.scripts.store(text)?;
        let lease = Arc::new(StoredScript {
            digest,
            size: text.len(),
        });
        self.leases.push(lease.clone());
        Ok(lease)
    }

    /// Removes the scripts to which no request refers any more, unless a job uses them.
    fn end_leases(&mut self) {
        let mut ended = Vec::new();
        for mut lease in std::mem::take(&mut self.leases) {
            // Unlike `strong_count`, `get_mut` synchronizes with the last drop of a reference, and
            // so with the commit of the job.
            match Arc::get_mut(&mut lease) {
                Some(script) => ended.push(script.digest),
                None => self.leases.push(lease),
            }
        }
        for digest in ended {
            if self.leases.iter().any(|lease| lease.digest == digest) {
                continue;
            }
            let has_job = SpoolReader::open(&self.database).and_then(|reader| match reader {
                Some(reader) => reader.has_script(digest),
                None => Ok(true),
            });
            match has_job {
                Ok(true) => {}
                Ok(false) => log(self.scripts.remove(digest)),
                error => log(error.map(drop)),
            }
        }
    }

    fn sweep(&self) {
        let removed = self.scripts.remove_unused(&self.database, |digest| {
            self.leases.iter().any(|lease| lease.digest == digest)
        });
        log(removed);
    }
}

/// Logs a failed removal. A later sweep removes the scripts.
fn log(removed: Result<(), SpoolError>) {
    if let Err(error) = removed {
        tracing::warn!("cannot remove unused job scripts: {error}");
    }
}
