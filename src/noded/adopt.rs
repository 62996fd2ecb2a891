//! What became of an attempt, told from its folder: still under its shepherd, over, or lost.

use super::folder::{Folder, Identity};
use super::site::Site;
use super::tmpdir;
use crate::model::job::Outcome;
use crate::model::time::Span;
use crate::sys::cgroup::Cgroup;
use crate::sys::procfs::Process;
use crate::sys::{process, procfs};
use nix::libc::SIGSTOP;
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tracing::{error, warn};

/// How long the processes of a lost shepherd may take to be gone.
const PATIENCE: Span = Span::seconds(3);

/// What became of an attempt.
#[derive(Debug)]
pub enum Found {
    /// Its shepherd lives.
    Alive {
        /// Readable when the shepherd ends.
        ended: OwnedFd,
        /// The job's session, if it has been forked.
        session: Option<u32>,
    },
    /// It is over.
    Ended(Outcome),
    /// Its shepherd ended without a record.
    Lost,
}

/// Looks into an attempt's folder.
pub fn find(site: &Site, folder: &Folder) -> Found {
    if let Some(outcome) = recorded(folder) {
        return Found::Ended(outcome);
    }
    let identity = match folder.identity() {
        Ok(identity) => identity,
        Err(e) => {
            error!("{folder:?} does not say who its shepherd is: {e}");
            return Found::Lost;
        }
    };
    if let Some(ended) = shepherd(site, &identity) {
        let session = folder.trace().ok().flatten().and_then(|trace| u32::try_from(trace.session).ok());
        return Found::Alive { ended, session };
    }
    // It may have written its record and left between the two looks.
    recorded(folder).map_or(Found::Lost, Found::Ended)
}

fn recorded(folder: &Folder) -> Option<Outcome> {
    // What cannot be read is told from the identity, next.
    folder.outcome().ok().flatten()
}

/// The very process that the folder names, if it lives.
fn shepherd(site: &Site, identity: &Identity) -> Option<OwnedFd> {
    if identity.boot != site.boot {
        return None;
    }
    let ended = process::pidfd(Pid::from_raw(identity.pid)).ok()?;
    // Only now: the number cannot change hands any more.
    let same = procfs::process(identity.pid).is_some_and(|p| p.started == identity.started && p.lives());
    same.then_some(ended)
}

/// Ends what a lost shepherd left of its job, and clears up after it.
pub fn clear_up(site: &Site, folder: &Folder) {
    let trace = folder.trace().ok().flatten();
    if let Some(trace) = &trace {
        tmpdir::remove(Path::new(OsStr::from_bytes(&trace.tmpdir.0)));
    }
    let Some(identity) = folder.identity().ok().filter(|identity| identity.boot == site.boot) else { return };
    if let Some(path) = trace.as_ref().and_then(|trace| trace.cgroup.as_ref()) {
        let group = Cgroup::at(Path::new(OsStr::from_bytes(&path.0)));
        let _ = group.kill();
        group.wait_until_empty(PATIENCE);
        group.remove();
    }
    // The session's number is worth something only while its first process can vouch for it.
    let session = trace.filter(|trace| vouched(trace.session, trace.started)).map(|trace| trace.session);
    let ended = freeze_and_kill(&identity, session);
    warn!("job {}: its shepherd was killed; {ended} processes of it ended", identity.name);
}

fn vouched(session: i32, started: u64) -> bool {
    procfs::process(session).is_none_or(|process| process.started == started)
}

fn freeze_and_kill(identity: &Identity, session: Option<i32>) -> usize {
    let mark = format!("PBS_JOBCOOKIE={}", identity.cookie);
    let belongs = |p: &Process| {
        let in_session = session == Some(p.session) && procfs::owner(p.pid) == Some(identity.uid);
        p.lives() && (in_session || procfs::carries(p.pid, mark.as_bytes()))
    };
    let mut frozen = BTreeSet::new();
    for _ in 0..100 {
        let all = procfs::all();
        let mut family: BTreeSet<i32> = all.iter().filter(|p| belongs(p)).map(|p| p.pid).collect();
        while all.iter().any(|p| p.lives() && family.contains(&p.parent) && family.insert(p.pid)) {}
        family.remove(&nix::unistd::getpid().as_raw());
        let new: Vec<i32> = family.difference(&frozen).copied().collect();
        if new.is_empty() {
            break;
        }
        for pid in new {
            process::send_signal(pid, SIGSTOP);
            frozen.insert(pid);
        }
    }
    frozen.iter().copied().for_each(process::end);
    frozen.len()
}
