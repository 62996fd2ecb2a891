//! Messages between a process of a job and the noded of its host, and those that noded passes on to
//! schedd and back.
//!
//! The process proves by its attempt's cookie that it belongs to the job, and the kernel names its
//! user. Every request may be repeated: the process gives each task a token of its own.

use crate::model::job::run_limits::HostMemoryLimit;
use crate::model::job::task::{TaskStage, TaskToken};
use crate::model::job::{Attempt, TaskNumber};
use crate::model::job_id::JobId;
use crate::model::text::Text;
use serde::{Deserialize, Serialize};

/// Largest program with its arguments and environment, in bytes.
pub const LARGEST: usize = 1 << 20;

/// Largest size in bytes of a task request on its way to the nodes: (size + 1 KiB) for each task.
pub const LARGEST_TASK_SET: usize = 8 << 20;

/// What a process of a job says to its noded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Plea {
    /// First: which process of which attempt, by what stands in its environment.
    Hello {
        /// `PBS_JOBID`, without the server.
        job: JobId,
        /// `LANAI_ATTEMPT`.
        attempt: Attempt,
        /// `PBS_TASKNUM`, counted from 0.
        task: TaskNumber,
        /// `PBS_JOBCOOKIE`.
        cookie: String,
    },
    /// Then one after another, each when the last has been answered.
    Request(TaskRequestKind),
}

/// What a process of a job wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TaskRequestKind {
    /// Start tasks, unless they are known.
    Start(Box<TaskProgram>),
    /// Reports the stages of these tasks now, and later their ends.
    Ask(Vec<TaskToken>),
    /// End these.
    End(Vec<TaskToken>),
    /// Forget these tasks: the process will not ask for them again.
    Release(Vec<TaskToken>),
}

/// What tasks run, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskProgram {
    /// The program and its arguments.
    pub words: Vec<Text>,
    /// Its environment: `K=V` entries, each ended by a zero byte.
    pub environ: Vec<u8>,
    /// The tasks: the token of each, and its line of the node file, counted from 0.
    pub tasks: Vec<(TaskToken, u32)>,
}

impl TaskProgram {
    /// What one task of it comes to on its way, in bytes.
    pub fn size(&self) -> usize {
        self.environ.len()
            + self
                .words
                .iter()
                .map(|word| word.0.len() + 32)
                .sum::<usize>()
    }
}

/// What noded says to a process of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TaskNews {
    /// To [`Plea::Hello`].
    Welcome,
    /// Nothing was done, and why.
    Refused(String),
    /// How tasks stand.
    Stages(Vec<(TaskToken, TaskStage)>),
    /// Something may have been lost on the way: ask again for what is not yet over.
    Again,
}

/// A wish as noded passes it on, having seen who has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskRequest {
    /// The process's job.
    pub job: JobId,
    /// Its attempt.
    pub attempt: Attempt,
    /// Which of its tasks it belongs to; 0 for the script.
    pub task: TaskNumber,
    /// The connection, by noded's number.
    pub asker: u64,
    /// The request.
    pub kind: TaskRequestKind,
}

/// Which process of an attempt a launch starts, and where it stands among the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskPlace {
    /// Its number; 0 for the script.
    pub task: TaskNumber,
    /// Its line of the node file, counted from 0: `PBS_VNODENUM`.
    pub slot: u32,
    /// Its host among the attempt's: `PBS_NODENUM`.
    pub host: u32,
    /// The text of the node file, for a task: its launch names no shares but its own.
    pub nodes: Option<String>,
    /// What the attempt may take of its host, with all it runs there, for a task.
    pub room: HostMemoryLimit,
}
