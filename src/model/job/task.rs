//! Tasks: processes that a job itself starts on its nodes, besides its script.
//!
//! A task belongs to an attempt and never outlives the attempt. When the script of an attempt ends,
//! the attempt is *closing*: its remaining tasks are terminated, and each node stays allocated
//! until the last task on the node has ended. A requeued job starts again only after all its tasks
//! have ended. Users get the exit status of the script without this delay.

use super::attempt::{Attempt, NodeShare, TaskNumber, Usage};
use crate::model::job_id::JobId;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Random number that the requester of a task chooses. A repeated request with the same number
/// starts no second task. The stored token is 0 once the requester no longer needs the task's
/// status.
pub type TaskToken = u64;

/// Maximum number of unfinished tasks of an attempt, and also of stored finished tasks.
pub const MOST: usize = 4096;

/// Status of a task that could not be executed, or was lost with its node.
pub const NOT_EXECUTED: i32 = 254;

/// Tasks of one attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tasks {
    /// Highest task number so far.
    pub made: TaskNumber,
    /// Unfinished tasks, and finished tasks with a status that can still be queried.
    pub known: BTreeMap<TaskNumber, JobTask>,
    /// Latest reported usage of the script.
    pub script: Usage,
    /// Processor time of the finished tasks.
    pub past: Span,
    /// The script has ended.
    pub closing: bool,
}

/// One task of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobTask {
    /// Token chosen by the requester.
    pub token: TaskToken,
    /// Line of the node file on which the task runs, from 0.
    pub slot: u32,
    /// Number of the task that requested this task; 0 for the script.
    pub asker: TaskNumber,
    /// State of the task.
    pub stage: TaskStage,
    /// schedd has ordered the node to end the task.
    pub ending: bool,
    /// Usage while the task is unfinished.
    pub used: Usage,
}

/// Identifies a task of an attempt, or its script.
#[derive(Clone, Copy, Debug)]
pub struct TaskName {
    /// Job id.
    pub job: JobId,
    /// Number of the attempt.
    pub attempt: Attempt,
    /// Number of the task; 0 for the script.
    pub task: TaskNumber,
}

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskStage {
    /// The start is ordered, but the node has not reported it.
    Ordered,
    /// The task runs.
    Running,
    /// The task has finished with this status: its exit code 0 to 255, 128+N for signal N, or
    /// [`NOT_EXECUTED`].
    Over(i32),
}

impl JobTask {
    /// Tests whether the task is unfinished.
    pub fn is_open(&self) -> bool {
        !matches!(self.stage, TaskStage::Over(_))
    }
}

impl Tasks {
    /// Returns the unfinished tasks.
    pub fn open(&self) -> impl Iterator<Item = (TaskNumber, &JobTask)> {
        self.known
            .iter()
            .filter(|(_, task)| task.is_open())
            .map(|(&number, task)| (number, task))
    }

    /// Adds a task and returns its number.
    pub fn make(&mut self, token: TaskToken, slot: u32, asker: TaskNumber) -> TaskNumber {
        self.made += 1;
        let task = JobTask {
            token,
            slot,
            asker,
            stage: TaskStage::Ordered,
            ending: false,
            used: Usage::default(),
        };
        self.known.insert(self.made, task);
        self.made
    }

    /// Removes the oldest finished tasks beyond [`MOST`].
    pub(super) fn bound(&mut self) {
        let over: Vec<TaskNumber> = self
            .known
            .iter()
            .filter(|(_, task)| !task.is_open())
            .map(|(&number, _)| number)
            .collect();
        for number in &over[..over.len().saturating_sub(MOST)] {
            self.known.remove(number);
        }
    }

    /// Returns the usage of the script and all tasks. Memory is the largest amount so far that was
    /// in use at the same time; `before` is the previous result.
    pub(super) fn total(&self, before: &Usage) -> Usage {
        let mut sum = self.script;
        sum.cput = sum.cput + self.past;
        for (_, task) in self.open() {
            sum.cput = sum.cput + task.used.cput;
            sum.mem_kb = sum.mem_kb.saturating_add(task.used.mem_kb);
            sum.vmem_kb = sum.vmem_kb.saturating_add(task.used.vmem_kb);
        }
        Usage {
            mem_kb: sum.mem_kb.max(before.mem_kb),
            vmem_kb: sum.vmem_kb.max(before.vmem_kb),
            ..sum
        }
    }
}

/// Returns the text of the node file (`PBS_NODEFILE`): one line for each MPI process, with the name
/// of its host.
pub fn node_file(shares: &[NodeShare]) -> String {
    slots(shares)
        .into_iter()
        .flat_map(|share| [share.host.as_str(), "\n"])
        .collect()
}

/// Returns the share of each line of the node file, in the order of [`NodeShare::ranks`] if all
/// shares have ranks (M9), otherwise in the order of the shares.
fn slots(shares: &[NodeShare]) -> Vec<&NodeShare> {
    let has_ranks = shares
        .iter()
        .all(|share| share.ranks.len() == share.mpiprocs as usize);
    if !has_ranks {
        return shares
            .iter()
            .flat_map(|share| std::iter::repeat_n(share, share.mpiprocs as usize))
            .collect();
    }
    let mut slots = Vec::new();
    for share in shares {
        slots.extend(share.ranks.iter().map(|&rank| (rank, share)));
    }
    slots.sort_by_key(|&(rank, _)| rank);
    slots.into_iter().map(|(_, share)| share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(cput: i64, mem_kb: u64) -> Usage {
        Usage {
            cput: Span(cput),
            mem_kb,
            ..Usage::default()
        }
    }

    #[test]
    fn usage_is_added_and_memory_is_the_maximum_in_use_at_the_same_time() {
        let mut tasks = Tasks {
            script: used(10, 100),
            ..Tasks::default()
        };
        let (one, two) = (tasks.make(1, 0, 0), tasks.make(2, 1, 0));
        tasks.known.get_mut(&one).unwrap().used = used(5, 50);
        tasks.known.get_mut(&two).unwrap().used = used(6, 60);
        let both = tasks.total(&Usage::default());
        assert_eq!((both.cput, both.mem_kb), (Span(21), 210));
        tasks.past = Span(5);
        tasks.known.get_mut(&one).unwrap().stage = TaskStage::Over(0);
        let later = tasks.total(&both);
        assert_eq!(
            (later.cput, later.mem_kb),
            (Span(21), 210),
            "nothing is counted twice"
        );
    }

    #[test]
    fn the_node_file_has_a_line_for_each_mpi_process_with_its_host() {
        let share = |host: &str, mpiprocs| NodeShare {
            node: format!("{host}[0]"),
            host: host.into(),
            taken: Vec::new(),
            cpus: Vec::new(),
            gpus: Vec::new(),
            mpiprocs,
            pooled: vec![],
            ranks: vec![],
        };
        assert_eq!(node_file(&[share("n1", 2), share("n2", 1)]), "n1\nn1\nn2\n");
    }

    #[test]
    fn the_oldest_finished_tasks_beyond_the_maximum_are_dropped() {
        let mut tasks = Tasks::default();
        for token in 1..=MOST as u64 + 10 {
            let number = tasks.make(token, 0, 0);
            tasks.known.get_mut(&number).unwrap().stage = TaskStage::Over(0);
        }
        let open = tasks.make(1 << 40, 0, 0);
        tasks.bound();
        assert_eq!(tasks.known.len(), MOST + 1);
        assert!(
            tasks.known.contains_key(&open)
                && !tasks.known.contains_key(&10)
                && tasks.known.contains_key(&11)
        );
    }
}
