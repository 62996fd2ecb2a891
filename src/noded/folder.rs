//! The folder of one attempt: what lies in it and what its records say.
//!
//! ```text
//! <state>/attempts/<job>.<attempt>/           or, of a task, <job>.<attempt>.<task>/
//!     record     who the shepherd is; once the job is forked, how to find it; at the end, the outcome
//!     script     the job's script, for its owner alone
//!     nodes      PBS_NODEFILE
//!     orders     one per line, from noded to the shepherd, which SIGUSR1 tells to look; made when needed
//!     terminal   for an interactive job: a socket at which its shepherd listens
//!     usage      what a longer job has used so far, rewritten now and then
//! <state>/tombstones/<job>.<attempt>     this attempt was cancelled; says how, as the order did
//! ```
//!
//! Few files, because making and removing them is what a short job costs most. The record has its
//! space on disk from the first moment, so that a full disk loses no outcome; each of its parts is
//! written by one call, so that a reader finds it whole or not at all.
//!
//! The folder appears under its final name in one step, complete, before the job is forked. Who
//! finds it there already has been overtaken and leaves: that is why no attempt runs twice.

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

/// The version of the records. A shepherd may outlive a change of noded.
pub const VERSION: u16 = 1;

/// Where the parts of a record begin: identity, trace, outcome; and its size before the last is
/// there.
const IDENTITY: usize = 0;
const TRACE: usize = 512;
const OUTCOME: usize = 2048;
const RESERVED: usize = 4096;

/// How many bytes of orders there may be before messages to the job are no longer among them.
const MOST_MESSAGES: u64 = 1 << 20;

/// One attempt of one job, `12.1`, or one of the tasks it has started itself, `12.1.3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptName {
    /// Which job.
    pub job: JobId,
    /// Which attempt.
    pub attempt: Attempt,
    /// Which task; 0 for the attempt's script.
    #[serde(default)]
    pub task: TaskNumber,
}

impl AttemptName {
    /// What an order starts.
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

/// The shepherd, named so that no later process can pass for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// [`VERSION`].
    pub version: u16,
    /// Which attempt.
    pub name: AttemptName,
    /// Its process.
    pub pid: i32,
    /// When it started, in ticks since boot.
    pub started: u64,
    /// In which boot.
    pub boot: String,
    /// The job's owner.
    pub uid: u32,
    /// `PBS_JOBCOOKIE`: marks the job's processes.
    pub cookie: String,
}

#[derive(Deserialize)]
struct Versioned {
    version: u16,
}

/// Where the job's processes are to be found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessTrace {
    /// The session, which is the first process's number too; 0 until that is forked.
    pub session: i32,
    /// When that process started, in ticks since boot.
    pub started: u64,
    /// The control group, if there is one.
    pub cgroup: Option<Text>,
    /// `TMPDIR`.
    pub tmpdir: Text,
    /// Whether all its processes are stopped, by order.
    #[serde(default)]
    pub stopped: bool,
}

impl ProcessTrace {
    /// The job's session, once it is forked.
    pub fn session(&self) -> Option<u32> {
        u32::try_from(self.session)
            .ok()
            .filter(|&session| session > 0)
    }
}

/// An attempt's folder under its final name.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

/// Where attempts lie under noded's state folder.
pub fn attempts(state: &Path) -> PathBuf {
    state.join("attempts")
}

/// Where tombstones lie under noded's state folder.
pub fn tombstones(state: &Path) -> PathBuf {
    state.join("tombstones")
}

impl Folder {
    /// The folder of an attempt, whether it is there or not.
    pub fn of(state: &Path, name: AttemptName) -> Folder {
        Folder {
            path: attempts(state).join(name.to_string()),
        }
    }

    /// Whether it is there, or may be.
    pub fn exists(&self) -> bool {
        self.path.try_exists().unwrap_or(true)
    }

    /// The shepherds of the other processes of this attempt on this node.
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

    /// Puts another node file in the place of the one that is there, in one step and of the same
    /// owner.
    pub fn replace_nodes(&self, text: &str) -> io::Result<()> {
        let old = fs::metadata(self.nodes())?;
        let others = old.uid() != nix::unistd::geteuid().as_raw();
        let beside = self.path.join("nodes.new");
        match fs::remove_file(&beside) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let owner = others.then_some((old.uid(), old.gid()));
        create(&self.path, "nodes.new", 0o400, owner)?.write_all(text.as_bytes())?;
        fs::rename(beside, self.nodes())
    }

