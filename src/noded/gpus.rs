//! Detects the use of GPUs outside of jobs. The vendor's tool lists the processes that use GPUs. A
//! process is outside of jobs if it does not descend from a shepherd of this noded.
//!
//! Processes that are not in `/proc` (because they have ended, or run in another container) are
//! ignored.

use super::poller::Poller;
use crate::model::time::Span;
use crate::sys::procfs;
use crate::sys::program::{OutputMode, ProgramCall, ProgramFault, ProgramPool, RunningProgram};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use tracing::{info, warn};

/// Time limit of the tool.
const TOOL_TIMEOUT: Span = Span::seconds(20);

/// Maximum number of ancestors of a process to examine, because the data of `/proc` may contain
/// loops.
const MAX_ANCESTORS: usize = 1000;

/// The arguments of the tool for the two queries, in the order in which they are made.
const QUERIES: [&[&str]; 2] = [
    &["--query-gpu=index,uuid", "--format=csv,noheader"],
    &[
        "--query-compute-apps=gpu_uuid,pid,used_memory",
        "--format=csv,noheader",
    ],
];

/// Watches the use of GPUs.
#[derive(Debug)]
pub struct GpuWatcher {
    /// The vendor's tool; None if GPUs are not watched, or if the tool is missing.
    tool: Option<PathBuf>,
    interval: Span,
    next: Span,
    /// The running tool, with the index of its query.
    running: ProgramPool<usize>,
    /// The result of the first query: GPU numbers by UUID.
    numbers: BTreeMap<String, u16>,
    /// Whether the last query failed.
    failed: bool,
    /// Whether the use is still unknown: the tool has neither answered nor failed yet.
    is_unknown: bool,
    /// The GPUs used outside of jobs, if they must be reported to schedd.
    news: Option<BTreeSet<u16>>,
}

impl GpuWatcher {
    /// Creates a watcher that runs `tool` at intervals. Without a tool, it watches nothing.
    pub fn new(tool: Option<PathBuf>, interval: Span, now: Span) -> GpuWatcher {
        GpuWatcher {
            is_unknown: tool.is_some(),
            tool,
            interval,
            next: now,
            running: ProgramPool::new(1),
            numbers: BTreeMap::new(),
            failed: false,
            news: None,
        }
    }

    /// Whether the use of GPUs is still unknown. Until it is known, jobs should get no GPUs.
    pub fn is_use_unknown(&self) -> bool {
        self.is_unknown
    }

    /// Takes the GPUs used outside of jobs. None if there is no new result since the last call.
    pub fn take_news(&mut self) -> Option<BTreeSet<u16>> {
        self.news.take()
    }

    /// When the next query is due, or the running query exceeds its time limit; None if there is no
    /// tool.
    pub fn due(&self) -> Option<Span> {
        self.tool.as_ref()?;
        Some(self.running.next().unwrap_or(self.next))
    }

    /// Starts queries that are due, and handles their results. After the second query, finds the
    /// GPUs used by processes that do not descend from a shepherd.
    pub fn update(
        &mut self,
        now: Span,
        poller: &mut Poller,
        shepherds: impl FnOnce() -> BTreeSet<i32>,
    ) {
        let finished = self.running.finished(now).pop();
        let is_due = self.tool.is_some() && self.next <= now;
        match finished.map(|(query, result)| (query, result.exit)) {
            Some((_, Err(ProgramFault::Late(_)))) => {
                self.fail("the program exceeds its time limit");
                self.next = now + self.interval;
            }
            Some((_, Err(fault))) => self.fail(&fault.to_string()),
            Some((0, Ok(exit))) => {
                self.numbers = exit.text.lines().filter_map(number).collect();
                if self.numbers.is_empty() {
                    self.fail("the program lists no GPUs");
                } else {
                    self.start_query(1, now, poller);
                }
            }
            Some((_, Ok(exit))) => {
                self.failed = false;
                let outside = self.used_outside(&exit.text, shepherds);
                self.set_outside(outside);
            }
            None if is_due && self.running.has_room() => {
                self.next = now + self.interval;
                // Do not start the tool again while it hangs.
                if self.running.is_empty() {
                    self.start_query(0, now, poller);
                }
            }
            None => {}
        }
    }

