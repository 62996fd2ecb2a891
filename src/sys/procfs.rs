//! Processes in `/proc`.

use super::process::shares_memory;
use nix::libc::{ENOENT, ESRCH};
use nix::unistd::{SysconfVar, sysconf};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

/// A process, as `/proc/<pid>/stat` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The pid.
    pub pid: i32,
    /// The state: `R`, `S`, `D`, `T`, `Z`, ... (see proc(5)).
    pub state: u8,
    /// The pid of the parent.
    pub parent: i32,
    /// The session.
    pub session: i32,
    /// Start time in clock ticks since boot. No other process has the same pid and start time.
    pub started: u64,
    /// Processor time of the process and of children that it has reaped, in milliseconds.
    pub cput: i64,
    /// Address space, in kilobytes.
    pub vmem_kb: u64,
    /// Resident memory, in kilobytes.
    pub mem_kb: u64,
    /// Number of threads.
    pub threads: u64,
}

impl Process {
    /// Whether the process is stopped by a signal or a tracer.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    /// Whether the process has not ended. A zombie has ended.
    pub fn lives(&self) -> bool {
        !matches!(self.state, b'Z' | b'X')
    }
}

/// The process with this pid, if there is one.
pub fn process(pid: i32) -> Option<Process> {
    try_process(pid).ok().flatten()
}

/// Like [`process()`], but returns an error if it cannot be determined whether the process exists,
/// for instance because too many files are open.
pub fn try_process(pid: i32) -> io::Result<Option<Process>> {
    match read(&format!("/proc/{pid}/stat")) {
        Err(e) if matches!(e.raw_os_error(), Some(ENOENT | ESRCH)) => Ok(None),
        other => other.map(Some),
    }
}

/// The data of this process.
pub fn own() -> Option<Process> {
    read("/proc/self/stat").ok()
}

fn read(path: &str) -> io::Result<Process> {
    // The file is shorter than 1 KiB, so a single read is enough. `fs::read` would make several
    // more system calls.
    let mut stat = [0; 1024];
    let length = File::open(path)?.read(&mut stat)?;
    parse(&stat[..length]).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The thread ids of a process.
pub fn threads(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// All processes of this host, or of this container.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(process).collect()
}

/// The pids of all processes of a user.
pub fn owned_by(uid: u32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.metadata().is_ok_and(|found| found.uid() == uid))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The living descendants of a process. Reads all processes of the host.
pub fn descendants(of: i32) -> Vec<Process> {
    let all = all();
    let mut family = BTreeSet::from([of]);
    // Parents can have higher pids than their children, so repeat until no process is added.
    while all
        .iter()
        .any(|p| family.contains(&p.parent) && family.insert(p.pid))
    {}
    all.into_iter()
        .filter(|p| p.pid != of && p.lives() && family.contains(&p.pid))
        .collect()
}

/// The living descendants of a process, found from parent to child. Unlike [`descendants`], does
/// not read other processes, but can miss a process that is being forked. If the kernel does not
/// list the children of processes, calls [`descendants`].
pub fn family(of: i32) -> Vec<Process> {
    let (mut found, mut unseen) = (Vec::new(), vec![of]);
    while let Some(pid) = unseen.pop() {
        match children(pid) {
            Some(pids) => unseen.extend(&pids),
            // The kernel does not list children, or the process has ended.
            None if pid == of => return descendants(of),
            None => continue,
        }
        found.extend(process(pid).filter(|p| pid != of && p.lives()));
    }
    found
}

/// The pids of the children of all threads of a process. None if the process has ended, or if the
/// kernel does not list children.
fn children(pid: i32) -> Option<Vec<i32>> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let mut pids = Vec::new();
    for thread in threads {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => pids.extend(
                text.split_ascii_whitespace()
                    .filter_map(|pid| pid.parse::<i32>().ok()),
            ),
            Err(e) if e.kind() == io::ErrorKind::NotFound && thread.path().exists() => return None,
            Err(_) => {}
        }
    }
    Some(pids)
}

/// The processes of `family` that do not share memory with a parent in `family`. Between vfork and
/// exec, a child uses the memory of its parent, and the kernel reports that memory for both.
pub fn with_own_memory(family: &[Process]) -> Vec<&Process> {
    let pids: BTreeSet<i32> = family.iter().map(|process| process.pid).collect();
    family
        .iter()
        .filter(|p| !pids.contains(&p.parent) || !shares_memory(p.pid, p.parent))
        .collect()
}

/// Resident memory of a process in kilobytes, first private and then shared memory. Shared memory
/// is divided equally among the processes that share it. Pages of files on disk do not count,
/// because the kernel can read them again. If the kernel does not report private memory, shared
/// memory and file pages separately, all resident memory, including file pages, counts as
/// shared.
pub fn proportional_kb(of: &Process) -> (u64, u64) {
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", of.pid)).unwrap_or_default();
    // Without this file, use the resident memory now. A process that has ended has none.
    proportional(&rollup).unwrap_or_else(|| (0, process(of.pid).map_or(0, |now| now.mem_kb)))
}

fn proportional(rollup: &str) -> Option<(u64, u64)> {
    let own = rollup_kb(rollup, "Pss_Anon");
    let shared = rollup_kb(rollup, "Pss_Shmem");
    if let (Some(own), Some(shared)) = (own, shared) {
        return Some((own, shared));
    }
    // Older kernels do not list file pages separately.
    Some((0, rollup_kb(rollup, "Pss")?))
}