    /// Where the shepherd of an interactive job listens for whoever sits at its terminal.
    pub fn terminal(&self) -> PathBuf {
        self.path.join("terminal")
    }

    /// Who its shepherd is.
    pub fn identity(&self) -> io::Result<Identity> {
        // The version first: of another one nothing else need be as we know it.
        let Versioned { version } = self
            .part(IDENTITY, TRACE)?
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        if version != VERSION {
            return Err(io::Error::other(format!(
                "a record of version {version}, this program knows {VERSION}"
            )));
        }
        Ok(self
            .part(IDENTITY, TRACE)?
            .ok_or(io::ErrorKind::UnexpectedEof)?)
    }

    /// How to find its job and what that leaves; None before there is anything to find.
    pub fn trace(&self) -> io::Result<Option<ProcessTrace>> {
        self.part(TRACE, OUTCOME)
    }

    /// How it ended; None if that is not recorded.
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

    /// What it has used, as last written.
    pub fn usage(&self) -> Option<Usage> {
        serde_json::from_str(&fs::read_to_string(self.path.join("usage")).ok()?).ok()
    }

    /// Writes down what it has used so far; a full disk loses it, which does no harm.
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

    /// Hands the shepherd one order; an error when it no longer listens. A cancel for which the
    /// disk has no room is sent as a bare signal, which has room for all but its grace.
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
        if before > MOST_MESSAGES && matches!(order, Control::Message { .. }) {
            return Err(io::Error::other("it has been sent too many messages"));
        }
        // On a line of its own whatever was left before it.
        file.write_all(format!("\n{}\n", order.line()).as_bytes())
            .inspect_err(|_| {
                // Half an order may read as another one.
                let _ = file.set_len(before);
            })
    }

    /// The orders handed over since `seen` bytes of them were read; `seen` moves on.
    pub fn orders(&self, seen: &mut u64) -> Vec<Control> {
        let mut text = vec![0; 4096];
        let read =
            File::open(self.path.join("orders")).and_then(|file| file.read_at(&mut text, *seen));
        text.truncate(read.unwrap_or(0));
        // What has no end yet is read with the next signal.
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

    /// Removes it and all in it.
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

/// What a new folder is filled with.
#[derive(Debug)]
pub struct Contents<'a> {
    /// The shepherd that builds it.
    pub identity: &'a Identity,
    /// The script's text, for a job that has one.
    pub script: Option<&'a [u8]>,
    /// The node file's text.
    pub nodes: &'a str,
    /// Files to lie beside it: name and text.
    pub more: &'a [(&'static str, String)],
    /// Who is to own these files, where that is not this process's user.
    pub owner: Option<(u32, u32)>,
}

/// A folder just built, with the files its shepherd goes on to use.
#[derive(Debug)]
pub struct Built {
    /// The folder.
    pub folder: Folder,
    record: File,
}

/// Builds an attempt's folder beside its place and moves it there in one step. None when one is
/// there already: this attempt has been started before.
pub fn build(state: &Path, contents: &Contents) -> io::Result<Option<Built>> {
    fault::point("attempt.build")?;
    let beside = attempts(state).join(format!(".new-{}", contents.identity.pid));
    if fs::symlink_metadata(&beside).is_ok() {
        fs::remove_dir_all(&beside)?;
    }
    let built = fill(&beside, contents)
        .and_then(|built| publish(state, &beside, contents.identity.name, built));
    if !matches!(built, Ok(Some(_))) {
        let _ = fs::remove_dir_all(&beside);
    }
    built
}

