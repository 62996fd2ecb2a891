//! Messages about tasks: between a process of a job, such as pbsdsh, and the noded of its host, and
//! between noded and schedd.
//!
//! The process proves that it belongs to the job by the cookie of the attempt, a random value in
//! the environment. noded gets the user of the process from the kernel. The process chooses a token
//! for each task, so it can repeat every request.

use crate::model::job::run_limits::HostMemoryLimit;
use crate::model::job::task::{TaskStage, TaskToken};
use crate::model::job::{Attempt, TaskNumber};
use crate::model::job_id::JobId;
use crate::model::text::Text;
use serde::{Deserialize, Serialize};

/// Maximum size of a program's arguments and environment, in bytes.
pub const LARGEST: usize = 1 << 20;

/// Maximum size in bytes of the orders to nodes for one request to start tasks. Each task counts
/// [`TaskProgram::size`] + 1 KiB.
pub const LARGEST_TASK_SET: usize = 8 << 20;

/// A message of a job's process to its noded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TaskClientMessage {
    /// The first message: values from the environment of the process.
    Hello {
        /// `PBS_JOBID`, without the server.
        job: JobId,
        /// `LANAI_ATTEMPT`.
        attempt: Attempt,
        /// Number of the task to which the process belongs, from 0: `PBS_TASKNUM` minus 1.
        task: TaskNumber,
        /// `PBS_JOBCOOKIE`.
        cookie: String,
    },
    /// A further message. The process may send it before the reply to its previous message.
    Request(TaskRequestKind),
}

/// A request of a job's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TaskRequestKind {
    /// Start tasks. A task with a known token is not started again.
    Start(Box<TaskProgram>),
    /// Report the stages of these tasks now, and the end of each task when it has ended.
    Ask(Vec<TaskToken>),
    /// End these tasks.
    End(Vec<TaskToken>),
    /// Forget these tasks, because the process will not query them again.
    Release(Vec<TaskToken>),
}

/// The program of a set of tasks, and the places of the tasks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskProgram {
    /// The program and its arguments.
    pub words: Vec<Text>,
    /// Environment of the program: `K=V` entries, each ended by a zero byte.
    pub environ: Vec<u8>,
    /// The token of each task, and the number of the task's line in the node file, from 0.
    pub tasks: Vec<(TaskToken, u32)>,
}

impl TaskProgram {
    /// Returns the approximate size of one task in messages, in bytes.
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
    /// The request was refused for this reason.
    Refused(String),
    /// The stages of tasks.
    Stages(Vec<(TaskToken, TaskStage)>),
    /// Messages can have been lost, so the process must repeat requests for unfinished tasks.
    Again,
}

/// A request that noded passes on to schedd after checking the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskRequest {
    /// The job of the process.
    pub job: JobId,
    /// The attempt of the process.
    pub attempt: Attempt,
    /// The task to which the process belongs; 0 for the script.
    pub task: TaskNumber,
    /// The number that noded gave to the connection of the process.
    pub asker: u64,
    /// The request.
    pub kind: TaskRequestKind,
}

/// The script or task that a [`Launch`](super::order::Launch) starts, and its place among the tasks
/// of the attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskPlace {
    /// Number of the task; 0 for the script.
    pub task: TaskNumber,
    /// Number of the task's line in the node file, from 0: `PBS_VNODENUM`.
    pub slot: u32,
    /// Number of the host among the hosts of the attempt: `PBS_NODENUM`.
    pub host: u32,
    /// For a task: the text of the node file, because the shares in its launch are not complete.
    pub nodes: Option<String>,
    /// For a task: the memory limits of the attempt on this host.
    pub room: HostMemoryLimit,
}
