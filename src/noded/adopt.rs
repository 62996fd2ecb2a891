//! The state of an attempt as its directory records it: running under its shepherd, ended, or lost.

use super::folder::{Folder, Identity, ProcessTrace};
use super::site::Site;
use super::sweep::{self, Frozen};
use super::tmpdir;
use crate::model::job::AttemptOutcome;
use crate::model::time::Span;
use crate::sys::cgroup::Cgroup;
use crate::sys::process::{self, Fork};
use crate::sys::procfs;
use nix::libc::{EINVAL, ENOENT, ESRCH};
use nix::sys::signal::Signal;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tracing::{error, warn};

/// Maximum time to wait until the killed processes of a lost shepherd have left their cgroup.
const EXIT_TIMEOUT: Span = Span::seconds(3);
/// Maximum number of passes over the processes. A pass finds processes that were forked while the
/// previous pass stopped others.
const MAX_PASSES: usize = 100;

/// The state of an attempt.
#[derive(Debug)]
pub enum AdoptedAttempt {
    /// The shepherd is alive.
    Alive {
        /// A pidfd of the shepherd, which becomes readable when the shepherd ends.
        ended: OwnedFd,
        /// The job's session; None if its first process has not been forked yet.
        session: Option<u32>,
        /// Whether all processes of the job are suspended by order.
        stopped: bool,
    },
    /// The attempt has ended.
    Ended(AttemptOutcome),
    /// The shepherd has ended without recording an outcome.
    Lost,
    /// The state cannot be read. The caller must change nothing and try again later.
    Unknown(io::Error),
}

/// Reads the state of an attempt from its directory.
pub fn find(site: &Site, folder: &Folder) -> AdoptedAttempt {
    read_state(site, folder).unwrap_or_else(AdoptedAttempt::Unknown)
}

fn read_state(site: &Site, folder: &Folder) -> io::Result<AdoptedAttempt> {
    if let Some(outcome) = recorded_outcome(folder)? {
        return Ok(AdoptedAttempt::Ended(outcome));
    }
    let identity = match folder.identity() {
        // The shepherd writes the identity before it gives the directory its final name. So only a
        // crash of the host can have damaged the identity. A crash also ends the shepherd.
        Err(e) if is_damaged(&e) => {
            error!("cannot identify the shepherd of the attempt in {folder}: {e}");
            return Ok(AdoptedAttempt::Lost);
        }
        other => other?,
    };
    if let Some(ended) = shepherd(site, &identity)? {
        let trace = folder.trace().ok().flatten();
        let stopped = trace.as_ref().is_some_and(|trace| trace.stopped);
        return Ok(AdoptedAttempt::Alive {
            ended,
            session: trace.and_then(|trace| trace.session()),
            stopped,
        });
    }
    // The shepherd may have recorded the outcome and ended after the first look at the record.
    Ok(recorded_outcome(folder)?.map_or(AdoptedAttempt::Lost, AdoptedAttempt::Ended))
}

fn recorded_outcome(folder: &Folder) -> io::Result<Option<AttemptOutcome>> {
    match folder.outcome() {
        // If the record is incomplete, the caller checks whether the shepherd is alive.
        Err(e) if is_damaged(&e) => Ok(None),
        other => other,
    }
}

/// Whether the error means that a file is damaged or missing. After other errors, reading may
/// succeed later.
fn is_damaged(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}

/// A pidfd of the shepherd with this identity; None if the shepherd is not alive. An error means
/// that the shepherd's state cannot be determined.
fn shepherd(site: &Site, identity: &Identity) -> io::Result<Option<OwnedFd>> {
    if identity.boot != site.boot {
        return Ok(None);
    }
    let ended = match process::pidfd(Pid::from_raw(identity.pid)) {
        Err(e) if is_no_process(&e) => return Ok(None),
        other => other?,
    };
    // Check after opening the pidfd: if the start time matches, the pidfd is the shepherd's.
    let same = procfs::try_process(identity.pid)?
        .is_some_and(|p| p.started == identity.started && p.lives());
    Ok(same.then_some(ended))
}

