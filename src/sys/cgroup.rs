//! Cgroups of version 2. The cgroup of a job contains the processes of the job on this host.

use super::clock;
use crate::model::time::Span;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The cgroup of a job.
#[derive(Debug)]
pub struct Cgroup {
    folder: PathBuf,
}

/// The directory of this process's cgroup. None if version 2 is not mounted. Version 1 can be
/// mounted in addition.
pub fn own() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let (root, mount) = mounts.lines().find_map(mount_of_version_2)?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    // In a container, the mount shows only the subtree of the hierarchy that begins at `root`.
    let below = group
        .strip_prefix(root.trim_end_matches('/'))
        .unwrap_or(group);
    Some(Path::new(mount).join(below.trim_start_matches('/')))
}

fn mount_of_version_2(line: &str) -> Option<(&str, &str)> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    (right.split(' ').next() == Some("cgroup2")).then_some((left.next()?, left.next()?))
}

/// Whether this process can create cgroups in `folder`, and the kernel has `cgroup.kill`.
pub fn usable(folder: &Path) -> bool {
    let Ok(group) = Cgroup::create(folder, &format!("lanai-probe-{}", std::process::id())) else {
        return false;
    };
    let kills = group.folder.join("cgroup.kill").exists();
    group.remove() && kills
}

/// The parent directory for the cgroups of jobs: the directory of this process's cgroup or, if this
/// cgroup is named `lanai-noded`, its parent. None if version 2 is not mounted.
pub fn base() -> Option<PathBuf> {
    own().map(parent_of_jobs)
}

fn parent_of_jobs(own: PathBuf) -> PathBuf {
    match own.parent() {
        Some(above) if own.ends_with(RESERVED_GROUP) => above.to_path_buf(),
        _ => own,
    }
}

/// The name of noded's cgroup in a systemd service with `DelegateSubgroup=`. noded needs a separate
/// cgroup, because the kernel limits a cgroup's memory only if the parent has no processes.
const RESERVED_GROUP: &str = "lanai-noded";

/// Enables the memory and pids controllers for the cgroups in `folder`, if the kernel permits.
pub fn offer_controllers(folder: &Path) {
    for controller in ["+memory", "+pids"] {
        // The write fails if the controller is missing or not delegated, or if `folder` has
        // processes.
        let _ = fs::write(folder.join("cgroup.subtree_control"), controller);
    }
}

impl Cgroup {
    /// Creates a cgroup in `parent`.
    pub fn create(parent: &Path, name: &str) -> io::Result<Cgroup> {
        let folder = parent.join(name);
        fs::create_dir(&folder)?;
        Ok(Cgroup { folder })
    }

    /// The existing cgroup with the directory `folder`.
    pub fn at(folder: &Path) -> Cgroup {
        Cgroup {
            folder: folder.to_path_buf(),
        }
    }

    /// The directory of the cgroup.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens the directory of the cgroup for [`fork_into`](super::process::fork_into).
    pub fn open(&self) -> io::Result<OwnedFd> {
        Ok(File::open(&self.folder)?.into())
    }

    /// Opens the file to which a process writes its pid to join the cgroup.
    pub fn members(&self) -> io::Result<File> {
        File::options()
            .write(true)
            .open(self.folder.join("cgroup.procs"))
    }

    /// The pids of the processes in the cgroup.
    pub fn processes(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Kills every process in the cgroup, including processes that are being forked.
    pub fn kill(&self) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.kill"), "1")
    }

    /// Freezes or thaws every process in the cgroup. Fails if the kernel does not support freezing.
    pub fn freeze(&self, freeze: bool) -> io::Result<()> {
        // If the file is missing, the kernel does not support freezing. Do not create it.
        let file = File::options()
            .write(true)
            .open(self.folder.join("cgroup.freeze"))?;
        file.write_all_at(if freeze { b"1" } else { b"0" }, 0)
    }

    /// Whether every process in the cgroup is frozen.
    pub fn is_frozen(&self) -> bool {
        let events = fs::read_to_string(self.folder.join("cgroup.events")).unwrap_or_default();
        events.lines().any(|line| line == "frozen 1")
    }

    /// Waits until the cgroup has no processes, for up to `timeout`.
    pub fn wait_until_empty(&self, timeout: Span) {
        let until = clock::monotonic().0 + timeout.0;
        let Ok(events) = File::open(self.folder.join("cgroup.events")) else {
            return;
        };
        let mut text = [0; 256];
        loop {
            let length = events.read_at(&mut text, 0).unwrap_or(0);
            let left = until - clock::monotonic().0;
            if text[..length].starts_with(b"populated 0") || left <= 0 {
                return;
            }
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let _ = poll(
                &mut [PollFd::new(events.as_fd(), PollFlags::POLLPRI)],
                timeout,
            );
        }
    }

    /// Removes the cgroup, and child cgroups that the job has created. Returns false if the cgroup
    /// cannot be removed, for instance because it still has processes.
    pub fn remove(&self) -> bool {
        match fs::remove_dir(&self.folder) {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::NotFound => true,
            Err(_) => remove_below(&self.folder) && fs::remove_dir(&self.folder).is_ok(),
        }
    }

