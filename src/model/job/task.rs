//! The tasks of a job: processes that the job itself starts on its nodes, besides its script.
//!
//! A task belongs to an attempt and never outlives it. An attempt whose script is over is
//! *closing*: its tasks are being ended, it holds each node until the last of them is gone there,
//! and only when none is left may the job be started again. The script's exit status does not wait
//! for that.

use super::attempt::{Attempt, NodeShare, TaskNumber, Usage};
use crate::model::job_id::JobId;
use crate::model::time::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Made up at random by who asks for a task: asked for twice, it is one task. 0 is nobody's.
pub type TaskToken = u64;

/// Most tasks of one attempt that are not over; and most ends that are kept for who asks.
pub const MOST: usize = 4096;

/// The status of a task that could not be executed, or was lost with its node.
pub const NOT_EXECUTED: i32 = 254;

/// The tasks of one attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tasks {
    /// The number of the latest one.
    pub made: TaskNumber,
    /// Those that are not over, and those whose end somebody may still want to know.
    pub known: BTreeMap<TaskNumber, JobTask>,
    /// What the script has used, as last told.
    pub script: Usage,
    /// Processor time of the tasks that are over.
    pub past: Span,
    /// The script is over.
    pub closing: bool,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobTask {
    /// Who asked for it names it so.
    pub token: TaskToken,
    /// On which line of the node file it runs, counted from 0.
    pub slot: u32,
    /// Which task asked for it; 0 for the script.
    pub asker: TaskNumber,
    /// How it stands.
    pub stage: TaskStage,
    /// Whether its node has been told to end it.
    pub ending: bool,
    /// What it has used, until it is over.
    pub used: Usage,
}

/// Names a task of an attempt, or its script.
#[derive(Clone, Copy, Debug)]
pub struct TaskName {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: Attempt,
    /// The task; 0 is the script.
    pub task: TaskNumber,
}

/// How a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskStage {
    /// Its node has not yet said that it runs.
    Ordered,
    /// It runs.
    Running,
    /// It is over, with this status: 0 to 255 its own, 128+N for a signal, [`NOT_EXECUTED`].
    Over(i32),
}

impl JobTask {
    /// Whether it is not over.
    pub fn is_open(&self) -> bool {
        !matches!(self.stage, TaskStage::Over(_))
    }
}

impl Tasks {
    /// Those that are not over.
    pub fn open(&self) -> impl Iterator<Item = (TaskNumber, &JobTask)> {
        self.known
            .iter()
            .filter(|(_, task)| task.is_open())
            .map(|(&number, task)| (number, task))
    }

    /// Adds one.
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

    /// Forgets the oldest ends beyond [`MOST`].
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

    /// What the script and all tasks have used; the largest memory at one moment, as far as known.
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

/// The text of the node file: one line for each MPI process, in the order of the chunks.
pub fn node_file(shares: &[NodeShare]) -> String {
    slots(shares)
        .into_iter()
        .flat_map(|share| [share.host.as_str(), "\n"])
        .collect()
}

/// The share of each line of the node file: those it was dealt (M9), else those next to each other.
fn slots(shares: &[NodeShare]) -> Vec<&NodeShare> {
    let is_dealt = shares
        .iter()
        .all(|share| share.ranks.len() == share.mpiprocs as usize);
    if !is_dealt {
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
    fn usage_adds_up_and_memory_counts_what_was_there_at_one_time() {
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
    fn ends_that_nobody_asks_for_are_forgotten_beyond_a_number() {
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