fn rollup_kb(rollup: &str, name: &str) -> Option<u64> {
    let value = rollup
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Whether the process was started with the entry `NAME=value` in its environment.
pub fn has_environment_entry(pid: i32, entry: &[u8]) -> bool {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environ.split(|&b| b == 0).any(|e| e == entry)
}

/// The effective uid of a process.
pub fn owner(pid: i32) -> Option<u32> {
    fs::metadata(format!("/proc/{pid}")).ok().map(|m| m.uid())
}

fn parse(stat: &[u8]) -> Option<Process> {
    let open = stat.iter().position(|&b| b == b'(')?;
    let pid = std::str::from_utf8(&stat[..open])
        .ok()?
        .trim()
        .parse()
        .ok()?;
    // The name in parentheses can contain any byte; the last parenthesis ends it.
    let close = stat.iter().rposition(|&b| b == b')')?;
    let fields: Vec<&str> = std::str::from_utf8(&stat[close + 1..])
        .ok()?
        .split_ascii_whitespace()
        .collect();
    let ticks =
        number(&fields, 14)? + number(&fields, 15)? + number(&fields, 16)? + number(&fields, 17)?;
    Some(Process {
        pid,
        state: *fields.first()?.as_bytes().first()?,
        parent: number(&fields, 4)? as i32,
        session: number(&fields, 6)? as i32,
        started: number(&fields, 22)? as u64,
        cput: ticks * 1000 / constant(SysconfVar::CLK_TCK, 100),
        vmem_kb: fields.get(20)?.parse::<u64>().ok()? / 1024,
        threads: number(&fields, 20)?.max(0).unsigned_abs(),
        mem_kb: number(&fields, 24)? as u64 * constant(SysconfVar::PAGE_SIZE, 4096) as u64 / 1024,
    })
}

/// A field of `/proc/PID/stat`, given by its number in proc(5).
fn number(fields: &[&str], field: usize) -> Option<i64> {
    fields.get(field - 3)?.parse().ok()
}

fn constant(name: SysconfVar, usual: i64) -> i64 {
    sysconf(name)
        .ok()
        .flatten()
        .filter(|&value| value > 0)
        .unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::{CloneFlags, clone};
    use nix::sys::signal::{Signal, kill};
    use nix::sys::wait::waitpid;

    #[test]
    fn a_name_with_parentheses_is_parsed() {
        let line =
            b"42 (a) R (b) S 7 42 41 0 -1 0 0 0 0 0 100 50 25 25 20 0 1 0 9999 4096000 250 0";
        let process = parse(line).unwrap();
        assert_eq!(
            (process.pid, process.state, process.parent, process.session),
            (42, b'S', 7, 41)
        );
        assert_eq!((process.started, process.vmem_kb), (9999, 4000));
    }

    #[test]
    fn this_process_is_a_descendant_of_its_parent() {
        let me = own().unwrap();
        assert!(descendants(me.parent).iter().any(|p| p.pid == me.pid));
        assert!(!descendants(me.pid).iter().any(|p| p.pid == me.pid));
        assert!(family(me.parent).iter().any(|p| p.pid == me.pid));
        assert!(!family(me.pid).iter().any(|p| p.pid == me.pid));
    }

    #[test]
    fn a_process_that_shares_the_memory_of_its_parent_does_not_count() {
        let family = |child: i32| [own().unwrap(), process(child).unwrap()];
        let counted = |family: &[Process]| {
            with_own_memory(family)
                .iter()
                .map(|p| p.pid)
                .collect::<Vec<_>>()
        };
        let me = own().unwrap().pid;
        for (flags, has_own) in [(CloneFlags::CLONE_VM, false), (CloneFlags::empty(), true)] {
            let mut stack = vec![0; 1 << 16];
            let sleep = Box::new(|| {
                nix::unistd::pause();
                0
            });
            let signal = Some(Signal::SIGCHLD as i32);
            // SAFETY: the child makes one system call, on a stack that outlives it.
            let child = unsafe { clone(sleep, &mut stack, flags, signal) }.unwrap();
            let both = family(child.as_raw());
            let seen = (counted(&both), counted(&both[1..]));
            kill(child, Signal::SIGKILL).unwrap();
            waitpid(child, None).unwrap();
            let expected = if has_own {
                vec![me, child.as_raw()]
            } else {
                vec![me]
            };
            assert_eq!(
                seen,
                (expected, vec![child.as_raw()]),
                "a child counts if its parent is not in the list"
            );
        }
    }

    #[test]
    fn proportional_memory_does_not_exceed_resident_memory() {
        let me = own().unwrap();
        let (own_part, shared_part) = proportional_kb(&me);
        let part = own_part + shared_part;
        assert!(part > 0 && part <= own().unwrap().mem_kb + 4096);
        assert_eq!(
            proportional_kb(&Process {
                pid: i32::MAX,
                ..me
            }),
            (0, 0),
            "a process that has ended"
        );
        let new = "1-2 ---p 0 0 0 [rollup]\nRss: 90 kB\nPss: 70 kB\nPss_Anon: 40 kB\nPss_File: 25 kB\nPss_Shmem: 5 kB\n";
        assert_eq!(proportional(new), Some((40, 5)));
        assert_eq!(proportional("Rss: 90 kB\nPss:   70 kB\n"), Some((0, 70)));
        assert_eq!(proportional(""), None);
    }
}