    /// Limits the memory of the cgroup to `kb` kilobytes, and prevents swapping. Above the limit,
    /// the kernel kills all processes in the cgroup. Returns false if the limit cannot be set.
    pub fn limit_memory(&self, kb: u64) -> bool {
        let bytes = kb.saturating_mul(1024).to_string();
        let limited = fs::write(self.folder.join("memory.max"), bytes);
        // These files do not exist on older kernels or without swap.
        let _ = fs::write(self.folder.join("memory.swap.max"), "0");
        let _ = fs::write(self.folder.join("memory.oom.group"), "1");
        limited.is_ok()
    }

    /// Limits the number of processes and threads in the cgroup. At the limit, forks fail. Returns
    /// false if the limit cannot be set, for instance without the pids controller.
    pub fn limit_processes(&self, limit: u64) -> bool {
        // Without the pids controller, the file is missing. Do not create it.
        let file = File::options()
            .write(true)
            .open(self.folder.join("pids.max"));
        file.and_then(|file| file.write_all_at(limit.to_string().as_bytes(), 0))
            .is_ok()
    }

    /// The peak memory of the cgroup in kilobytes if the OOM killer has killed a process in the
    /// cgroup; 0 if the peak is unknown. None if the OOM killer has not killed a process, or if
    /// that is unknown.
    pub fn out_of_memory(&self) -> Option<u64> {
        let events = fs::read_to_string(self.folder.join("memory.events")).ok()?;
        let kills = events
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "))?;
        if kills.trim().parse::<u64>().ok()? == 0 {
            return None;
        }
        let peak = fs::read_to_string(self.folder.join("memory.peak")).unwrap_or_default();
        Some(peak.trim().parse::<u64>().unwrap_or(0) / 1024)
    }

    /// The processor time that processes in the cgroup have used so far; None if unknown.
    pub fn cput(&self) -> Option<Span> {
        let stat = fs::read_to_string(self.folder.join("cpu.stat")).ok()?;
        let usage = stat
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))?;
        Some(Span(usage.trim().parse::<i64>().ok()? / 1000))
    }
}

/// Removes the child cgroups without processes. Returns whether any was removed.
fn remove_below(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path());
    let mut any = false;
    for below in folders {
        any |= remove_below(&below) | fs::remove_dir(&below).is_ok();
    }
    any
}

/// Removes each job's cgroup in `parent` if the job's shepherd (the process that watches the job)
/// has ended. The name of the cgroup ends with the pid of the shepherd. A cgroup with processes
/// stays.
pub fn tidy(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let shepherd = name
            .strip_prefix("lanai-")
            .and_then(|rest| rest.rsplit_once('-'))
            .map(|(_, number)| number);
        if let Some(number) = shepherd
            && number.parse::<u32>().is_ok()
            && !Path::new("/proc").join(number).exists()
        {
            // This fails if the cgroup has processes.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_of_jobs_are_next_to_a_reserved_group_and_below_others() {
        assert_eq!(
            parent_of_jobs("/c/noded.service/lanai-noded".into()),
            Path::new("/c/noded.service")
        );
        assert_eq!(
            parent_of_jobs("/c/session.scope".into()),
            Path::new("/c/session.scope")
        );
    }

    #[test]
    fn an_out_of_memory_kill_is_reported_with_the_peak() {
        let folder = tempfile::tempdir().unwrap();
        let group = Cgroup::at(folder.path());
        assert_eq!(group.out_of_memory(), None, "no memory controller");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(
            "memory.events",
            "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n",
        );
        assert_eq!(group.out_of_memory(), None);
        write(
            "memory.events",
            "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n",
        );
        assert_eq!(
            group.out_of_memory(),
            Some(0),
            "a kernel without memory.peak"
        );
        write("memory.peak", "62914560\n");
        assert_eq!(group.out_of_memory(), Some(61_440));
    }

    #[test]
    fn the_memory_limit_is_written_in_bytes() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!Cgroup::at(&folder.path().join("none")).limit_memory(1024));
        assert!(Cgroup::at(folder.path()).limit_memory(1024));
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(
            (read("memory.max"), read("memory.oom.group")),
            ("1048576".into(), "1".into())
        );
    }

    #[test]
    fn processes_are_only_limited_if_the_controller_exists() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!Cgroup::at(folder.path()).limit_processes(77));
        fs::write(folder.path().join("pids.max"), "").unwrap();
        assert!(Cgroup::at(folder.path()).limit_processes(77));
        assert_eq!(
            fs::read_to_string(folder.path().join("pids.max")).unwrap(),
            "77"
        );
    }

    #[test]
    fn the_mount_of_version_2_is_found_next_to_version_1_and_in_a_container() {
        let hybrid = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        assert_eq!(
            mount_of_version_2(hybrid),
            Some(("/", "/sys/fs/cgroup/unified"))
        );
        let container = "30 20 0:26 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup rw";
        assert_eq!(
            mount_of_version_2(container),
            Some(("/docker/ab", "/sys/fs/cgroup"))
        );
        assert_eq!(
            mount_of_version_2("32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"),
            None
        );
    }
}
