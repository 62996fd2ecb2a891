//! The directory of one attempt: its files and records.
//!
//! ```text
//! <state>/attempts/<job>.<attempt>/           for a task: <job>.<attempt>.<task>/
//!     record     the shepherd's identity, the trace of the job's processes, and the outcome
//!     script     the job's script, readable only by the job's owner
//!     nodes      PBS_NODEFILE
//!     gpus       PBS_GPUFILE, for a job with GPUs
//!     hosts      PE_HOSTFILE, for a job submitted with Grid Engine options
//!     orders     orders from noded to the shepherd, one per line; SIGUSR1 announces new orders
//!     terminal   for an interactive job: the socket of the shepherd
//!     usage      the usage of the job so far, rewritten periodically
//! <state>/tombstones/<job>.<attempt>     marks a canceled attempt or task; contains the order
//! ```
//!
//! The shepherd is the process that starts and watches the attempt. There are few files, because
//! creating and removing files dominates the cost of a short job. The space for a usual record is
//! allocated when the directory is created, so that the outcome can be written even to a full disk.
//! Each part of the record is written by a single call, so a reader finds the part complete or not
//! at all.
//!
//! The directory is renamed atomically to its final name when it is complete, before the job is
//! forked. If a directory of that name exists, the shepherd exits. So no attempt runs twice.

use super::control::{Cancel, Control};
use crate::model::job::{Attempt, AttemptOutcome, TaskNumber, Usage};
use crate::model::job_id::{JobId, NotAJob};
use crate::model::text::Text;
use crate::sys::{fault, process, procfs};
use crate::wire::order::Launch;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The version of the records. A shepherd can outlive an upgrade of noded, so a noded can find
/// records of another version.
pub const VERSION: u16 = 1;

/// Offset of the identity in a record.
const IDENTITY: usize = 0;
/// Offset of the trace in a record.
const TRACE: usize = 512;
/// Offset of the outcome in a record.
const OUTCOME: usize = 2048;
/// Size of a new record, which has space for a usual outcome.
const RESERVED: usize = 4096;

/// Maximum size of the file `orders` in bytes. If it is larger, further messages to the job are
/// refused.
const MAX_MESSAGES: u64 = 1 << 20;

/// An attempt of a job, `12.1`, or one of its tasks, `12.1.3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptName {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: Attempt,
    /// The task; 0 for the attempt's script.
    #[serde(default)]
    pub task: TaskNumber,
}

impl AttemptName {
    /// The attempt or task that a launch starts.
    pub fn of(launch: &Launch) -> AttemptName {
        AttemptName {
            job: launch.job,
            attempt: launch.attempt,
            task: launch.place.task,
        }
    }
}

impl fmt::Display for AttemptName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.task {
            0 => write!(f, "{}.{}", self.job, self.attempt),
            task => write!(f, "{}.{}.{task}", self.job, self.attempt),
        }
    }
}

impl FromStr for AttemptName {
    type Err = NotAJob;

    fn from_str(text: &str) -> Result<AttemptName, NotAJob> {
        let (job, rest) = text.split_once('.').ok_or(NotAJob)?;
        let (attempt, task) = rest.split_once('.').unwrap_or((rest, "0"));
        Ok(AttemptName {
            job: job.parse()?,
            attempt: attempt.parse().map_err(|_| NotAJob)?,
            task: task.parse().map_err(|_| NotAJob)?,
        })
    }
}

/// Identifies a shepherd, so that a later process with the same pid is not mistaken for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// [`VERSION`].
    pub version: u16,
    /// The attempt or task.
    pub name: AttemptName,
    /// The shepherd's pid.
    pub pid: i32,
    /// The shepherd's start time in clock ticks since boot.
    pub started: u64,
    /// The kernel's boot id.
    pub boot: String,
    /// The uid of the job's owner.
    pub uid: u32,
    /// `PBS_JOBCOOKIE`: marks the job's processes.
    pub cookie: String,
}

/// The version in an [`Identity`] of any version.
#[derive(Deserialize)]
struct Versioned {
    version: u16,
}

/// The data with which noded finds the job's processes and `TMPDIR` after the loss of the shepherd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessTrace {
    /// The session, which is also the pid of the job's first process; 0 before that process is
    /// forked.
    pub session: i32,
    /// Start time of the job's first process, in clock ticks since boot.
    pub started: u64,
    /// The job's cgroup, if it has one.
    pub cgroup: Option<Text>,
    /// The `TMPDIR` that noded removes with the job's processes; empty for a task that shares the
    /// `TMPDIR` of its script.
    pub tmpdir: Text,
    /// Whether all processes of the job are suspended by order.
    #[serde(default)]
    pub stopped: bool,
}

