//! Resources and tasks of an attempt, and the resources that a job occupies.

use super::attempt::{NodeShare, TaskNumber, Usage};
use super::task::{TaskStage, Tasks};
use super::{Job, Run};
use crate::model::time::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Tasks of an attempt that has started no task.
static NONE: Tasks = Tasks {
    made: 0,
    known: BTreeMap::new(),
    script: Usage {
        walltime: Span(0),
        cput: Span(0),
        mem_kb: 0,
        vmem_kb: 0,
        ncpus: 0,
    },
    past: Span(0),
    closing: false,
};

impl Run {
    /// Returns the tasks that the job started.
    pub fn tasks(&self) -> &Tasks {
        self.tasks.as_deref().unwrap_or(&NONE)
    }

    /// Returns a mutable reference to the tasks.
    pub fn tasks_mut(&mut self) -> &mut Tasks {
        self.tasks.get_or_insert_default()
    }

    /// Tests whether the script has not ended.
    pub fn has_script(&self) -> bool {
        self.open && !self.tasks().closing
    }

    /// Returns the share to which a line of the node file belongs; `slot` is the number of the
    /// line, from 0. None if no share has this line, or the share with this line was released.
    pub fn share_of_slot(&self, slot: u32) -> Option<&NodeShare> {
        if let Some(dealt) = self.shares.iter().find(|share| share.ranks.contains(&slot)) {
            return Some(dealt);
        }
        let mut left = slot;
        self.shares
            .iter()
            .filter(|share| share.ranks.is_empty())
            .find(|share| {
                let here = left < share.mpiprocs;
                left = left.saturating_sub(share.mpiprocs);
                here
            })
    }

    /// Returns the share on which a task runs, even if the share was released. The script runs on
    /// the first share. None if the task is unknown.
    pub fn share_of_task(&self, number: TaskNumber) -> Option<&NodeShare> {
        match number {
            0 => self.shares.first(),
            _ => {
                let slot = self.tasks().known.get(&number)?.slot;
                let mut past = self.released.iter().map(|released| &released.share);
                self.share_of_slot(slot)
                    .or_else(|| past.find(|share| share.ranks.contains(&slot)))
            }
        }
    }

    /// Returns the number of lines of the node file.
    pub fn slots(&self) -> u32 {
        self.shares
            .iter()
            .fold(0, |sum, share| sum.saturating_add(share.mpiprocs))
    }

    /// Returns the numbers of the remaining lines, in the order of the node file. A released share
    /// loses its lines in the file, but the numbers of all other lines stay the same. None if no
    /// share was released, in which case the lines have consecutive numbers from 0.
    pub fn places(&self) -> Option<Vec<u32>> {
        if self.released.is_empty() {
            return None;
        }
        let mut numbers: Vec<u32> = self
            .shares
            .iter()
            .flat_map(|share| &share.ranks)
            .copied()
            .collect();
        numbers.sort_unstable();
        Some(numbers)
    }

    /// Returns the position of a host among the hosts of the attempt (`PBS_NODENUM`); 0 for other
    /// hosts.
    pub fn host_number(&self, host: &str) -> u32 {
        let mut hosts: Vec<&str> = Vec::new();
        for share in &self.shares {
            if !hosts.contains(&share.host.as_str()) {
                hosts.push(&share.host);
            }
        }
        hosts.iter().position(|known| *known == host).unwrap_or(0) as u32
    }
}

impl Job {
    /// Returns the node of the script, from the decision to start the job until the end of the
    /// script; None at other times.
    pub fn script_node(&self) -> Option<&str> {
        self.life
            .open_run()
            .filter(|run| run.has_script())
            .and_then(|run| run.shares.first())
            .map(|share| share.node.as_str())
    }

    /// Returns the shares that the job occupies. A job that runs or is suspended occupies all its
    /// shares. A job in another state occupies, while its attempt is open, the shares on nodes
    /// where the script or a task has not ended. A released share is occupied while a task runs on
    /// it.
    pub fn held(&self) -> Vec<NodeShare> {
        let Some(run) = self.life.open_run() else {
            return Vec::new();
        };
        if self.life.state.is_under_way() {
            return run.shares.iter().chain(run.lingering()).cloned().collect();
        }
        let mut busy: BTreeSet<&str> = run
            .tasks()
            .open()
            .filter_map(|(number, _)| run.share_of_task(number))
            .map(|share| share.node.as_str())
            .collect();
        busy.extend(self.script_node());
        let kept = run
            .shares
            .iter()
            .filter(|share| busy.contains(share.node.as_str()));
        kept.chain(run.lingering()).cloned().collect()
    }

    /// Records the present usage of a task; task 0 is the script.
    pub fn record_task_usage(&mut self, number: TaskNumber, used: Usage) {
        let Some(run) = self.life.run.as_mut().filter(|run| run.open) else {
            return;
        };
        let tasks = run.tasks_mut();
        match (number, tasks.known.get_mut(&number)) {
            // The usage of an ended script is final.
            (0, _) if tasks.closing => return,
            (0, _) => tasks.script = used,
            (_, Some(task)) if task.is_open() => task.used = used,
            _ => return,
        }
        self.life.used = tasks.total(&self.life.used);
    }

    /// Records the end of a task. The attempt ends when the script and all tasks have ended.
    pub fn record_task_end(&mut self, number: TaskNumber, status: i32, used: Usage) {
        self.record_task_usage(number, used);
        let Some(run) = self.life.run.as_mut().filter(|run| run.open) else {
            return;
        };
        let tasks = run.tasks_mut();
        let Some(task) = tasks.known.get_mut(&number).filter(|task| task.is_open()) else {
            return;
        };
        tasks.past = tasks.past + task.used.cput;
        (task.stage, task.used) = (TaskStage::Over(status), Usage::default());
        if task.token == 0 || tasks.closing {
            tasks.known.remove(&number);
        }
        tasks.bound();
        run.open = !tasks.closing || tasks.open().next().is_some();
    }

    /// Records the end of the script, and its usage if known. The exit statuses of tasks are
    /// dropped. The attempt stays open while tasks run.
    pub(super) fn close_run(&mut self, used: Option<Usage>) {
        let Some(run) = self.life.run.as_mut() else {
            return;
        };
        run.open = false;
        self.life.used = used.unwrap_or(self.life.used);
        if let Some(tasks) = &mut run.tasks {
            tasks.closing = true;
            tasks.known.retain(|_, task| task.is_open());
            run.open = !tasks.known.is_empty();
            tasks.script = used.unwrap_or(tasks.script);
            self.life.used = tasks.total(&self.life.used);
        }
    }
}
