//! The hardware of this host, and the part of it that this process may use.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};

/// The numbers of the host's processors that this process may use.
pub fn processors() -> Vec<u16> {
    match sched_getaffinity(Pid::from_raw(0)) {
        Ok(set) => (0..CpuSet::count())
            .filter(|&n| set.is_set(n).unwrap_or(false))
            .map(|n| n as u16)
            .collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, |n| n.get() as u16)).collect(),
    }
}

/// Number of processors of the whole host.
pub fn host_processors() -> u32 {
    let online = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN);
    online
        .ok()
        .flatten()
        .and_then(|n| u32::try_from(n).ok())
        .unwrap_or(1)
        .max(1)
}

/// The lowest CPU quota of this process's cgroup and its ancestors, in processors, rounded up. None
/// without a quota.
pub fn quota() -> Option<u32> {
    let unified = limits("cgroup2", "cpu.max").into_iter().filter_map(|text| {
        let (quota, period) = text.split_once(' ')?;
        Some((quota.parse().ok()?, period.trim().parse().ok()?))
    });
    let quotas = limits("cpu", "cpu.cfs_quota_us").into_iter();
    let old = quotas
        .zip(limits("cpu", "cpu.cfs_period_us"))
        .filter_map(|(quota, period)| {
            Some((
                quota.trim().parse::<i64>().ok().filter(|&q| q > 0)?,
                period.trim().parse().ok()?,
            ))
        });
    unified
        .chain(old)
        .filter_map(|(quota, period): (i64, i64)| processors_of(quota, period))
        .min()
}

fn processors_of(quota: i64, period: i64) -> Option<u32> {
    let (quota, period) = (
        u64::try_from(quota).ok()?,
        u64::try_from(period).ok().filter(|&p| p > 0)?,
    );
    u32::try_from(quota.div_ceil(period)).ok().map(|n| n.max(1))
}

/// Memory in kilobytes: the lower of the host's memory and the lowest limit of this process's
/// cgroup and its ancestors.
pub fn memory_kb() -> u64 {
    let files = limits("cgroup2", "memory.max")
        .into_iter()
        .chain(limits("memory", "memory.limit_in_bytes"));
    let allowed = files
        .filter_map(|text| text.trim().parse::<u64>().ok())
        .map(|bytes| bytes / 1024)
        .min();
    let total = meminfo("MemTotal").unwrap_or(0);
    allowed.map_or(total, |kb| kb.min(total))
}

/// Memory in use in kilobytes, without file pages that the kernel can drop. None if unknown.
pub fn memory_in_use_kb() -> Option<u64> {
    let (total, free) = (meminfo("MemTotal")?, meminfo("MemAvailable")?);
    let host = total.saturating_sub(free);
    // In a container with less memory than the host, only memory used in the container counts.
    if memory_kb() < total {
        group_memory_kb().or(Some(host))
    } else {
        Some(host)
    }
}

/// Swap space of the host in use, in kilobytes. None if unknown.
pub fn swap_in_use_kb() -> Option<u64> {
    Some(meminfo("SwapTotal")?.saturating_sub(meminfo("SwapFree")?))
}