impl ProcessTrace {
    /// The job's session; None before the job is forked.
    pub fn session(&self) -> Option<u32> {
        u32::try_from(self.session)
            .ok()
            .filter(|&session| session > 0)
    }
}

/// An attempt's directory under its final name.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

/// The directory of attempts in noded's state directory.
pub fn attempts(state: &Path) -> PathBuf {
    state.join("attempts")
}

/// The directory of tombstones in noded's state directory.
pub fn tombstones(state: &Path) -> PathBuf {
    state.join("tombstones")
}

impl Folder {
    /// The directory of an attempt, whether it exists or not.
    pub fn of(state: &Path, name: AttemptName) -> Folder {
        Folder {
            path: attempts(state).join(name.to_string()),
        }
    }

    /// Whether the directory exists. True if that cannot be determined.
    pub fn exists(&self) -> bool {
        self.path.try_exists().unwrap_or(true)
    }

    /// The recorded shepherds of an attempt on this host: of its script and of its tasks. `own` is
    /// the script or a task of the attempt. The shepherd of `own` is left out.
    pub fn other_shepherds(&self, own: AttemptName) -> Vec<Identity> {
        let place = self.path.parent().unwrap_or(&self.path);
        let others = names(place).unwrap_or_default().into_iter();
        let others = others
            .filter(|name| (name.job, name.attempt) == (own.job, own.attempt) && *name != own);
        others
            .filter_map(|name| {
                Folder {
                    path: place.join(name.to_string()),
                }
                .identity()
                .ok()
            })
            .collect()
    }

    /// The job's script.
    pub fn script(&self) -> PathBuf {
        self.path.join("script")
    }

    /// `PBS_NODEFILE`.
    pub fn nodes(&self) -> PathBuf {
        self.path.join("nodes")
    }

    /// Replaces the node file atomically. The new file has the owner of the old file.
    pub fn replace_nodes(&self, text: &str) -> io::Result<()> {
        let old = fs::metadata(self.nodes())?;
        let others = old.uid() != nix::unistd::geteuid().as_raw();
        let temporary = self.path.join("nodes.new");
        match fs::remove_file(&temporary) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let owner = others.then_some((old.uid(), old.gid()));
        create(&self.path, "nodes.new", 0o400, owner)?.write_all(text.as_bytes())?;
        fs::rename(temporary, self.nodes())
    }

    /// The socket at which the shepherd of an interactive job listens for clients.
    pub fn terminal(&self) -> PathBuf {
        self.path.join("terminal")
    }

    /// The identity of the shepherd. Fails if the record cannot be read or has another version.
    pub fn identity(&self) -> io::Result<Identity> {
        // Check the version first: the format may differ between versions.
        let Versioned { version } = self
            .part(IDENTITY, TRACE)?
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        if version != VERSION {
            return Err(io::Error::other(format!(
                "the record has version {version}, but this noded supports only version {VERSION}"
            )));
        }
        Ok(self
            .part(IDENTITY, TRACE)?
            .ok_or(io::ErrorKind::UnexpectedEof)?)
    }

    /// The trace of the job's processes; None if none is recorded yet.
    pub fn trace(&self) -> io::Result<Option<ProcessTrace>> {
        self.part(TRACE, OUTCOME)
    }

    /// The outcome; None if none is recorded yet.
    pub fn outcome(&self) -> io::Result<Option<AttemptOutcome>> {
        self.identity()?;
        self.part(OUTCOME, usize::MAX)
    }

    fn part<T: DeserializeOwned>(&self, from: usize, to: usize) -> io::Result<Option<T>> {
        let record = fs::read(self.path.join("record"))?;
        let part = record
            .get(from..to.min(record.len()))
            .unwrap_or_default()
            .trim_ascii();
        if part.is_empty() {
            return Ok(None);
        }
        let text = str::from_utf8(part).map_err(io::Error::other)?;
        Ok(Some(serde_json::from_str(text)?))
    }

    /// The last recorded usage; None if none can be read.
    pub fn usage(&self) -> Option<Usage> {
        serde_json::from_str(&fs::read_to_string(self.path.join("usage")).ok()?).ok()
    }

    /// Records the usage. Errors, for instance of a full disk, are ignored.
    pub fn write_usage(&self, usage: &Usage) {
        if let Ok(text) = serde_json::to_vec(usage) {
            let file = File::options()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(self.path.join("usage"));
            let _ = file.and_then(|mut file| file.write_all(&text));
        }
    }