fn fill(beside: &Path, contents: &Contents) -> io::Result<Built> {
    // Others may pass through it to what is theirs, but not look around.
    DirBuilder::new().create(beside)?;
    fs::set_permissions(beside, Permissions::from_mode(0o711))?;
    let record = create(beside, "record", 0o600, None)?;
    let mut bytes = serde_json::to_vec(contents.identity)?;
    bytes.resize(RESERVED, b' ');
    (&record).write_all(&bytes)?;
    create(beside, "nodes", 0o400, contents.owner)?.write_all(contents.nodes.as_bytes())?;
    for (name, text) in contents.more {
        create(beside, name, 0o400, contents.owner)?.write_all(text.as_bytes())?;
    }
    if let Some(script) = contents.script {
        create(beside, "script", 0o500, contents.owner)?.write_all(script)?;
    }
    Ok(Built {
        folder: Folder {
            path: beside.to_path_buf(),
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
    beside: &Path,
    name: AttemptName,
    built: Built,
) -> io::Result<Option<Built>> {
    let folder = Folder::of(state, name);
    match renameat2(
        AT_FDCWD,
        beside,
        AT_FDCWD,
        &folder.path,
        RenameFlags::RENAME_NOREPLACE,
    ) {
        Ok(()) => Ok(Some(Built { folder, ..built })),
        Err(nix::Error::EEXIST) => Ok(None),
        // A file system without that flag: rename onto a folder succeeds only if it is empty,
        // and none of ours ever is.
        Err(nix::Error::EINVAL) => match fs::rename(beside, &folder.path) {
            Ok(()) => Ok(Some(Built { folder, ..built })),
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(None),
            Err(e) => Err(e),
        },
        Err(e) => Err(e.into()),
    }
}

impl Built {
    /// Records where the job's processes are to be found.
    pub fn write_trace(&self, trace: &ProcessTrace) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(trace)?;
        if bytes.len() > OUTCOME - TRACE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        // Over all of an earlier one.
        bytes.resize(OUTCOME - TRACE, b' ');
        self.record.write_all_at(&bytes, TRACE as u64)
    }

    /// Records whether all processes of the job are stopped.
    pub fn note_stopped(&self, stopped: bool) {
        if let Ok(Some(trace)) = self.folder.trace() {
            // Its space on disk is there; should it fail all the same, noded is told by word.
            let _ = self.write_trace(&ProcessTrace { stopped, ..trace });
        }
    }

    /// Records how it ended.
    pub fn write_outcome(&self, outcome: &AttemptOutcome) -> io::Result<()> {
        fault::point("attempt.exit")?;
        self.record
            .write_all_at(&serde_json::to_vec(outcome)?, OUTCOME as u64)
    }
}

/// Marks an attempt as cancelled. A mark that is there is written over where it is: on a disk that
/// is full, too.
pub fn bury(state: &Path, name: AttemptName, cancel: Cancel) -> io::Result<()> {
    fault::point("attempt.tombstone")?;
    let path = tombstones(state).join(name.to_string());
    let mark = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let text = format!("{}\n", cancel.words());
    mark.write_all_at(text.as_bytes(), 0)?;
    mark.set_len(text.len() as u64)
}

/// Whether an attempt is marked as cancelled, and how; from a mark that cannot be read: at once.
pub fn buried(state: &Path, name: AttemptName) -> Option<Cancel> {
    let text = fs::read_to_string(tombstones(state).join(name.to_string())).ok()?;
    Some(
        text.lines()
            .next()
            .and_then(Cancel::parse)
            .unwrap_or_default(),
    )
}

/// Removes the mark.
pub fn unbury(state: &Path, name: AttemptName) {
    let _ = fs::remove_file(tombstones(state).join(name.to_string()));
}

/// The attempts named in a folder of attempts or tombstones, in order.
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
    fn the_second_to_build_an_attempt_finds_the_first_and_leaves_nothing_behind() {
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
    fn an_outcome_is_read_as_it_was_written() {
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
    fn half_an_order_left_before_another_spoils_nothing() {
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
    fn only_names_of_attempts_are_listed() {
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
            buried(state.path(), listed[0]).map(|cancel| cancel.grace),
            Some(Span(5))
        );
    }

    #[test]
    fn the_last_mark_is_read_whatever_was_there() {
        let (state, name) = (state(), identity(1).name);
        assert_eq!(buried(state.path(), name), None);
        let long = Cancel {
            grace: Span(10_000),
            signal: Some(10),
            again: true,
        };
        for cancel in [long, Cancel::default(), long] {
            bury(state.path(), name, cancel).unwrap();
            assert_eq!(buried(state.path(), name), Some(cancel));
        }
        fs::write(tombstones(state.path()).join(name.to_string()), "").unwrap();
        assert_eq!(buried(state.path(), name), Some(Cancel::default()));
        unbury(state.path(), name);
        assert_eq!(buried(state.path(), name), None);
    }
}