/// The host's load average over one minute, in thousandths. None if unknown.
pub fn load() -> Option<u32> {
    first_load(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn first_load(text: &str) -> Option<u32> {
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    (load.is_finite() && load >= 0.0).then(|| (load * 1000.0).round() as u32)
}

/// The value of the line `name` in `/proc/meminfo`, in kilobytes.
fn meminfo(name: &str) -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line?.split_whitespace().next()?.parse().ok()
}

/// Memory in use in kilobytes, in the cgroup with the lowest limit: this process's cgroup or one of
/// its ancestors.
fn group_memory_kb() -> Option<u64> {
    let unified = tightest_memory_kb("cgroup2", "memory.max", "memory.current");
    unified
        .or_else(|| tightest_memory_kb("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"))
}

fn tightest_memory_kb(kind: &str, limit: &str, usage: &str) -> Option<u64> {
    let bounds = folders(kind)
        .into_iter()
        .filter_map(|folder| Some((number_in(&folder.join(limit))?, folder)));
    let (_, group) = bounds.min()?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    // The kernel can drop file pages that no process has used lately.
    let droppable = counter(&stat, "total_inactive_file")
        .or_else(|| counter(&stat, "inactive_file"))
        .unwrap_or(0);
    Some(number_in(&group.join(usage))?.saturating_sub(droppable) / 1024)
}

fn number_in(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn counter(stat: &str, name: &str) -> Option<u64> {
    stat.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Whether the host has AMD GPUs and no NVIDIA GPUs.
pub fn has_amd_gpus() -> bool {
    nvidia_gpus().is_empty() && amd_gpus() > 0
}

/// The numbers of the host's NVIDIA GPUs; without such GPUs, the numbers of its AMD GPUs.
pub fn gpus() -> Vec<u16> {
    let numbers = nvidia_gpus();
    if numbers.is_empty() {
        (0..amd_gpus()).collect()
    } else {
        numbers
    }
}

fn nvidia_gpus() -> Vec<u16> {
    let names = fs::read_dir("/dev")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    let mut numbers: Vec<u16> = names
        .filter_map(|name| name.to_str()?.strip_prefix("nvidia")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// The number of AMD GPUs: devices with SIMD units in the topology of the AMD driver, which also
/// lists CPUs.
fn amd_gpus() -> u16 {
    let nodes = fs::read_dir("/sys/class/kfd/kfd/topology/nodes")
        .into_iter()
        .flatten()
        .flatten();
    let found = nodes
        .filter_map(|node| fs::read_to_string(node.path().join("properties")).ok())
        .filter(|properties| computes(properties));
    found.count() as u16
}

fn computes(properties: &str) -> bool {
    let mut counts = properties
        .lines()
        .filter_map(|line| line.strip_prefix("simd_count "));
    counts.any(|count| count.trim() != "0")
}

/// The host's name up to the first dot.
pub fn short_host_name() -> String {
    let name = nix::unistd::gethostname()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let short = name.split('.').next().unwrap_or_default();
    if short.is_empty() {
        "localhost".into()
    } else {
        short.to_string()
    }
}

/// The contents of the file `name` in this process's cgroup and the ancestors of that cgroup.
/// `kind` is `cgroup2` for cgroups of version 2, or a controller of version 1.
fn limits(kind: &str, name: &str) -> Vec<String> {
    folders(kind)
        .into_iter()
        .filter_map(|path| fs::read_to_string(path.join(name)).ok())
        .collect()
}

/// The directories of this process's cgroup and the ancestors of that cgroup.
fn folders(kind: &str) -> Vec<PathBuf> {
    let Some(folder) = group(kind) else {
        return Vec::new();
    };
    let inside = folder
        .ancestors()
        .take_while(|path| path.starts_with("/sys/fs/cgroup"));
    inside.map(Path::to_path_buf).collect()
}

fn group(kind: &str) -> Option<PathBuf> {
    if kind == "cgroup2" {
        return super::cgroup::own();
    }
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers
            .split(',')
            .any(|controller| controller == kind)
            .then_some(path)
    })?;
    let inside = Path::new("/sys/fs/cgroup")
        .join(kind)
        .join(group.trim_start_matches('/'));
    // In a container, the root of the mount is the cgroup of the container.
    Some(if inside.exists() {
        inside
    } else {
        Path::new("/sys/fs/cgroup").join(kind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_rounded_up_to_whole_processors() {
        assert_eq!(processors_of(150_000, 100_000), Some(2));
        assert_eq!(processors_of(50_000, 100_000), Some(1));
        assert_eq!(processors_of(-1, 100_000), None);
        assert_eq!(processors_of(1, 0), None);
    }

    #[test]
    fn the_load_is_read_in_thousandths() {
        assert_eq!(first_load("0.25 0.30 0.12 1/123 4567\n"), Some(250));
        assert_eq!(first_load("137.4 1 1 1/1 1"), Some(137_400));
        assert_eq!(
            (first_load(""), first_load("-1 0 0"), first_load("nan 0 0")),
            (None, None, None)
        );
    }

    #[test]
    fn memory_in_use_is_above_zero_and_below_the_total() {
        let used = memory_in_use_kb().unwrap();
        assert!(used > 0 && used < meminfo("MemTotal").unwrap());
        assert!(load().is_some() && swap_in_use_kb().is_some());
    }

    #[test]
    fn this_host_has_processors_memory_and_a_name() {
        assert!(!processors().is_empty());
        assert!(host_processors() as usize >= 1);
        assert!(memory_kb() > 0);
        assert!(!short_host_name().contains('.'));
    }
}