    /// Passes an order to the shepherd. Fails if the shepherd has ended, or if an order other than
    /// a cancel cannot be written. A cancel that cannot be written, for instance to a full disk, is
    /// sent as the value of SIGUSR2, without the grace time.
    pub fn order(&self, order: &Control) -> io::Result<()> {
        let identity = self.identity()?;
        let shepherd = process::pidfd(Pid::from_raw(identity.pid))?;
        if procfs::process(identity.pid).is_none_or(|process| process.started != identity.started) {
            return Err(io::ErrorKind::NotFound.into());
        }
        match (self.append(order), order) {
            (Ok(()), _) => process::send_to(&shepherd, Signal::SIGUSR1),
            (Err(_), Control::Cancel(cancel)) => {
                process::send_value_to(&shepherd, Signal::SIGUSR2, cancel.value())
            }
            (Err(e), _) => Err(e),
        }
    }

    fn append(&self, order: &Control) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(self.path.join("orders"))?;
        let before = file.metadata()?.len();
        if before > MAX_MESSAGES && matches!(order, Control::Message { .. }) {
            return Err(io::Error::other("too many messages were sent to the job"));
        }
        // Start on a new line: the file may end with an incomplete order.
        file.write_all(format!("\n{}\n", order.line()).as_bytes())
            .inspect_err(|_| {
                // Remove the incomplete order, which may parse as another order.
                let _ = file.set_len(before);
            })
    }

    /// Reads orders after the first `seen` bytes of the file, at most 4 KiB. Advances `seen` to the
    /// end of the orders read.
    pub fn orders(&self, seen: &mut u64) -> Vec<Control> {
        let mut text = vec![0; 4096];
        let read =
            File::open(self.path.join("orders")).and_then(|file| file.read_at(&mut text, *seen));
        text.truncate(read.unwrap_or(0));
        // The rest of an incomplete last line is announced by another signal.
        let whole = text
            .iter()
            .rposition(|&b| b == b'\n')
            .map_or(0, |end| end + 1);
        *seen += whole as u64;
        String::from_utf8_lossy(&text[..whole])
            .lines()
            .filter_map(Control::parse)
            .collect()
    }

    /// Removes the directory with its contents.
    pub fn remove(&self) -> io::Result<()> {
        for file in ["script", "nodes", "orders", "usage", "terminal", "record"] {
            let _ = fs::remove_file(self.path.join(file));
        }
        match fs::remove_dir(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(_) => fs::remove_dir_all(&self.path),
            Ok(()) => Ok(()),
        }
    }
}

/// The contents of a new attempt's directory.
#[derive(Debug)]
pub struct Contents<'a> {
    /// The shepherd that creates the directory.
    pub identity: &'a Identity,
    /// The text of the job's script; None for a job that runs a command.
    pub script: Option<&'a [u8]>,
    /// The node file's text.
    pub nodes: &'a str,
    /// Additional files: name and text.
    pub more: &'a [(&'static str, String)],
    /// The uid and gid of the files' owner; None for noded's own user.
    pub owner: Option<(u32, u32)>,
}

/// A new attempt's directory. The shepherd that created it keeps the record open.
#[derive(Debug)]
pub struct Built {
    /// The directory.
    pub folder: Folder,
    record: File,
}

/// Creates an attempt's directory under a temporary name and renames it atomically. None if the
/// directory exists already, because the attempt has been started before.
pub fn build(state: &Path, contents: &Contents) -> io::Result<Option<Built>> {
    fault::point("attempt.build")?;
    let temporary = attempts(state).join(format!(".new-{}", contents.identity.pid));
    if fs::symlink_metadata(&temporary).is_ok() {
        fs::remove_dir_all(&temporary)?;
    }
    let built = fill(&temporary, contents)
        .and_then(|built| publish(state, &temporary, contents.identity.name, built));
    if !matches!(built, Ok(Some(_))) {
        let _ = fs::remove_dir_all(&temporary);
    }
    built
}