    fn start_query(&mut self, query: usize, now: Span, poller: &mut Poller) {
        let Some(program) = &self.tool else { return };
        let started = start(program, QUERIES[query], now);
        match started.and_then(|tool| poller.watch(tool)) {
            Ok(tool) => self.running.add(query, None, tool),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                info!(
                    "{} not found: GPU use outside of jobs is not detected",
                    program.display()
                );
                self.tool = None;
                self.set_outside(BTreeSet::new());
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }

    fn used_outside(
        &self,
        output: &str,
        shepherds: impl FnOnce() -> BTreeSet<i32>,
    ) -> BTreeSet<u16> {
        let users: Vec<(&str, i32)> = output.lines().filter_map(gpu_process).collect();
        let ours = if users.is_empty() {
            BTreeSet::new()
        } else {
            shepherds()
        };
        let parent = |pid: i32| {
            procfs::process(pid)
                .filter(|process| process.lives())
                .map(|process| process.parent)
        };
        let outside = users
            .into_iter()
            .filter(|&(_, pid)| is_outside(pid, &ours, parent));
        outside
            .filter_map(|(uuid, _)| self.numbers.get(uuid).copied())
            .collect()
    }

    fn set_outside(&mut self, outside: BTreeSet<u16>) {
        self.is_unknown = false;
        self.news = Some(outside);
    }

    /// Handles a failure. Logs it unless the previous query failed, too. The last known use remains
    /// valid. If the use was never known, no GPU counts as used outside of jobs.
    fn fail(&mut self, why: &str) {
        if self.is_unknown {
            self.set_outside(BTreeSet::new());
        }
        if let Some(tool) = &self.tool
            && !self.failed
        {
            warn!(
                "{} cannot list the processes that use GPUs: {why}",
                tool.display()
            );
        }
        self.failed = true;
    }
}

fn start(program: &Path, arguments: &[&str], now: Span) -> io::Result<RunningProgram> {
    let mut words = vec![program.display().to_string()];
    words.extend(arguments.iter().map(|word| word.to_string()));
    let call = ProgramCall {
        output: OutputMode::UntilClosed,
        ..ProgramCall::new(&words, TOOL_TIMEOUT)
    };
    call.start(now)
}

/// Parses `0, GPU-8f1c...`. Returns the UUID and the number of a GPU.
fn number(line: &str) -> Option<(String, u16)> {
    let (index, uuid) = line.split_once(',')?;
    Some((uuid.trim().to_string(), index.trim().parse().ok()?))
}

/// Parses `GPU-8f1c..., 4711, 512 MiB`. Returns the UUID of a GPU and the pid of a process.
fn gpu_process(line: &str) -> Option<(&str, i32)> {
    let mut words = line.split(',').map(str::trim);
    Some((words.next()?, words.next()?.parse().ok()?))
}

/// Whether a process is alive and does not descend from one of the shepherds. `parent` returns the
/// parent of a process, or None if the process is not alive.
fn is_outside(pid: i32, shepherds: &BTreeSet<i32>, parent: impl Fn(i32) -> Option<i32>) -> bool {
    let Some(first) = parent(pid) else {
        return false;
    };
    let mut ancestors = std::iter::successors(Some(first), |&pid| parent(pid)).take(MAX_ANCESTORS);
    !shepherds.contains(&pid) && !ancestors.any(|pid| shepherds.contains(&pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_the_tool_is_parsed() {
        assert_eq!(number("1, GPU-ab"), Some(("GPU-ab".to_string(), 1)));
        assert_eq!(gpu_process("GPU-ab, 4711, 512 MiB"), Some(("GPU-ab", 4711)));
        assert_eq!(gpu_process("GPU-ab, 4711, [N/A]"), Some(("GPU-ab", 4711)));
        for junk in ["", "No devices were found", "GPU-ab, [N/A], 5 MiB", ","] {
            assert_eq!((number(junk), gpu_process(junk)), (None, None), "{junk}");
        }
    }

    #[test]
    fn descendants_of_a_shepherd_are_not_outside_of_jobs() {
        let parents = BTreeMap::from([(10, 1), (11, 10), (12, 11), (20, 1), (30, 31), (31, 30)]);
        let parent = |pid: i32| parents.get(&pid).copied();
        let shepherds = BTreeSet::from([10]);
        assert!(
            [10, 11, 12]
                .iter()
                .all(|&pid| !is_outside(pid, &shepherds, parent))
        );
        assert!(is_outside(20, &shepherds, parent));
        assert!(
            !is_outside(99, &shepherds, parent),
            "a process that has ended uses nothing"
        );
        assert!(
            is_outside(30, &shepherds, parent),
            "a loop of parents does not hang"
        );
    }
}
