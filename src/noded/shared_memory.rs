//! Files in `/dev/shm` that a job has created. They use memory even if no process maps them.
//!
//! The job's shepherd checks the files periodically. A file is new if it has appeared since the
//! previous check. A new file belongs to the job if nothing else can have created it. That is
//! certain if the owner had no processes outside the job on this host at both checks, and if no
//! attempt began on this host and no records of an attempt were removed between the checks. Other
//! new files count while a process of the job has them open or mapped, and no other process of the
//! owner does. Files older than the job never count.

use crate::sys::procfs::{self, Process};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The directory of shared memory files.
const FOLDER: &str = "/dev/shm";
/// Maximum number of files to examine. Further files do not count.
const MAX_FILES: usize = 4096;

/// The files of a job's owner in shared memory.
#[derive(Debug)]
pub struct SharedMemory {
    folder: PathBuf,
    /// The directory with all attempts of this host. Its modification time changes when an attempt
    /// begins, and when noded removes the records of an attempt.
    attempts: PathBuf,
    uid: u32,
    /// Inode numbers of the files that existed at the last check.
    seen: BTreeSet<u64>,
    /// Inode numbers of files that are newer than the job and may belong to other processes.
    undecided: BTreeSet<u64>,
    /// Inode numbers of files that certainly belong to the job.
    own: BTreeSet<u64>,
    last: OtherActivity,
}

/// What a check finds about processes outside the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OtherActivity {
    /// Whether the owner has no processes outside the job.
    is_alone: bool,
    /// The modification time of the directory of attempts.
    attempts_changed: Option<SystemTime>,
}

impl SharedMemory {
    /// Records the files that are older than the job. Call this before the job's first process
    /// starts.
    pub fn begin(uid: u32, attempts: PathBuf) -> SharedMemory {
        SharedMemory::at(Path::new(FOLDER), uid, attempts)
    }

    fn at(folder: &Path, uid: u32, attempts: PathBuf) -> SharedMemory {
        let seen = files(folder, uid).into_keys().collect();
        let none = BTreeSet::new();
        let last = other_activity(uid, &none, &attempts);
        SharedMemory {
            folder: folder.to_path_buf(),
            attempts,
            uid,
            seen,
            undecided: BTreeSet::new(),
            own: BTreeSet::new(),
            last,
        }
    }

    /// The memory of the job's files, in kilobytes. `processes` are all processes of the job on
    /// this host.
    pub fn measure(&mut self, processes: &[&Process]) -> u64 {
        let pids = processes.iter().map(|process| process.pid).collect();
        let now = other_activity(self.uid, &pids, &self.attempts);
        let found = files(&self.folder, self.uid);
        let is_certain = now.is_alone && self.last == now;
        self.last = now;
        let new = found.keys().filter(|inode| !self.seen.contains(inode));
        if is_certain {
            self.own.extend(new);
        } else {
            self.undecided.extend(new);
        }
        self.seen = found.keys().copied().collect();
        self.own.retain(|inode| found.contains_key(inode));
        self.undecided.retain(|inode| found.contains_key(inode));
        let open = self.open_in_job_only(&pids);
        let counted = open.iter().chain(&self.own);
        counted.filter_map(|inode| found.get(inode)).sum()
    }

    /// The undecided files that a process of the job has open or mapped, and no other process of
    /// the user has.
    fn open_in_job_only(&self, pids: &BTreeSet<i32>) -> BTreeSet<u64> {
        if self.undecided.is_empty() {
            return BTreeSet::new();
        }
        let mut inodes = BTreeSet::new();
        for &pid in pids {
            inodes.extend(open_files(pid, &self.folder));
        }
        inodes.retain(|inode| self.undecided.contains(inode));
        for pid in procfs::owned_by(self.uid) {
            if !pids.contains(&pid) {
                for inode in open_files(pid, &self.folder) {
                    inodes.remove(&inode);
                }
            }
        }
        inodes
    }
}

fn other_activity(uid: u32, job: &BTreeSet<i32>, attempts: &Path) -> OtherActivity {
    OtherActivity {
        is_alone: procfs::owned_by(uid).iter().all(|pid| job.contains(pid)),
        attempts_changed: fs::metadata(attempts)
            .and_then(|found| found.modified())
            .ok(),
    }
}