fn fill(temporary: &Path, contents: &Contents) -> io::Result<Built> {
    // Other users can open their files in the directory, but cannot list it.
    DirBuilder::new().create(temporary)?;
    fs::set_permissions(temporary, Permissions::from_mode(0o711))?;
    let record = create(temporary, "record", 0o600, None)?;
    let mut bytes = serde_json::to_vec(contents.identity)?;
    bytes.resize(RESERVED, b' ');
    (&record).write_all(&bytes)?;
    create(temporary, "nodes", 0o400, contents.owner)?.write_all(contents.nodes.as_bytes())?;
    for (name, text) in contents.more {
        create(temporary, name, 0o400, contents.owner)?.write_all(text.as_bytes())?;
    }
    if let Some(script) = contents.script {
        create(temporary, "script", 0o500, contents.owner)?.write_all(script)?;
    }
    Ok(Built {
        folder: Folder {
            path: temporary.to_path_buf(),
        },
        record,
    })
}

fn create(folder: &Path, name: &str, mode: u32, owner: Option<(u32, u32)>) -> io::Result<File> {
    let file = File::options()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(folder.join(name))?;
    if let Some((uid, gid)) = owner {
        std::os::unix::fs::fchown(&file, Some(uid), Some(gid))?;
    }
    Ok(file)
}

fn publish(
    state: &Path,
    temporary: &Path,
    name: AttemptName,
    built: Built,
) -> io::Result<Option<Built>> {
    let folder = Folder::of(state, name);
    match renameat2(
        AT_FDCWD,
        temporary,
        AT_FDCWD,
        &folder.path,
        RenameFlags::RENAME_NOREPLACE,
    ) {
        Ok(()) => Ok(Some(Built { folder, ..built })),
        Err(nix::Error::EEXIST) => Ok(None),
        // The file system does not support RENAME_NOREPLACE. A plain rename replaces only an empty
        // directory, and an attempt's directory is never empty.
        Err(nix::Error::EINVAL) => match fs::rename(temporary, &folder.path) {
            Ok(()) => Ok(Some(Built { folder, ..built })),
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(None),
            Err(e) => Err(e),
        },
        Err(e) => Err(e.into()),
    }
}

impl Built {
    /// Records how to find the job's processes.
    pub fn write_trace(&self, trace: &ProcessTrace) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(trace)?;
        if bytes.len() > OUTCOME - TRACE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        // The spaces overwrite the end of a longer earlier trace.
        bytes.resize(OUTCOME - TRACE, b' ');
        self.record.write_all_at(&bytes, TRACE as u64)
    }

    /// Records whether all processes of the job are suspended.
    pub fn note_stopped(&self, stopped: bool) {
        if let Ok(Some(trace)) = self.folder.trace() {
            // The space is allocated, so this rarely fails. noded is also notified by a message.
            let _ = self.write_trace(&ProcessTrace { stopped, ..trace });
        }
    }

    /// Records the outcome.
    pub fn write_outcome(&self, outcome: &AttemptOutcome) -> io::Result<()> {
        fault::point("attempt.exit")?;
        self.record
            .write_all_at(&serde_json::to_vec(outcome)?, OUTCOME as u64)
    }
}

/// Writes the tombstone of a canceled attempt: a file that marks the attempt as canceled. An
/// existing tombstone is overwritten in place, which works even on a full disk.
pub fn write_tombstone(state: &Path, name: AttemptName, cancel: Cancel) -> io::Result<()> {
    fault::point("attempt.tombstone")?;
    let path = tombstones(state).join(name.to_string());
    let tombstone = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let text = format!("{}\n", cancel.words());
    tombstone.write_all_at(text.as_bytes(), 0)?;
    tombstone.set_len(text.len() as u64)
}

/// The cancel in an attempt's tombstone; None if no tombstone can be read. An empty or invalid
/// tombstone means a cancel without grace time.
pub fn read_tombstone(state: &Path, name: AttemptName) -> Option<Cancel> {
    let text = fs::read_to_string(tombstones(state).join(name.to_string())).ok()?;
    Some(
        text.lines()
            .next()
            .and_then(Cancel::parse)
            .unwrap_or_default(),
    )
}

/// Removes an attempt's tombstone.
pub fn remove_tombstone(state: &Path, name: AttemptName) {
    let _ = fs::remove_file(tombstones(state).join(name.to_string()));
}

