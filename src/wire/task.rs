//! Messages between a process of a job and the noded of its host, and those that noded passes
//! between the process and schedd.
//!
//! The process proves with its attempt's cookie that it belongs to the job, and the kernel provides
//! its user. Every request may be repeated: the process gives each task a unique token.

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

/// A message of a job's process to its noded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TaskClientMessage {
    /// The first message: the process and its attempt, from its environment.
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
    /// Then requests, each after the reply to the one before.
    Request(TaskRequestKind),
}

/// A request of a job's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TaskRequestKind {
    /// Start tasks, except known ones.
    Start(Box<TaskProgram>),
    /// Report the stages of these tasks now, and their ends later.
    Ask(Vec<TaskToken>),
    /// End these tasks.
    End(Vec<TaskToken>),
    /// Forget these tasks: the process will not query them again.
    Release(Vec<TaskToken>),
}

/// The program of a set of tasks, and their places.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskProgram {
    /// The program and its arguments.
    pub words: Vec<Text>,
    /// Environment of the program: `K=V` entries, each ended by a zero byte.
    pub environ: Vec<u8>,
    /// The tasks: the token of each, and its line of the node file, counted from 0.
    pub tasks: Vec<(TaskToken, u32)>,
}

impl TaskProgram {
    /// Approximate size of one task in messages, in bytes.
    pub fn size(&self) -> usize {
        self.environ.len()
            + self
                .words
                .iter()
                .map(|word| word.0.len() + 32)
                .sum::<usize>()
    }
}

/// A message of noded to a job's process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TaskNews {
    /// The reply to [`TaskClientMessage::Hello`].
    Welcome,
    /// Nothing was done, for this reason.
    Refused(String),
    /// The stages of tasks.
    Stages(Vec<(TaskToken, TaskStage)>),
    /// Messages may have been lost: repeat requests for tasks that have not ended.
    Again,
}

/// A request that noded passes on after checking the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskRequest {
    /// The process's job.
    pub job: JobId,
    /// Attempt of that job.
    pub attempt: Attempt,
    /// The task that the process belongs to; 0 for the script.
    pub task: TaskNumber,
    /// noded's number of the connection.
    pub asker: u64,
    /// The request.
    pub kind: TaskRequestKind,
}

/// The process of an attempt that a launch starts, and its place among the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskPlace {
    /// Number of the task; 0 for the script.
    pub task: TaskNumber,
    /// Line of the node file, counted from 0: `PBS_VNODENUM`.
    pub slot: u32,
    /// Number of the host in the attempt: `PBS_NODENUM`.
    pub host: u32,
    /// The text of the node file, for a task: its launch contains only its own share.
    pub nodes: Option<String>,
    /// The memory limits of the attempt on this host, for a task.
    pub room: HostMemoryLimit,
}