/// Kills the shepherd of an attempt and all its descendants. Stops all of them first, so that they
/// cannot fork new processes. Does nothing if the shepherd is not alive.
pub fn kill(site: &Site, folder: &Folder) -> io::Result<()> {
    let identity = folder.identity()?;
    let Some(shepherd) = shepherd(site, &identity)? else {
        return Ok(());
    };
    process::send_to(&shepherd, Signal::SIGSTOP)?;
    let mut frozen = Frozen::new();
    for _ in 0..MAX_PASSES {
        if !sweep::freeze(procfs::descendants(identity.pid).iter(), &mut frozen) {
            break;
        }
    }
    sweep::kill(&frozen);
    process::send_to(&shepherd, Signal::SIGKILL)
}

/// Whether the error means that the process does not exist. Some kernels return EINVAL if the pid
/// is a thread's.
fn is_no_process(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(ESRCH | ENOENT | EINVAL))
}

/// Kills the remaining processes of a lost shepherd, and removes the `TMPDIR` that it created.
pub fn clear_up(site: &Site, folder: &Folder) {
    let trace = folder.trace().ok().flatten();
    if let Some(identity) = folder
        .identity()
        .ok()
        .filter(|identity| identity.boot == site.boot)
    {
        kill_remaining(&identity, trace.as_ref());
    }
    let tmpdir = trace.map(|trace| PathBuf::from(OsStr::from_bytes(&trace.tmpdir.0)));
    if let Some(tmpdir) =
        tmpdir.filter(|tmpdir| !tmpdir.as_os_str().is_empty() && !tmpdir::remove_empty(tmpdir))
    {
        remove_in_child(&tmpdir);
    }
}

/// Removes a directory in a separate process, because the removal may take long.
fn remove_in_child(folder: &Path) {
    match process::fork() {
        Ok(Fork::Child) => {
            process::close_all_but(&[]);
            // The process that removes the directory is an orphan, so noded need not wait for it.
            if let Ok(Fork::Child) = process::fork()
                && let Err(e) = tmpdir::remove(folder)
            {
                warn!("cannot remove {}: {e}", folder.display());
            }
            process::leave(0)
        }
        Ok(Fork::Parent(child)) => drop(waitpid(child, None)),
        Err(e) => warn!("cannot remove {}: {e}", folder.display()),
    }
}

fn kill_remaining(identity: &Identity, trace: Option<&ProcessTrace>) {
    if let Some(path) = trace.and_then(|trace| trace.cgroup.as_ref()) {
        let group = Cgroup::at(Path::new(OsStr::from_bytes(&path.0)));
        let _ = group.kill();
        group.wait_until_empty(EXIT_TIMEOUT);
        group.remove();
    }
    // Use the session number only while the session's first process exists. After the end of that
    // process, another session can have this number.
    let session = trace
        .filter(|trace| is_same_process(trace.session, trace.started))
        .map(|trace| trace.session);
    let ended = freeze_and_kill(identity, session);
    warn!(
        "attempt {}: the shepherd ended before it recorded an outcome; remaining processes \
         killed: {ended}",
        identity.name
    );
}

fn is_same_process(session: i32, started: u64) -> bool {
    procfs::process(session).is_some_and(|process| process.started == started)
}

/// Stops and kills the processes of the job's owner in the session, processes with the cookie in
/// their environment, and the descendants of both. Returns the number of processes.
fn freeze_and_kill(identity: &Identity, session: Option<i32>) -> usize {
    let mark = format!("PBS_JOBCOOKIE={}", identity.cookie);
    let mut frozen = Frozen::new();
    for _ in 0..MAX_PASSES {
        let all = procfs::all();
        let mut family = BTreeSet::new();
        for process in all.iter().filter(|process| process.lives()) {
            let in_session = session == Some(process.session)
                && procfs::owner(process.pid) == Some(identity.uid);
            if in_session || procfs::has_environment_entry(process.pid, mark.as_bytes()) {
                family.insert(process.pid);
            }
        }
        while all
            .iter()
            .any(|p| p.lives() && family.contains(&p.parent) && family.insert(p.pid))
        {}
        family.remove(&nix::unistd::getpid().as_raw());
        if !sweep::freeze(all.iter().filter(|p| family.contains(&p.pid)), &mut frozen) {
            break;
        }
    }
    sweep::kill(&frozen);
    frozen.len()
}