/// The attempts and tasks in a directory of attempts or tombstones, sorted.
pub fn names(folder: &Path) -> io::Result<Vec<AttemptName>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(
            entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<AttemptName>().ok()),
        );
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::How;
    use crate::model::job::run_limits::TimeLimits;
    use crate::model::time::Span;

    fn identity(pid: i32) -> Identity {
        let name = AttemptName {
            job: JobId::job(7),
            attempt: 2,
            task: 0,
        };
        Identity {
            version: VERSION,
            name,
            pid,
            started: 5,
            boot: "b".into(),
            uid: 0,
            cookie: "c".into(),
        }
    }

    fn state() -> tempfile::TempDir {
        let state = tempfile::tempdir().unwrap();
        fs::create_dir(attempts(state.path())).unwrap();
        fs::create_dir(tombstones(state.path())).unwrap();
        state
    }

    #[test]
    fn a_second_directory_of_an_attempt_is_not_created() {
        let state = state();
        let (one, two) = (identity(1), identity(2));
        let contents = |identity| Contents {
            identity,
            script: Some(b"#!/bin/sh\n"),
            nodes: "a\na\n",
            more: &[],
            owner: None,
        };
        let first = build(state.path(), &contents(&one)).unwrap();
        assert!(first.is_some());
        assert!(build(state.path(), &contents(&two)).unwrap().is_none());
        let folder = Folder::of(state.path(), identity(1).name);
        assert_eq!(folder.identity().unwrap(), identity(1));
        assert_eq!(fs::read_dir(attempts(state.path())).unwrap().count(), 1);
        folder.remove().unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn the_outcome_and_the_trace_are_read_as_written() {
        let state = state();
        let contents = Contents {
            identity: &identity(1),
            script: None,
            nodes: "",
            more: &[],
            owner: None,
        };
        let built = build(state.path(), &contents).unwrap().unwrap();
        assert_eq!(built.folder.outcome().unwrap(), None);
        let outcome = AttemptOutcome {
            how: How::NodeFault("ä\"\n".into()),
            sent: Some(15),
            used: Usage::default(),
            notes: vec!["n".into()],
            unfit: None,
            on_its_own: false,
        };
        built.write_outcome(&outcome).unwrap();
        assert_eq!(built.folder.outcome().unwrap(), Some(outcome));
        let early = ProcessTrace {
            session: 0,
            started: 0,
            cgroup: Some("/some/where".into()),
            tmpdir: Text(vec![0xff]),
            stopped: false,
        };
        built.write_trace(&early).unwrap();
        assert_eq!(built.folder.trace().unwrap().unwrap().session(), None);
        let trace = ProcessTrace {
            session: 4,
            started: 9,
            cgroup: None,
            tmpdir: Text(vec![0xff]),
            stopped: false,
        };
        built.write_trace(&trace).unwrap();
        assert_eq!(built.folder.trace().unwrap(), Some(trace));
        assert!(built.folder.outcome().unwrap().is_some());
    }

    #[test]
    fn an_incomplete_order_does_not_damage_the_next() {
        let state = state();
        let contents = Contents {
            identity: &identity(1),
            script: None,
            nodes: "",
            more: &[],
            owner: None,
        };
        let folder = build(state.path(), &contents).unwrap().unwrap().folder;
        fs::write(folder.path.join("orders"), "canc").unwrap();
        folder.append(&Control::Signal(10)).unwrap();
        folder
            .append(&Control::Times(TimeLimits::default()))
            .unwrap();
        let mut seen = 0;
        assert_eq!(
            folder.orders(&mut seen),
            [Control::Signal(10), Control::Times(TimeLimits::default())]
        );
        assert!(folder.orders(&mut seen).is_empty());
    }

    #[test]
    fn only_attempts_and_tasks_are_listed() {
        let state = state();
        for name in ["12.1.4", "12.1", ".new-4", "x", "3.2", "3", "3.2.x"] {
            fs::write(tombstones(state.path()).join(name), "5").unwrap();
        }
        let listed = names(&tombstones(state.path())).unwrap();
        assert_eq!(
            listed
                .iter()
                .map(AttemptName::to_string)
                .collect::<Vec<_>>(),
            ["3.2", "12.1", "12.1.4"]
        );
        assert_eq!(
            read_tombstone(state.path(), listed[0]).map(|cancel| cancel.grace),
            Some(Span(5))
        );
    }

    #[test]
    fn a_tombstone_is_replaced_completely() {
        let (state, name) = (state(), identity(1).name);
        assert_eq!(read_tombstone(state.path(), name), None);
        let long = Cancel {
            grace: Span(10_000),
            signal: Some(10),
            again: true,
        };
        for cancel in [long, Cancel::default(), long] {
            write_tombstone(state.path(), name, cancel).unwrap();
            assert_eq!(read_tombstone(state.path(), name), Some(cancel));
        }
        fs::write(tombstones(state.path()).join(name.to_string()), "").unwrap();
        assert_eq!(read_tombstone(state.path(), name), Some(Cancel::default()));
        remove_tombstone(state.path(), name);
        assert_eq!(read_tombstone(state.path(), name), None);
    }
}