/// A user's files below a directory: inode number, and allocated size in kilobytes. Does not follow
/// links and does not enter other file systems.
fn files(folder: &Path, uid: u32) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    let Ok(top) = fs::metadata(folder) else {
        return found;
    };
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if found.len() + folders.len() > MAX_FILES {
                return found;
            }
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() && metadata.dev() == top.dev() {
                folders.push(entry.path());
            } else if metadata.is_file() && metadata.uid() == uid {
                found.insert(metadata.ino(), metadata.blocks().div_ceil(2));
            }
        }
    }
    found
}

/// Inode numbers of the files below a directory that a process has open or mapped.
fn open_files(pid: i32, folder: &Path) -> Vec<u64> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let mut inodes = Vec::new();
    for link in descriptors.map(|entry| entry.path()) {
        if fs::read_link(&link).is_ok_and(|target| target.starts_with(folder)) {
            inodes.extend(fs::metadata(link).ok().map(|metadata| metadata.ino()));
        }
    }
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    inodes.extend(maps.lines().filter_map(|line| mapped_inode(line, folder)));
    inodes
}

/// Parses a line of `/proc/PID/maps`: range, mode, offset, device, inode, path. Returns the inode
/// number if the path is below `folder`.
fn mapped_inode(line: &str, folder: &Path) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let inode = fields.nth(4)?.parse().ok()?;
    fields
        .next()
        .filter(|path| Path::new(path).starts_with(folder))
        .map(|_| inode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// A uid that no process has.
    const ABSENT: u32 = 3_999_999_999;

    fn write(folder: &Path, name: &str) -> File {
        fs::write(folder.join(name), vec![1; 64 << 10]).unwrap();
        File::open(folder.join(name)).unwrap()
    }

    fn memory(folder: &Path, uid: u32, attempts: &Path) -> SharedMemory {
        SharedMemory::at(folder, uid, attempts.to_path_buf())
    }

    #[test]
    fn new_files_count_while_the_job_alone_has_them_open() {
        let (folder, attempts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let before = write(folder.path(), "before");
        let me = procfs::own().unwrap();
        let mut memory = memory(
            folder.path(),
            crate::sys::user::effective(),
            attempts.path(),
        );
        drop(write(folder.path(), "closed"));
        let open = write(folder.path(), "open");
        let size = open.metadata().unwrap().blocks().div_ceil(2);
        assert!(size >= 64);
        // Other processes of this user are running, so only open files count.
        assert_eq!(memory.measure(&[&me]), size);
        drop(open);
        assert_eq!(memory.measure(&[&me]), 0);
        drop(before);
    }

    #[test]
    fn without_other_processes_new_files_count_even_if_closed() {
        let (folder, attempts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut memory = memory(folder.path(), ABSENT, attempts.path());
        memory.uid = crate::sys::user::effective();
        drop(write(folder.path(), "new"));
        let all: Vec<Process> = procfs::owned_by(memory.uid)
            .into_iter()
            .filter_map(procfs::process)
            .collect();
        let all: Vec<&Process> = all.iter().collect();
        // If another process of this user starts during the check, the file does not count.
        let size = memory.measure(&all);
        assert!(size == 0 || size >= 64, "{size}");
        memory.uid = ABSENT;
        assert_eq!(memory.measure(&[]), 0, "another user's files");
    }

    #[test]
    fn a_new_attempt_is_detected_as_other_activity() {
        let (folder, attempts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let state =
            |memory: &SharedMemory| other_activity(ABSENT, &BTreeSet::new(), &memory.attempts);
        let memory = memory(folder.path(), ABSENT, attempts.path());
        assert!(memory.last.is_alone && state(&memory) == memory.last);
        // Modification times have the resolution of the kernel's timer: a change within the same
        // timer interval would go unnoticed.
        crate::sys::clock::sleep(std::time::Duration::from_millis(20));
        fs::create_dir(attempts.path().join("2.1")).unwrap();
        assert_ne!(state(&memory), memory.last);
    }

    #[test]
    fn the_inode_of_a_mapped_file_is_parsed() {
        let line = "7f0-7f1 rw-s 00000000 00:19 77                         /dev/shm/x";
        assert_eq!(mapped_inode(line, Path::new("/dev/shm")), Some(77));
        assert_eq!(mapped_inode(line, Path::new("/tmp")), None);
        assert_eq!(
            mapped_inode("7f0-7f1 rw-p 00000000 00:00 0 ", Path::new("/dev/shm")),
            None
        );
    }
}
